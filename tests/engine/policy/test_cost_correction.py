"""Costs corrected by the clock: what has moved is found, what has not is left alone, noise misleads nobody."""

import math

import pytest

from engine.events import Round
from engine.policy.adaptive import Adaptive, Candidate
from engine.policy.cost_correction import CostCorrection
from engine.policy.costs import Costs
from tests.engine.policy.simulation import FLAT, round_of


def corrected(plain: float, drafted: float, rounds: int = 200, plain_every: int = 4) -> float:
    """Returns the factor after rounds that took so many times as long as predicted."""
    correction = CostCorrection()
    for i in range(rounds):
        is_plain = i % plain_every == 0
        correction.observe(not is_plain, plain if is_plain else drafted, 1.0)
    return correction.factor


@pytest.mark.parametrize("factor", [0.6, 1.0, 1.7])
def test_a_machine_that_is_slower_or_faster_for_everything_changes_nothing(factor: float) -> None:
    assert corrected(factor, factor) == pytest.approx(1.0, abs=0.02)


@pytest.mark.parametrize(("drafted", "factor"), [(1.65, 1.5), (0.77, 0.7), (50.0, 2.0), (0.01, 0.5)])
def test_drafted_rounds_that_are_dearer_or_cheaper_are_found_up_to_a_limit(drafted: float, factor: float) -> None:
    assert corrected(1.1, drafted) == pytest.approx(factor, rel=0.08)


@pytest.mark.parametrize(
    ("drafted", "rounds", "refutes"), [(1.5, 200, True), (0.6, 200, True), (1.5, 30, False), (1.2, 200, False)]
)
def test_many_rounds_far_from_what_the_costs_say_refute_them(drafted: float, rounds: int, refutes: bool) -> None:
    correction = CostCorrection()
    for i in range(rounds):
        correction.observe(i % 4 > 0, drafted if i % 4 else 1.0, 1.0)
    assert correction.refutes == refutes


def test_one_late_round_says_little() -> None:
    correction = CostCorrection()
    correction.observe(True, 50.0, 1.0)
    assert 1.0 < correction.factor < 1.2


def test_a_correction_fades_where_drafting_is_not_tried() -> None:
    correction = CostCorrection()
    for _ in range(200):
        correction.observe(True, 2.0, 1.0)
    for _ in range(1000):
        correction.observe(False, 1.0, 1.0)
    assert 1.0 < correction.factor < 1.2


@pytest.mark.parametrize("seconds", [0.0, -1.0, math.nan, math.inf])
def test_impossible_times_are_left_out(seconds: float) -> None:
    correction = CostCorrection()
    correction.observe(True, seconds, 1.0)
    assert correction.factor == 1.0


class Recording(CostCorrection):
    """Writes down the times that it is given."""

    def __init__(self) -> None:
        super().__init__()
        self.seen: list[tuple[bool, float]] = []

    def observe(self, drafted: bool, measured_s: float, predicted_s: float) -> None:
        if not math.isnan(measured_s):  # the first round of a reply
            self.seen.append((drafted, measured_s))


def test_a_round_that_drafted_nothing_though_asked_is_neither_plain_nor_drafted() -> None:
    correction = Recording()
    policy = Adaptive([Candidate("lookup", FLAT)], correction)
    for i in range(40):
        assert policy.plan([1.0]).length
        policy.observe(Round(0, (7,), (), 0, (1.0,), (), 1, 9.0 * i))
    assert not correction.seen


def test_rounds_at_the_edges_of_a_plain_run_are_not_timed() -> None:
    """Where submitting waits for the device, the first is reported a pass late and the last a pass early; one by itself
    is reported when it is done."""
    correction, clock_s = Recording(), 0.0
    dear = Costs(((1, 1.0), (9, 10.0)), ((0, 0.0), (8, 8.0)))
    policy = Adaptive([Candidate("head", dear)], correction)
    for run in (1, 4, 1, 2, 3):
        for i in range(run):
            if i == 0:
                assert not policy.plan().length
            followed = i + 1 < run and policy.next_is_plain()
            clock_s += {(True, True): 2.0, (False, False): 0.1}.get((i == 0, followed), 1.0)
            policy.observe(round_of(0, 0, clock_s))
    assert correction.seen == [(False, pytest.approx(1.0))] * 4
