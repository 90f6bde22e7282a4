"""What drafting may lose against plain decoding."""

import pytest

from engine.policy.adaptive import BUDGET_SHARE, MAX_BUDGET, MAX_BUDGET_START, SlowdownBudget


def test_a_budget_bounds_what_a_reply_can_lose() -> None:
    budget, spent, tokens = SlowdownBudget(), 0.0, 256
    for _ in range(tokens):
        price = 2.5 if budget.covers(2.5) else 1.0
        budget.book(1, price)
        spent += price
    assert 1.005 * tokens < spent <= (1 + BUDGET_SHARE) * tokens + MAX_BUDGET_START


def test_gains_are_kept_up_to_a_limit() -> None:
    budget = SlowdownBudget()
    assert budget.covers(1 + MAX_BUDGET_START)
    assert not budget.covers(1.01 + MAX_BUDGET_START)
    for _ in range(100):
        budget.book(9, 2.0)
    assert budget.left == MAX_BUDGET


@pytest.mark.parametrize(("tokens", "left"), [(16, 0.32), (64, 1.28), (1000, 3.0)])
def test_a_short_reply_may_lose_less(tokens: int, left: float) -> None:
    assert SlowdownBudget(tokens).left == pytest.approx(left)
