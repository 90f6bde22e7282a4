"""Plain steps that run ahead are cheaper than those that wait to know they are plain: what the policy makes of it."""

from dataclasses import replace

import pytest

from engine.policy.adaptive import Adaptive, Candidate
from engine.policy.costs import Costs
from engine.policy.expected_length import ChainExpectedLength
from tests.engine.policy.simulation import round_of
from tests.engine.policy.test_adaptive import alone

AHEAD = Costs(((1, 1.0), (9, 1.8)), ((0, 0.0), (8, 0.0)), plain=0.8)


def test_what_runs_ahead_of_a_refused_draft_is_a_plain_step() -> None:
    """No plan was requested then: the last one counts once."""
    costs = Costs(((1, 1.0), (9, 1.8)), ((0, 0.0), (1, 0.1), (8, 0.8)), plain=0.8)
    policy = alone(costs)
    assert policy.plan().length > 0
    policy.observe(round_of(0, 0))
    believed = policy._candidates[0].expected_length.expected(None)[1]
    left = policy._budget.left
    for _ in range(20):
        policy.observe(round_of(0, 0))
    assert policy._budget.left > left
    assert policy._candidates[0].expected_length.expected(None)[1] >= believed


def test_a_plain_step_that_was_not_sure_costs_more_than_one_that_was() -> None:
    policy = alone(AHEAD)
    spent = []
    for planned in (True, True, False):
        left = policy._budget.left
        if planned:
            policy.plan((0.0,))
        policy.observe(round_of(0, 0))
        spent.append(left - policy._budget.left)
    assert spent[0] == pytest.approx(spent[2])  # nobody could launch the first ahead
    assert spent[1] == pytest.approx(spent[0] + 0.25)


def test_those_that_hint_are_not_listened_to_where_that_cannot_be_paid_for() -> None:
    policy = alone(AHEAD)
    policy.begin(64)
    sure = []
    for _ in range(12):
        policy.plan((0.0,))
        sure.append(policy.next_is_plain())
        policy.observe(round_of(0, 0))
    assert sure == [False] * 4 + [True] * 8


def test_a_round_is_priced_as_it_was_measured_whole() -> None:
    costs = Costs(((1, 1.0), (2, 1.4), (9, 6.0)), ((0, 0.0), (1, 0.1), (8, 0.8)), eager=1.3)
    assert Candidate("head", costs).prices[1] == pytest.approx(1.3)
    assert Candidate("head", replace(costs, eager=None)).prices[1] == pytest.approx(1.5)


def test_what_hints_has_no_advantage_over_what_does_not() -> None:
    """Both would cost the same in the place of the same plain step, and the head is right more often."""
    policy = Adaptive([Candidate(name, AHEAD, ChainExpectedLength(1)) for name in ("lookup", "head")])
    lookup, head = (candidate.expected_length for candidate in policy._candidates)
    for _ in range(12):
        for kept in (1, 0, 1, 0):
            lookup.learn(round_of(1, kept), 1.0)
        for kept in (1, 0, 1, 1):
            head.learn(round_of(1, kept), None)
    policy._budget.left = 15.0
    assert policy.plan((1.0, None)).drafter == 1


def test_a_copy_is_taken_up_after_any_number_of_false_ones() -> None:
    """Waiting for those that hint spends nothing that a draft of theirs could not pay for."""
    policy = alone(AHEAD)
    policy.begin(2000)
    drafts, sure = 0, True
    for at in range(1200):
        hint = 1.0 if at % 6 == 0 or at > 500 else 0.0
        length = 0
        if not (at and sure):
            length = policy.plan((hint,)).length
        drafts += at > 500 and length > 0
        sure = not length and (policy.next_is_plain() or policy.next_is_plain(hint == 0))
        policy.observe(round_of(length, length if at > 500 else 0))
    assert drafts > 0
