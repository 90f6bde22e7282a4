"""What passes cost on this machine: measured in isolation, used by the policy and the benchmark.

A pass is timed as the loop runs it: forward, law, acceptance and one synchronisation. Plain steps are timed in a run,
each launched before the last has landed: what Python does for one is hidden behind the one before, which no round whose
beginning depends on the last one's outcome can do. On 2 cores such a step takes 0.85 to 0.93 of a pass of one row.
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
from engine.events import Round
from engine.gate import open_gate
from engine.loop import Limits, decode
from engine.policy import FixedLength
from engine.rounds import launch
from engine.sampling import Context
from engine.target import CachedModel

WIDTHS = (1, 2, 5, 9)
CONTEXT = 64
STEPS = 6  # plain ones that are timed of a run
LEAST = 0.5  # of a pass of one row: no run of plain steps can hide more than that, less is another program's doing

_LIMITS = Limits(STEPS + 3, 2**31)
_PASS, _RUN, _EAGER = -1, -2, -3
_Line = tuple[tuple[int, float], ...]  # numbers of rows or tokens, rising, and seconds
_Key = tuple[int, int]  # _PASS and a width, _RUN and STEPS, _EAGER or a drafter's place and a draft length


@dataclass(frozen=True)
class Costs:
    """Seconds, measured in isolation.

    verify: by width in rows, at the measured widths; between them straight lines, beyond the last
    the last slope. draft: by draft length likewise, from (0, 0.0). members: of several drafters, the costs of each;
    `draft` is then that of the last. plain: of a step in a run of plain ones; None: a pass of one row.
    eager: of a round with one token that no gate was asked about, so that the pass is built while the device drafts;
    None: as `round_s` has it.
    """

    verify: _Line
    draft: _Line = ((0, 0.0), (1, 0.0))
    members: tuple[Costs, ...] = ()
    plain: float | None = None
    eager: float | None = None

    @property
    def plain_s(self) -> float:
        """One token by plain decoding."""
        return self.pass_s(1) if self.plain is None else self.plain

    def pass_s(self, width: int) -> float:
        """One verify pass of `width` rows."""
        return _line(self.verify, width)

    def draft_s(self, length: int) -> float:
        """Proposing `length` tokens."""
        return _line(self.draft, length)

    def round_s(self, length: int) -> float:
        """Proposing `length` tokens and verifying them; of 0, a plain step."""
        return self.draft_s(length) + self.pass_s(length + 1) if length else self.plain_s

    def ungated_s(self, length: int) -> float:
        """The same where no gate is asked on the way. What a draft of one token then spares is measured (`eager`), and
        a longer one, whose pass is built while its last token is drafted, spares as much at least."""
        spared_s = max(0.0, self.round_s(1) - self.eager) if length and self.eager is not None else 0.0
        return self.round_s(length) - spared_s


def between(near: Costs, far: Costs, share: float) -> Costs:
    """Costs on the straight line from those behind a context (0) to those behind a longer one (1) and on: attention
    grows with what it looks at. What was measured to take less behind more is a fluke, and takes the same."""

    def at(here_s: float, there_s: float) -> float:
        return here_s + share * max(0.0, there_s - here_s)

    def line(here: _Line, there: _Line) -> _Line:
        found = [at(here_s, there_s) for (_, here_s), (_, there_s) in zip(here, there, strict=True)]
        return tuple(zip((n for n, _ in here), accumulate(found, max), strict=True))

    verify = line(near.verify, far.verify)
    narrow = verify[0][1]
    plain = min(max(at(near.plain_s, far.plain_s), LEAST * narrow), narrow)
    eager = None if near.eager is None or far.eager is None else max(at(near.eager, far.eager), narrow)
    members = tuple(between(*both, share) for both in zip(near.members, far.members, strict=True))
    return Costs(verify, line(near.draft, far.draft), members, plain, eager)


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
    """Time runs of plain steps, passes of each width, the drafter's proposals and whole rounds of one token, behind
    `context` tokens.

    Leaves both caches empty. The median of the quicker half of `repeats`, as other work on the machine only ever adds,
    after one warm-up each; widths take turns, so that a slow moment doesn't fall on one of them. between: called in
    between passes; may raise to break off, which leaves the caches as they are.
    """
    tokens = [1 + i % (target.vocabulary - 1) for i in range(context)]
    target.lay(None)
    _empty(target, drafter)
    if drafter is not None:
        target.read_by(drafter.features)
    for _ in target.prefill(tokens[:-1]):
        pass
    target.pin()
    standing = Standing(tokens, Context(chooser.law, tokens), chooser)
    members = drafter.members if isinstance(drafter, Several) else [] if drafter is None else [drafter]
    for member in members:
        member.prefill(tokens)
    jobs: dict[_Key, Callable[[], float]] = {(_RUN, STEPS): _run_job(target, standing)}
    for width in widths:
        jobs[_PASS, width] = _pass_job(target, standing, _sample(members, standing, width - 1))
    for who, member in enumerate(members):
        for length in sorted({1, max(2, max(widths) - 1)}):
            jobs[who, length] = _draft_job(member, standing, length)
        jobs[_EAGER - who, 1] = _eager_job(target, member, standing)
    seconds = _medians(jobs, repeats, between)
    _empty(target, drafter)
    return _costs(seconds, len(members))


def _empty(target: CachedModel, drafter: Drafter | None) -> None:
    target.rewind(0)
    if drafter is not None:
        drafter.rewind(0)


def _costs(seconds: Mapping[_Key, float], members: int) -> Costs:
    def line(whose: int) -> _Line:
        """More work never takes less time, whatever the clock said: else drafting could look cheaper than not to."""
        measured = sorted((n, s) for (who, n), s in seconds.items() if who == whose)
        return tuple(zip((n for n, _ in measured), accumulate((s for _, s in measured), max), strict=True))

    verify = line(_PASS)
    narrow = verify[0][1]
    plain = max(LEAST * narrow, min(narrow, *(s for _, s in line(_RUN))))
    each = [
        Costs(verify, ((0, 0.0), *line(who)), plain=plain, eager=max(line(_EAGER - who)[0][1], narrow))
        for who in range(members)
    ]
    if not each:
        return Costs(verify, plain=plain)
    return each[0] if members == 1 else Costs(verify, each[-1].draft, tuple(each), plain)


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


def _run_job(target: CachedModel, standing: Standing) -> Callable[[], float]:
    """Seconds a step, from the landing of the second, behind which steps run ahead wherever MLX runs, to that of the
    last but one, which has the last behind it. Nobody reads hidden states meanwhile: a log would not find back."""

    def job() -> float:
        features, target.features = target.features, None
        told = decode(target, None, FixedLength(0), standing.chooser, list(standing.tokens), _LIMITS, 0.0)
        times = [event.time_s for event in told if isinstance(event, Round)]
        target.rewind(len(standing.tokens) - 1)
        target.features = features
        return (times[-2] - times[1]) / STEPS

    return job


def _timed(work: Callable[[], None]) -> Callable[[], float]:
    def job() -> float:
        began = time.perf_counter()
        work()
        return time.perf_counter() - began

    return job


def _pass_job(target: CachedModel, standing: Standing, draft: Draft) -> Callable[[], float]:
    @_timed
    def job() -> None:
        round_ = launch(target, standing, draft, "measuring").land(0, 0.0)
        if round_.parents is not None:
            target.keep(round_.path)
        target.rewind(len(standing.tokens) - 1)

    return job


def _draft_job(drafter: Drafter, standing: Standing, length: int) -> Callable[[], float]:
    """A gate is waited for at each token, as the adaptive policy has it, and lets all of them pass."""

    @_timed
    def job() -> None:
        mx.eval(drafter.propose(replace(standing, gate=open_gate(length)), length).tokens)
        drafter.rewind(len(standing.tokens) - 1)

    return job


def _eager_job(target: CachedModel, drafter: Drafter, standing: Standing) -> Callable[[], float]:
    @_timed
    def job() -> None:
        launch(target, standing, drafter.propose(standing, 1), "measuring").land(0, 0.0)
        target.rewind(len(standing.tokens) - 1)
        drafter.rewind(len(standing.tokens) - 1)

    return job


def _medians(jobs: Mapping[_Key, Callable[[], float]], repeats: int, between: Callable[[], None]) -> dict[_Key, float]:
    times: dict[_Key, list[float]] = {key: [] for key in jobs}
    for turn in range(repeats + 1):
        for key, job in jobs.items():
            between()
            seconds = job()
            if turn:
                times[key].append(seconds)
    return {key: statistics.median(sorted(values)[: (len(values) + 1) // 2]) for key, values in times.items()}
