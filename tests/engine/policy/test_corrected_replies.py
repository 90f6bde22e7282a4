"""What the clock brings over whole replies, in simulation."""

import math
import random
from collections.abc import Callable, Iterator
from dataclasses import replace
from itertools import count
from statistics import mean

import pytest

from engine.policy.adaptive import Adaptive, Candidate
from engine.policy.cost_correction import CostCorrection
from engine.policy.costs import Costs
from tests.engine.policy.simulation import FLAT, best_fixed, costs_of, flags, speed


def clock(seed: str) -> Callable[[], float]:
    """A machine that does other things too: rounds vary by a tenth, and one in twenty takes twice or four times."""
    rng = random.Random(seed)
    return lambda: math.exp(rng.gauss(0, 0.1)) * (rng.choice((2, 4)) if rng.random() < 0.05 else 1.0)


def with_wide_passes(costs: Costs, factor: float) -> Costs:
    """The same, but for wide passes, which are taken to be so many times as dear, if no cheaper than narrow ones."""
    return replace(costs, verify=((1, 1.0), *((width, max(s * factor, 1.0)) for width, s in costs.verify[1:])))


def replies(
    believed: Costs, true: Costs, text: str, drift: CostCorrection | None, texts: int = 4
) -> Iterator[tuple[float, float]]:
    """Of each reply, its speed against plain decoding and against the best fixed length."""
    late = clock(text)
    for seed in range(texts):
        policy = Adaptive([Candidate("drafter", believed)], drift)
        found = speed(policy, true, flags(text, seed), late=late)
        yield found, found / best_fixed(true, text, seed)


CASES = [
    (curve, draft, text)
    for curve in ("M4 Pro", "here", "jump", "M5 Max, 70B")
    for draft in ("head", "small model")
    for text in ("0% right", "50% right", "80% right", "bursts of 64")
]


@pytest.mark.slow
def test_costs_that_are_right_stay_as_good_as_right() -> None:
    shares = []
    for curve, draft, text in CASES:
        costs = costs_of(curve, draft)
        without = mean(share for _, share in replies(costs, costs, text, None))
        shares.append(mean(share for _, share in replies(costs, costs, text, CostCorrection())) / without)
    assert mean(shares) >= 0.99
    assert min(shares) >= 0.89


@pytest.mark.slow
def test_passes_that_became_twice_as_dear_are_noticed_before_they_cost_much() -> None:
    """The costs on disk would have it draft at less than 0.8 of the speed of plain decoding. The first reply may lose
    some of that, as it is what tells; the later ones hardly."""
    believing, noticing = list[float](), list[float]()
    for curve, draft, text in CASES:
        costs = costs_of(curve, draft)
        believing += [plain for plain, _ in replies(with_wide_passes(costs, 0.5), costs, text, None)]
        noticing += [plain for plain, _ in replies(with_wide_passes(costs, 0.5), costs, text, CostCorrection())]
    assert min(believing) < 0.8
    assert min(noticing) >= 0.86
    later = [plain for place, plain in enumerate(noticing) if place % 4]
    assert min(later) >= 0.9 and mean(later) >= 1.15
    assert sum(plain < 0.97 for plain in noticing) < 0.75 * sum(plain < 0.97 for plain in believing)


def test_drafting_goes_on_after_a_while_in_which_the_machine_was_slower() -> None:
    costs, drift, tick = costs_of("M5 Max, 70B", "small model"), CostCorrection(), count()
    shares = []
    for seed in range(8):
        right = flags("90% right", seed)
        slow = lambda: 2.0 if 150 < next(tick) < 450 else 1.0  # noqa: E731
        found = speed(Adaptive([Candidate("drafter", costs)], drift), costs, right, late=slow)
        shares.append(found / speed(Adaptive([Candidate("drafter", costs)]), costs, right))
    assert min(shares) >= 0.9


def test_passes_that_became_cheaper_are_made_use_of() -> None:
    costs = costs_of("M4 Pro", "head")
    believing = mean(share for _, share in replies(with_wide_passes(costs, 2.0), costs, "80% right", None))
    noticing = mean(share for _, share in replies(with_wide_passes(costs, 2.0), costs, "80% right", CostCorrection()))
    assert noticing > 1.05 * believing


def rounds_of(policy: Adaptive, late: Callable[[], float]) -> list[int]:
    lengths: list[int] = []
    speed(policy, FLAT, flags("50% right", 3), lengths, late)
    return lengths


def test_without_it_the_clock_changes_no_round() -> None:
    one, other = (rounds_of(Adaptive([Candidate("head", FLAT)]), clock(seed)) for seed in ("a", "b"))
    assert one == other
