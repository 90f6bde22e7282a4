"""Costs corrected by the clock: what has moved is found, what has not is left alone, noise fools nobody."""

import math
import random
from collections.abc import Callable, Iterator
from dataclasses import replace
from statistics import mean

import pytest

from engine.adaptive import TIMING, Adaptive, Candidate
from engine.costs import Costs
from engine.drift import FEWEST, LATER, MOST, SELDOM, SOON, STEP, Drift
from engine.events import Round
from tests.engine.simulation import TOKENS, best_fixed, costs_of, flags, speed, told

FLAT = Costs(((1, 1.0), (9, 1.1)), ((0, 0.0), (1, 0.02), (8, 0.16)))


def timed(factors: dict[int, float], rounds: int = 60, late: Callable[[int], float] = lambda _: 1.0) -> Drift:
    """After rounds of so many drafted tokens in turn, each as much longer than expected as its factor says."""
    drift = Drift()
    for i in range(rounds):
        for drafted, factor in factors.items():
            drift.saw(0, drafted, factor * late(i), 1.0)
    return drift


def test_a_machine_that_is_slower_for_everything_changes_nothing() -> None:
    drift = timed({0: 1.7, 2: 1.7, 5: 1.7})
    assert [drift.factor(0, n) for n in (0, 2, 5)] == pytest.approx([1.0, 1.0, 1.0])


def test_it_finds_what_has_become_dearer_or_cheaper_against_plain_rounds() -> None:
    drift = timed({0: 1.1, 2: 1.65, 5: 0.88})
    assert drift.factor(0, 2) == pytest.approx(1.5, rel=0.05)
    assert drift.factor(0, 5) == pytest.approx(0.8, rel=0.05)
    assert drift.factor(0, 0) == 1.0


def test_a_length_that_was_never_seen_is_judged_by_the_nearest_of_its_drafter() -> None:
    drift = timed({0: 1.0, 2: 1.5, 6: 2.0})
    assert drift.factor(0, 3) == drift.factor(0, 2) != drift.factor(0, 6) == drift.factor(0, 8)
    assert drift.factor(1, 3) == 1.0


def test_without_plain_rounds_nothing_is_believed() -> None:
    assert timed({4: 3.0}).factor(0, 4) == 1.0


def test_a_round_moves_it_by_a_step_and_all_of_them_by_no_more_than_the_most() -> None:
    drift, before = timed({0: 1.0}, FEWEST), 0.0
    for _ in range(100):
        drift.saw(0, 3, 50.0, 1.0)
        now = math.log(drift.factor(0, 3))
        assert now - before <= STEP + 1e-9
        before = now
    assert before == pytest.approx(MOST)


@pytest.mark.parametrize("seconds", [0.0, -1.0, math.nan, math.inf])
def test_times_that_are_none_do_no_harm(seconds: float) -> None:
    drift = timed({0: 1.0, 3: 1.2})
    drift.saw(0, 3, seconds, 1.0)
    drift.saw(0, 0, seconds, 1.0)
    assert drift.factor(0, 3) == pytest.approx(1.2, rel=0.05)


def test_rounds_that_come_late_now_and_then_are_no_evidence() -> None:
    drift = timed({0: 1.0, 4: 1.0}, late=lambda i: 5.0 if i % 4 == 3 else 1.0)
    assert drift.factor(0, 4) == pytest.approx(1.0)


def test_a_plain_round_is_wanted_soon_then_seldom() -> None:
    drift = Drift()
    for waits in (*[SOON] * FEWEST, LATER, LATER):
        rounds = 0
        while not drift.wants_plain(clear=False):
            drift.saw(0, 2, 1.0, 1.0)
            rounds += 1
        assert rounds == waits
        drift.saw(0, 0, 1.0, 1.0)
    for _ in range(LATER):
        drift.saw(0, 2, 1.0, 1.0)
    assert drift.wants_plain(clear=False) and not drift.wants_plain(clear=True)
    assert SELDOM > LATER


# --- over whole replies -------------------------------------------------------------------------------


def clock(seed: str) -> Callable[[], float]:
    """A machine that does other things too: rounds vary by a tenth, and one in twenty takes twice or four times."""
    rng = random.Random(seed)
    return lambda: math.exp(rng.gauss(0, 0.1)) * (rng.choice((2, 4)) if rng.random() < 0.05 else 1.0)


