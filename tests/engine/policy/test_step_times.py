"""What rounds teach of their times: which of them count, and how much."""

import random

import pytest

from engine.policy.step_times import PriorPrices, StepTimes
from tests.engine.policy.simulation import Learnt, adaptive, costs_of, flags, speed

PLAIN_S = 0.02


@pytest.fixture
def times() -> StepTimes:
    found = StepTimes([PriorPrices("drafter", {1: 1.6, 2: 2.2, 4: 3.4, 8: 5.8})])
    found.begin(0)
    return found


def test_a_first_round_that_was_late_is_soon_found_out(times: StepTimes) -> None:
    """No other program makes a plain round early, so those after it count in full however far off they seem."""
    for late in (1.7, 1.7, 1.0, 1.0, 1.0):
        times.observe_plain(late * PLAIN_S)
    assert times.plain_s < 1.25 * PLAIN_S


def test_a_round_that_is_late_counts_less_than_one_that_is_not(times: StepTimes) -> None:
    for number in range(1, 201):
        times.observe_plain((2 if number % 5 == 0 else 1) * PLAIN_S)
        assert number < 60 or times.plain_s < 1.025 * PLAIN_S


def test_nothing_is_quicker_than_a_plain_step_within_a_run(times: StepTimes) -> None:
    for _ in range(5):
        times.observe_plain(PLAIN_S)
    for _ in range(20):
        times.observe_run(1, 0.9 * PLAIN_S)
        times.observe_draft(0, 1, 0.9 * PLAIN_S)
    assert times.lone >= 1 and times.price(0, 1) >= 1
    assert times.plain_s == pytest.approx(0.9 * PLAIN_S, rel=0.02)


@pytest.mark.parametrize("seed", range(4))
def test_drafted_rounds_that_differ_by_chance_tell_nothing_of_plain_ones(times: StepTimes, seed: int) -> None:
    """With experts the time of a drafted round depends on its tokens."""
    for _ in range(100):
        times.observe_plain(PLAIN_S)
    rng = random.Random(seed)
    for _ in range(60):
        times.observe_draft(0, 4, 3.4 * rng.lognormvariate(0, 0.2) * PLAIN_S)
        assert times.plain_s == pytest.approx(PLAIN_S, rel=0.02)
    assert times.price(0, 4) == pytest.approx(3.4, rel=0.1)


@pytest.mark.parametrize("draft", ["free", "head", "small model"])
def test_rare_probes_teach_what_rounds_take_without_what_was_read_before_them(draft: str) -> None:
    """Here a second row of the verify pass takes 0.83 plain steps more, none of which the drafter spends on reading."""
    costs = costs_of("M3 Ultra, 4 bit", draft)
    learnt = Learnt.prior(costs)
    for seed in range(6):
        speed(adaptive(learnt), costs, flags("drifting", seed))
    learnt.times.begin(0)
    assert learnt.times.price(0, 1) == pytest.approx(costs.round_s(1), rel=0.03)
