"""Costs corrected by the clock: what has moved is found, what has not is left alone, noise fools nobody."""

import math
from collections.abc import Callable
from itertools import pairwise

import pytest

from engine.adaptive import TIMING, Adaptive, Candidate
from engine.costs import Costs
from engine.drift import LATER, MOST, NOTICEABLE, RUNS, SELDOM, SOON, STEP, STRIDE, Drift
from engine.events import Round
from tests.engine.simulation import FLAT, TOKENS, told


def timed(factors: dict[int, float], runs: int = 30, late: Callable[[int, int], float] = lambda *_: 1.0) -> Drift:
    """After runs of a plain round and a few of each length, each as much longer than expected as its factor says.
    late: how much longer still a round of some draft length takes in a run."""
    drift = Drift()
    for run in range(runs):
        drift.saw(0, 0, factors[0] * late(run, 0), 1.0)
        for drafted, factor in factors.items():
            for i in range(3 if drafted else 0):
                drift.saw(0, drafted, factor * late(3 * run + i, drafted), 1.0)
    drift.saw(0, 0, factors[0], 1.0)
    return drift


def test_a_machine_that_is_slower_for_everything_changes_nothing() -> None:
    drift = timed({0: 1.7, 2: 1.7, 5: 1.7})
    assert [drift.factor(0, n) for n in (0, 2, 5)] == pytest.approx([1.0, 1.0, 1.0])


@pytest.mark.parametrize("factor", [0.6, 1.7])
@pytest.mark.parametrize("plain_every", [2, 8, 33])
def test_a_machine_that_becomes_slower_or_faster_for_everything_changes_nothing(
    factor: float, plain_every: int
) -> None:
    """Also where plain rounds are few: only the run in which it happens can be misjudged, and it is outvoted."""
    drift = Drift()
    for i in range(600):
        drift.saw(0, 0 if i % plain_every == 0 else 4, factor if i > 207 else 1.0, 1.0)
        assert drift.factor(0, 4) == pytest.approx(1.0, abs=0.02)


def test_it_finds_what_has_become_dearer_or_cheaper_against_plain_rounds() -> None:
    drift = timed({0: 1.1, 2: 1.65, 5: 0.77})
    assert drift.factor(0, 2) == pytest.approx(1.5, rel=0.08)
    assert drift.factor(0, 5) == pytest.approx(0.7, rel=0.08)
    assert drift.factor(0, 0) == 1.0


def test_a_length_that_was_never_seen_is_judged_by_the_nearest_of_its_drafter() -> None:
    drift = timed({0: 1.0, 2: 1.5, 6: 2.0})
    assert drift.factor(0, 3) == drift.factor(0, 2) != drift.factor(0, 6) == drift.factor(0, 8)
    assert drift.factor(1, 3) == 1.0


def test_without_plain_rounds_on_both_sides_nothing_is_believed() -> None:
    drift = Drift()
    for drafted in (*[4] * 50, 0, *[4] * 50):
        drift.saw(0, drafted, 3.0 if drafted else 1.0, 1.0)
        assert drift.factor(0, 4) == 1.0
    drift.saw(0, 0, 1.0, 1.0)
    assert drift.factor(0, 4) > 1.1


def test_a_run_moves_it_by_little_and_all_of_them_by_no_more_than_the_most() -> None:
    drift, before = Drift(), 0.0
    drift.saw(0, 0, 1.0, 1.0)
    for rounds in (1, 2, 50, *[50] * 30):
        for _ in range(rounds):
            drift.saw(0, 3, 50.0, 1.0)
        drift.saw(0, 0, 1.0, 1.0)
        now = math.log(drift.factor(0, 3))
        assert now - before <= min(STEP * rounds, STRIDE) + 1e-9
        before = now
    assert MOST / 2 < before <= MOST


def test_the_first_runs_say_little() -> None:
    """One run of a hundredth more than what is noticeable, twice that, and so on until it is believed."""
    drift, seen = Drift(), []
    drift.saw(0, 0, 1.0, 1.0)
    for _ in range(RUNS):
        for _ in range(20):
            drift.saw(0, 3, math.exp(1.5 * NOTICEABLE), 1.0)
        drift.saw(0, 0, 1.0, 1.0)
        seen.append(drift.factor(0, 3))
    assert seen[0] == 1.0 and seen[-1] > 1.1


def test_what_is_hardly_noticeable_is_taken_for_nothing() -> None:
    assert timed({0: 1.0, 3: math.exp(0.9 * NOTICEABLE)}).factor(0, 3) == 1.0
    assert timed({0: 1.0, 3: math.exp(1.3 * NOTICEABLE)}).factor(0, 3) > 1.05


def test_what_is_believed_fades_where_it_is_not_seen_again() -> None:
    drift = timed({0: 1.0, 3: 2.0})
    believed = math.log(drift.factor(0, 3))
    for _ in range(512):
        drift.saw(0, 0, 1.0, 1.0)
    assert math.log(drift.factor(0, 3)) == pytest.approx(believed / 2)


@pytest.mark.parametrize("seconds", [0.0, -1.0, math.nan, math.inf])
def test_times_that_are_none_do_no_harm(seconds: float) -> None:
    drift = timed({0: 1.0, 3: 1.4})
    before = drift.factor(0, 3)
    for drafted in (3, 0, 3, 3, 0):
        drift.saw(0, drafted, seconds, 1.0)
    assert drift.factor(0, 3) == before


