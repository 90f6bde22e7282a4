"""The adaptive policy over whole replies: 0.97 of the best fixed length in hindsight, never under 0.978 of plain."""

from statistics import mean

import pytest

from engine.policy.fixed import FixedLength
from tests.engine.policy.bound import bound
from tests.engine.policy.simulation import CURVES, LONGEST, TOKENS, Case, adaptive, cases, costs_of, flags, speed

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def found() -> list[Case]:
    return list(cases(seeds=2))


@pytest.mark.slow
def test_no_reply_is_slower_than_plain_by_more_than_the_budget(found: list[Case]) -> None:
    assert min(case.plain for case in found) >= 0.978


def test_it_comes_near_the_best_fixed_length_in_hindsight(found: list[Case]) -> None:
    """From a cold start, luck of the text included. Not all cases reach 0.97, nor could they where a first row is dear:
    see the bound below. Single cases hang on the luck of two texts."""
    assert mean(case.hindsight for case in found) >= 1.0
    assert sum(case.hindsight >= 0.97 for case in found) >= 0.94 * len(found)
    assert sum(case.one_length >= 0.97 for case in found) >= 0.94 * len(found)
    assert min(case.hindsight for case in found) >= 0.75


def test_bursts_are_answered_better_than_any_fixed_length_could() -> None:
    costs = costs_of("flat", "small model")
    right = flags("bursts of 64", 1)
    assert speed(adaptive(costs), costs, right) > 1.01 * max(
        speed(FixedLength(length), costs, right) for length in range(LONGEST + 1)
    )


@pytest.mark.parametrize("curve", CURVES)
def test_a_random_drafter_costs_next_to_nothing(curve: str) -> None:
    costs = costs_of(curve, "head")
    lengths: list[int] = []
    assert speed(adaptive(costs), costs, [False] * (TOKENS + LONGEST), lengths) >= 0.978
    all_but_free = costs.round_s(1) < 1.06  # where a second row costs nothing, the budget pays for more drafts
    assert sum(map(bool, lengths)) < TOKENS / (3 if all_but_free else 4)


@pytest.mark.slow
def test_where_a_first_row_is_dear_no_policy_reaches_the_goal() -> None:
    """So the few cases below 0.97 are no proof that there is a better policy: this one is told how often the drafter
    is right, and all it may lose is lent to it at once."""
    assert bound("jump", "head", "50% right") < 0.97
    assert bound("flat", "free", "50% right") > 0.97
