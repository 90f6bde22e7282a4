"""The numbers of a race: medians over its runs, how far they spread, and the pair of runs that a replay shows."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from app.inference.speedup import decode_speedup, median, total_speedup
from app.protocol.race_messages import SIDES, Run
from engine.events import PromptProgress
from engine.metrics import Metrics


class Spread(NamedTuple):
    """Of one number over all pairs of runs."""

    median: float
    least: float
    most: float


@dataclass(frozen=True)
class SideResult:
    """Medians over the runs of one side; None where a number means nothing. tokens, passes, mean_acceptance_length: of
    the run that is shown."""

    tokens: int
    passes: int
    mean_acceptance_length: float | None
    tokens_per_s: float | None
    ttft_s: float | None
    total_s: float | None


@dataclass(frozen=True)
class Results:
    """decode, total: the speed-ups of the second side over the first, run by run of the pairs, by
    `app.inference.speedup`. shown: the number of the pair whose total speed-up is the median (the lesser of the
    middle two), which is replayed. pairs: how many there are."""

    pairs: int
    decode: Spread | None
    total: Spread | None
    shown: int
    sides: tuple[SideResult, ...]


def results_of(runs: Sequence[Run]) -> Results:
    """Of whole pairs: as many runs of one side as of the other."""
    metrics = [_by_number(run for run in runs if run.side == side) for side in range(SIDES)]
    numbers = sorted(metrics[0])
    pairs = {number: (metrics[0][number], metrics[1][number]) for number in numbers}
    totals = {number: total_speedup(*pair) for number, pair in pairs.items()}
    ranked = sorted(numbers, key=lambda number: (totals[number] is not None, totals[number] or 0.0, number))
    shown = ranked[(len(ranked) - 1) // 2]
    return Results(
        pairs=len(numbers),
        decode=_spread(decode_speedup(*pair) for pair in pairs.values()),
        total=_spread(totals.values()),
        shown=shown,
        sides=tuple(_side(list(of.values()), of[shown]) for of in metrics),
    )


def metrics_of(run: Run) -> Metrics:
    """Of a whole run."""
    prompt = PromptProgress(run.prompt_tokens, run.prompt_tokens, 0, 0.0)
    return Metrics.of([prompt, *(done.round for done in run.rounds), run.finished])


def _by_number(runs: Iterable[Run]) -> dict[int, Metrics]:
    return {run.number: metrics_of(run) for run in runs}


def _side(runs: Sequence[Metrics], shown: Metrics) -> SideResult:
    def middle(number: Callable[[Metrics], float | None]) -> float | None:
        return median(number(one) for one in runs)

    return SideResult(
        tokens=shown.tokens,
        passes=shown.rounds,
        mean_acceptance_length=shown.mean_acceptance_length,
        tokens_per_s=middle(lambda one: one.tokens_per_s),
        ttft_s=middle(lambda one: one.ttft_s),
        total_s=middle(lambda one: one.last_s),
    )


def _spread(values: Iterable[float | None]) -> Spread | None:
    known = [value for value in values if value is not None]
    found = median(known)
    return None if found is None else Spread(found, min(known), max(known))