def wrong(costs: Costs, factor: float) -> Costs:
    """The same, but for wide passes, which are taken to be so many times as dear, if no cheaper than narrow ones."""
    return replace(costs, verify=((1, 1.0), *((width, max(s * factor, 1.0)) for width, s in costs.verify[1:])))


def replies(
    believed: Costs, true: Costs, text: str, drift: Drift | None, count: int = 4
) -> Iterator[tuple[float, float]]:
    """Of each reply, its speed against plain decoding and against the best fixed length."""
    late = clock(text)
    for seed in range(count):
        policy = Adaptive([Candidate("drafter", believed)], drift)
        found = speed(policy, true, flags(text, seed), late=late)
        yield found, found / best_fixed(true, text, seed)


CASES = [
    (curve, draft, text)
    for curve in ("M4 Pro", "here", "jump", "M5 Max, 70B")
    for draft in ("head", "small model")
    for text in ("0% right", "50% right", "80% right", "bursts of 64")
]


def test_costs_that_are_right_stay_as_good_as_right() -> None:
    shares = []
    for curve, draft, text in CASES:
        costs = costs_of(curve, draft)
        without = mean(share for _, share in replies(costs, costs, text, None))
        shares.append(mean(share for _, share in replies(costs, costs, text, Drift())) / without)
    assert mean(shares) >= 0.985
    assert min(shares) >= 0.93


def test_passes_that_became_twice_as_dear_are_noticed_before_they_cost_much() -> None:
    """The costs on disk would have it draft at less than 0.8 of the speed of plain decoding."""
    believing, noticing = [], []
    for curve, draft, text in CASES:
        costs = costs_of(curve, draft)
        believing += [plain for plain, _ in replies(wrong(costs, 0.5), costs, text, None)]
        noticing += [plain for plain, _ in replies(wrong(costs, 0.5), costs, text, Drift())]
    assert min(believing) < 0.8
    assert min(noticing) >= 0.93
    assert sum(plain < 0.97 for plain in noticing) < 0.5 * sum(plain < 0.97 for plain in believing)


def test_passes_that_became_cheaper_are_made_use_of() -> None:
    costs = costs_of("M4 Pro", "head")
    believing = mean(share for _, share in replies(wrong(costs, 2.0), costs, "80% right", None))
    noticing = mean(share for _, share in replies(wrong(costs, 2.0), costs, "80% right", Drift()))
    assert noticing > 1.05 * believing


# --- in the policy ------------------------------------------------------------------------------------


def rounds_of(policy: Adaptive, late: Callable[[], float]) -> list[int]:
    lengths: list[int] = []
    speed(policy, FLAT, flags("50% right", 3), lengths, late)
    return lengths


def test_without_it_the_clock_changes_no_round() -> None:
    one, other = (rounds_of(Adaptive([Candidate("head", FLAT)]), clock(seed)) for seed in ("a", "b"))
    assert one == other


def test_a_plain_round_to_compare_with_says_so() -> None:
    policy, reasons = Adaptive([Candidate("head", FLAT)], Drift()), []
    for i in range(TOKENS):
        plan = policy.plan()
        reasons.append(plan.reason)
        policy.observe(told(plan.length, plan.length, 0.5 * i))
    assert 2 <= reasons.count(TIMING) <= 3 + TOKENS // SELDOM


def test_a_round_that_drafted_nothing_though_asked_is_neither_plain_nor_a_draft() -> None:
    drift = Drift()
    policy = Adaptive([Candidate("lookup", FLAT)], drift)
    time_s = 0.0
    for _ in range(40):
        asked = policy.plan().length
        time_s += 9.0 if asked else 1.0
        policy.observe(Round(0, (7,), (), 0, (1.0,), (), 1, time_s))
    assert drift.factor(0, 1) == 1.0
    assert not drift.wants_plain(clear=False) or drift.wants_plain(clear=True)


def test_the_first_round_of_a_reply_is_not_timed_as_nobody_knows_when_it_began() -> None:
    drift = timed({0: 1.0, 8: 1.0})
    policy = Adaptive([Candidate("head", FLAT)], drift)
    length = policy.plan().length
    policy.observe(told(length, length, 1000.0))
    assert drift.factor(0, 8) == pytest.approx(1.0)
