"""What passes cost on this machine: measured in isolation, used by the policy and the benchmark.

A pass is timed as the loop runs it: forward, law, acceptance and one synchronisation.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import accumulate, pairwise

import mlx.core as mx

from engine.choice import Chooser
from engine.drafters import Draft, Drafter, Standing
from engine.drafters.several import Several
from engine.gate import open_gate
from engine.rounds import launch
from engine.sampling import Context
from engine.target import CachedModel

WIDTHS = (1, 2, 5, 9)
CONTEXT = 64

_PASS = -1
_Key = tuple[int, int]  # _PASS and a width, or a drafter's place and a draft length


@dataclass(frozen=True)
class Costs:
    """Seconds, measured in isolation.

    verify: by width in rows, at the measured widths; between them straight lines, beyond the last
    the last slope. draft: by draft length likewise, from (0, 0.0). members: of several drafters, the costs of each;
    `draft` is then that of the last.
    """

    verify: tuple[tuple[int, float], ...]
    draft: tuple[tuple[int, float], ...] = ((0, 0.0), (1, 0.0))
    members: tuple[Costs, ...] = ()

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
    repeats: int = 4,
    between: Callable[[], None] = lambda: None,
) -> Costs:
    """Time passes of each width, and the drafter's proposals, behind `context` tokens.

    Leaves both caches empty. The median of the quicker half of `repeats`, as other work on the machine only ever adds,
    after one warm-up each; widths take turns, so that a slow moment doesn't fall on one of them. between: called in
    between passes; may raise to break off, which leaves the caches as they are.
    """
    tokens = [1 + i % (target.vocabulary - 1) for i in range(context)]
    target.rewind(0)
    if drafter is not None:
        drafter.rewind(0)
        target.read_by(drafter.features)
    for _ in target.prefill(tokens[:-1]):
        pass
    standing = Standing(tokens, Context(chooser.law, tokens), chooser)
    members = drafter.members if isinstance(drafter, Several) else [] if drafter is None else [drafter]
    for member in members:
        member.prefill(tokens)
    jobs: dict[_Key, Callable[[], None]] = {}
    for width in widths:
        jobs[_PASS, width] = _pass_job(target, standing, _sample(members, standing, width - 1))
    for who, member in enumerate(members):
        for length in sorted({1, max(2, max(widths) - 1)}):
            jobs[who, length] = _draft_job(member, standing, length)
    seconds = _medians(jobs, repeats, between)
    target.rewind(0)
    if drafter is not None:
        drafter.rewind(0)
    return _costs(seconds, len(members))


def _costs(seconds: Mapping[_Key, float], members: int) -> Costs:
    def line(whose: int) -> tuple[tuple[int, float], ...]:
        """More work never takes less time, whatever the clock said: else drafting could look cheaper than not to."""
        measured = sorted((n, s) for (who, n), s in seconds.items() if who == whose)
        return tuple(zip((n for n, _ in measured), accumulate((s for _, s in measured), max), strict=True))

    verify = line(_PASS)
    each = [Costs(verify, ((0, 0.0), *line(who))) for who in range(members)]
    if not each:
        return Costs(verify)
    return each[0] if members == 1 else Costs(verify, each[-1].draft, tuple(each))


def _sample(members: Sequence[Drafter], standing: Standing, length: int) -> Draft:
    """A draft to verify: a tree where a member draws one, as trees cost more; else any chain of that length."""
    for member in members:
        draft = member.propose(standing, length)
        mx.eval(draft.tokens)
        member.rewind(len(standing.tokens) - 1)
        if draft.shape is not None:
            mx.eval(draft.shape.parents)
            return replace(draft, logq=None)
    return Draft(mx.array(list(standing.tokens[:length]), mx.int32))


def _pass_job(target: CachedModel, standing: Standing, draft: Draft) -> Callable[[], None]:
    def job() -> None:
        round_ = launch(target, standing, draft, "measuring").land(0, 0.0)
        if round_.parents is not None:
            target.keep(round_.path)
        target.rewind(len(standing.tokens) - 1)

    return job


def _draft_job(drafter: Drafter, standing: Standing, length: int) -> Callable[[], None]:
    """A gate is waited for at each token, as the adaptive policy has it, and lets all of them pass."""

    def job() -> None:
        mx.eval(drafter.propose(replace(standing, gate=open_gate(length)), length).tokens)
        drafter.rewind(len(standing.tokens) - 1)

    return job


def _medians(jobs: Mapping[_Key, Callable[[], None]], repeats: int, between: Callable[[], None]) -> dict[_Key, float]:
    times: dict[_Key, list[float]] = {key: [] for key in jobs}
    for turn in range(repeats + 1):
        for key, job in jobs.items():
            between()
            began = time.perf_counter()
            job()
            if turn:
                times[key].append(time.perf_counter() - began)
    return {key: statistics.median(sorted(values)[: (len(values) + 1) // 2]) for key, values in times.items()}
