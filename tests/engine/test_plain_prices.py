"""Plain steps that run ahead are cheaper than those that wait to know they are plain: what the policy makes of it."""

from dataclasses import replace

import pytest

from engine.adaptive import Adaptive, Candidate
from engine.costs import Costs
from tests.engine.simulation import FLAT, told

AHEAD = Costs(((1, 1.0), (9, 1.8)), ((0, 0.0), (8, 0.0)), plain=0.8)


def alone(costs: Costs, gated: bool = False) -> Adaptive:
    return Adaptive([Candidate("drafter", costs, gated=gated)])


def test_what_runs_ahead_of_a_refused_draft_is_a_plain_step() -> None:
    """No plan was asked for then: the last one, and what its gate refused, count once."""
    costs = Costs(((1, 1.0), (9, 1.8)), ((0, 0.0), (1, 0.1), (8, 0.8)), plain=0.8)
    policy = alone(costs, gated=True)
    gate = policy.plan().gate
    assert gate is not None
    gate.takes(0.01)
    policy.observe(told(0, 0))
    believed = policy._candidates[0].outlook.expected(None)[1]
    left = policy._purse.left
    for _ in range(20):
        policy.observe(told(0, 0))
    assert policy._purse.left > left
    assert policy._candidates[0].outlook.expected(None)[1] >= believed
    assert policy._candidates[0].wait == 20


def test_a_plain_step_that_was_not_sure_costs_more_than_one_that_was() -> None:
    policy = alone(AHEAD)
    spent = []
    for planned in (True, True, False):
        left = policy._purse.left
        if planned:
            policy.plan((0.0,))
        policy.observe(told(0, 0))
        spent.append(left - policy._purse.left)
    assert spent[0] == pytest.approx(spent[2])  # nobody could launch the first ahead
    assert spent[1] == pytest.approx(spent[0] + 0.25)


def test_those_that_hint_are_not_listened_to_where_that_cannot_be_paid_for() -> None:
    policy = alone(AHEAD)
    policy.begin(64)
    sure = []
    for _ in range(12):
        policy.plan((0.0,))
        sure.append(policy.plain_next())
        policy.observe(told(0, 0))
    assert sure == [False] * 6 + [True] * 6


def test_a_short_reply_may_lose_less_at_once() -> None:
    left = []
    for tokens in (16, 64, 1000):
        policy = alone(FLAT)
        policy.begin(tokens)
        left.append(policy._purse.left)
    assert left == [pytest.approx(0.32), pytest.approx(1.28), 2.4]


def test_one_token_is_drafted_without_a_gate_where_that_is_cheaper() -> None:
    costs = Costs(((1, 1.0), (2, 1.4), (9, 6.0)), ((0, 0.0), (1, 0.1), (8, 0.8)), eager=1.3)
    plan = alone(costs, gated=True).plan()
    assert (plan.length, plan.gate) == (1, None)
    asked = alone(replace(costs, eager=None), gated=True).plan()
    assert asked.gate is not None
    ungated = alone(costs)
    assert ungated._candidates[0].price(1) == 1.5