@pytest.mark.parametrize(("kind", "one_in"), [(0, 8), (4, 4)])
def test_rounds_that_come_late_now_and_then_are_no_evidence(kind: int, one_in: int) -> None:
    """Whether it falls on the drafted ones or on the plain ones, of which each has a part in two runs."""
    drift = timed({0: 1.0, 4: 1.0}, late=lambda i, drafted: 5.0 if drafted == kind and not (i + 1) % one_in else 1.0)
    assert drift.factor(0, 4) == pytest.approx(1.0)


def test_a_plain_round_is_wanted_soon_then_seldom() -> None:
    drift = Drift()
    drift.saw(0, 0, 1.0, 1.0)
    for waits in (SOON, 2 * SOON, 4 * SOON, LATER, LATER):
        rounds = 0
        while not drift.wants_plain(clear=False):
            drift.saw(0, 2, 1.0, 1.0)
            rounds += 1
        assert rounds == waits
        drift.saw(0, 0, 1.0, 1.0)
    for _ in range(LATER):
        drift.saw(0, 2, 1.0, 1.0)
    assert drift.wants_plain(clear=False) and not drift.wants_plain(clear=True)
    for _ in range(SELDOM - LATER):
        drift.saw(0, 2, 1.0, 1.0)
    assert drift.wants_plain(clear=True)


# --- in the policy ------------------------------------------------------------------------------------


def reasons(drift: Drift, rounds: int, costs: Costs = FLAT) -> list[str]:
    """Of the plans of one reply whose drafts are all kept."""
    policy, found = Adaptive([Candidate("head", costs)], drift), []
    for i in range(rounds):
        plan = policy.plan()
        found.append(plan.reason)
        policy.observe(told(plan.length, plan.length, 0.5 * i))
    return found


def test_a_plain_round_to_compare_with_says_so() -> None:
    found = reasons(Drift(), TOKENS)
    assert 3 <= found.count(TIMING) <= 6
    assert not any(one == other == TIMING for one, other in pairwise(found))


def test_a_plain_round_that_would_have_been_anyway_does_not_say_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Drift, "wants_plain", lambda self, clear: True)
    nothing_pays = Costs(((1, 1.0), (2, 2.1), (9, 10.0)), ((0, 0.0), (1, 0.1)))
    assert TIMING not in reasons(Drift(), 9, nothing_pays)
    assert TIMING in reasons(Drift(), 9)


def test_the_first_round_of_a_reply_is_neither_timed_nor_spent_on_the_clock() -> None:
    """Nobody knows when it began."""
    drift = timed({0: 1.0, 8: 1.0})
    while not drift.wants_plain(clear=True):
        drift.saw(0, 8, 1.0, 1.0)
    assert reasons(drift, 1) != [TIMING]
    assert drift.wants_plain(clear=True)
    assert reasons(drift, 2)[1] == TIMING
    assert not drift.wants_plain(clear=False)


def test_a_round_that_drafted_nothing_though_asked_is_neither_plain_nor_a_draft() -> None:
    drift = timed({0: 1.0, 8: 1.0})
    policy = Adaptive([Candidate("lookup", FLAT)], drift)
    for i in range(40):
        assert policy.plan().length
        policy.observe(Round(0, (7,), (), 0, (1.0,), (), 1, 9.0 * i))
    drift.saw(0, 8, 1.0, 1.0)
    drift.saw(0, 0, 1.0, 1.0)
    assert drift.factor(0, 8) == pytest.approx(1.0)


def test_rounds_at_the_edges_of_a_plain_run_are_not_timed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where a launch waits for the device, the first is told a pass late and the last a pass early; one by itself is
    told when it is done."""
    seen: list[float] = []
    monkeypatch.setattr(Drift, "saw", lambda self, member, drafted, seconds, expected_s: seen.append(seconds))
    policy, clock_s = Adaptive([Candidate("head", Costs(((1, 1.0), (9, 10.0)), ((0, 0.0), (8, 8.0))))], Drift()), 0.0
    for run in (1, 4, 1, 2, 3):
        for i in range(run):
            if i == 0:
                assert not policy.plan().length
            followed = i + 1 < run and policy.plain_next()
            clock_s += {(True, True): 2.0, (False, False): 0.1}.get((i == 0, followed), 1.0)
            policy.observe(told(0, 0, clock_s))
    assert math.isnan(seen.pop(0))  # the first round of a reply
    assert seen == pytest.approx([1.0] * 4)  # inside the run of four two, the one by itself, inside the last run one


def test_what_is_believed_comes_to_what_is_true() -> None:
    """Drafted rounds take half as long again as was measured: so much dearer they are, and not a part of it."""
    drift, clock_s = Drift(), 0.0
    for _ in range(6):
        policy = Adaptive([Candidate("head", FLAT)], drift)
        for _ in range(TOKENS):
            length = policy.plan().length
            clock_s += FLAT.round_s(length) * (1.5 if length else 1.0)
            policy.observe(told(length, length, clock_s))
    assert 1.35 < drift.factor(0, 8) < 1.55


def test_what_was_learnt_serves_the_next_reply_from_its_first_round() -> None:
    known, nothing = timed({0: 1.0, 8: 2.0}), Drift()
    assert reasons(known, 1) != reasons(nothing, 1)


def test_more_is_never_cheaper() -> None:
    candidate = Candidate("head", FLAT)
    candidate.correct(lambda drafted: 2.0 if drafted == 3 else 1.0)
    prices = list(candidate.prices.values())
    assert prices == sorted(prices) and prices[4] == prices[3] > 2 > prices[2]
