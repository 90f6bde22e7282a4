"""What passes cost on this machine: measured in isolation, used by the policy and the benchmark.

A pass is timed as the loop runs it: forward, law, acceptance and one synchronisation.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise

import mlx.core as mx

from engine.choice import Chooser
from engine.drafters import Draft, Drafter, Standing
from engine.rounds import launch
from engine.sampling import Context
from engine.target import CachedModel

WIDTHS = (1, 2, 5, 9)
CONTEXT = 64


@dataclass(frozen=True)
class Costs:
    """Seconds, measured in isolation.

    verify: by width in rows, at the measured widths; between them straight lines, beyond the last
    the last slope. draft: by draft length likewise, from (0, 0.0).
    """

    verify: tuple[tuple[int, float], ...]
    draft: tuple[tuple[int, float], ...] = ((0, 0.0), (1, 0.0))

    def pass_s(self, width: int) -> float:
        """One verify pass of `width` rows."""
        return _line(self.verify, width)

    def draft_s(self, length: int) -> float:
        """Proposing `length` tokens."""
        return _line(self.draft, length)

    def round_s(self, length: int) -> float:
        """Proposing `length` tokens and verifying them."""
        return self.draft_s(length) + self.pass_s(length + 1)


def _line(points: Sequence[tuple[int, float]], x: int) -> float:
    """Straight lines through `points`, the last of which goes on."""
    if len(points) == 1:
        return points[0][1]
    pairs = list(pairwise(points))
    (x0, y0), (x1, y1) = next((pair for pair in pairs if x <= pair[1][0]), pairs[-1])
    return y0 + (y1 - y0) * (x - x0) / (x1 - x0)


def measure(
    target: CachedModel,
    chooser: Chooser,
    drafter: Drafter | None = None,
    widths: Sequence[int] = WIDTHS,
    context: int = CONTEXT,
    repeats: int = 2,
) -> Costs:
    """Time passes of each width, and the drafter's proposals, behind `context` tokens.

    Leaves both caches empty. The median of `repeats`, after one warm-up each; widths take turns, so
    that a slow moment of the machine doesn't fall on one of them.
    """
    tokens = [1 + i % (target.vocabulary - 1) for i in range(context)]
    target.rewind(0)
    if drafter is not None:
        drafter.rewind(0)
        target.read_by(drafter.features)
    for _ in target.prefill(tokens[:-1]):
        pass
    standing = Standing(tokens, Context(chooser.law, tokens), chooser)
    jobs: dict[tuple[str, int], Callable[[], None]] = {}
    for width in widths:
        jobs["pass", width] = _pass_job(target, standing, width)
    if drafter is not None:
        drafter.prefill(tokens)
        for length in sorted({1, max(2, max(widths) - 1)}):
            jobs["draft", length] = _draft_job(drafter, standing, length)
    seconds = _medians(jobs, repeats)
    target.rewind(0)
    if drafter is not None:
        drafter.rewind(0)
    verify = tuple((n, s) for (kind, n), s in seconds.items() if kind == "pass")
    draft = tuple((n, s) for (kind, n), s in seconds.items() if kind == "draft")
    return Costs(verify, ((0, 0.0), *draft)) if draft else Costs(verify)


def _pass_job(target: CachedModel, standing: Standing, width: int) -> Callable[[], None]:
    draft = Draft(mx.array(list(standing.tokens[: width - 1]), mx.int32))

    def job() -> None:
        launch(target, standing, draft, "measuring").land(0, 0.0)
        target.rewind(len(standing.tokens) - 1)

    return job


def _draft_job(drafter: Drafter, standing: Standing, length: int) -> Callable[[], None]:
    def job() -> None:
        mx.eval(drafter.propose(standing, length).tokens)
        drafter.rewind(len(standing.tokens) - 1)

    return job


def _medians(jobs: dict[tuple[str, int], Callable[[], None]], repeats: int) -> dict[tuple[str, int], float]:
    times: dict[tuple[str, int], list[float]] = {key: [] for key in jobs}
    for turn in range(repeats + 1):
        for key, job in jobs.items():
            began = time.perf_counter()
            job()
            if turn:
                times[key].append(time.perf_counter() - began)
    return {key: statistics.median(values) for key, values in times.items()}
