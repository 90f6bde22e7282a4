"""Measures what passes cost on this machine.

A pass is timed as the loop runs it: forward, distribution, acceptance and one synchronisation. Plain steps are timed in
a run, each submitted before the last is done, so that Python's work for one is hidden behind the one before. A round
that needs the outcome of the last one cannot do that. On 2 cores such a step takes 0.85 to 0.93 times as long as a pass
of one row.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

import mlx.core as mx

from engine.drafters import Draft, DraftContext, Drafter
from engine.drafters.drafter_group import DrafterGroup
from engine.events import Round
from engine.loop import Limits, decode
from engine.policy.costs import MIN_PLAIN, Costs
from engine.policy.fixed import FixedLength
from engine.sampling import Sampler, TokenCounts
from engine.target.cached_model import CachedModel, calling
from engine.verify_pass import submit

WIDTHS = tuple(range(1, 10))  # each of them: on Metal a pass becomes dearer in steps (engine/README.md)
CONTEXT = 64
STEPS = 6  # plain ones that are timed of a run
MOST_TURNS = 9
CONFIRMED = 1.04  # times the quickest time: a second one within it says that the machine was quiet then

_PASS, _RUN, _EAGER = -1, -2, -3
_Key = tuple[int, int]  # _PASS and a width, _RUN and STEPS, _EAGER or a drafter's place and a draft length


def measure(
    target: CachedModel,
    sampler: Sampler,
    drafter: Drafter | None = None,
    widths: Sequence[int] = WIDTHS,
    context: int = CONTEXT,
    repeats: int = 3,
    between: Callable[[], None] = lambda: None,
) -> Costs:
    """Time runs of plain steps, passes of each width, the drafter's proposals and whole rounds of one token, after
    `context` tokens.

    Leaves both caches empty. After one warm-up each, all take turns, so that a slow moment does not fall on one of
    them: `repeats` times, and more where their times differ, see `_quickest`. between: called in between passes, and
    between layers of longer ones; may raise to break off, which leaves the caches as they are.
    """
    tokens = [1 + i % (target.vocabulary - 1) for i in range(context)]
    _empty(target, drafter)
    target.read_as(context)
    if drafter is not None:
        target.record(drafter.needs.taps, drafter.needs.latest_only)
    for _ in target.prefill(tokens[:-1], cancelled=calling(between)):
        between()
    target.pin_mark()
    draft_context = DraftContext(tokens, TokenCounts(sampler.distribution, tokens), sampler)
    members = drafter.members if isinstance(drafter, DrafterGroup) else [] if drafter is None else [drafter]
    for member in members:
        member.sync(tokens, calling(between))
    jobs: dict[_Key, Callable[[], float]] = {(_RUN, STEPS): _run_job(target, draft_context, between)}
    for width in widths:
        jobs[_PASS, width] = _pass_job(target, draft_context, _sample(members, draft_context, width - 1))
    for who, member in enumerate(members):
        for length in _measured_lengths(member, max(widths) - 1):
            jobs[who, length] = _draft_job(member, draft_context, length)
        jobs[_EAGER - who, 1] = _eager_job(target, member, draft_context)
    seconds = _quickest(jobs, repeats, between)
    _empty(target, drafter)
    return _costs(seconds, len(members))


def _empty(target: CachedModel, drafter: Drafter | None) -> None:
    target.rewind(0)
    if drafter is not None:
        drafter.rewind(0)


def _costs(seconds: Mapping[_Key, float], members: int) -> Costs:
    def line(whose: int) -> tuple[tuple[int, float], ...]:
        """More work never costs less than less work, whatever the clock says; otherwise drafting could look cheaper
        than not drafting. Among wider passes one may be dearer than its neighbour: Metal's kernels change with the
        rows."""
        measured = sorted((n, s) for (who, n), s in seconds.items() if who == whose)
        return tuple((n, max(s, measured[0][1])) for n, s in measured)

    verify = line(_PASS)
    narrow = verify[0][1]
    plain = max(MIN_PLAIN * narrow, min(narrow, *(s for _, s in line(_RUN))))
    each = [
        Costs(verify, ((0, 0.0), *line(who)), plain=plain, eager=max(line(_EAGER - who)[0][1], narrow))
        for who in range(members)
    ]
    if not each:
        return Costs(verify, plain=plain)
    return each[0] if members == 1 else Costs(verify, each[-1].draft, tuple(each), plain)


def _sample(members: Sequence[Drafter], draft_context: DraftContext, length: int) -> Draft:
    """A draft to verify: a tree where a member draws one, as trees cost more; else any chain of that length."""
    for member in members:
        draft = member.propose(draft_context, length)
        mx.eval(draft.tokens)
        member.rewind(len(draft_context.tokens) - 1)
        if draft.tree is not None:
            mx.eval(draft.tree.parents)
            return replace(draft, logq=None)
    return Draft(mx.array(list(draft_context.tokens[:length]), mx.int32))


def _run_job(
    target: CachedModel, draft_context: DraftContext, between: Callable[[], None] = lambda: None
) -> Callable[[], float]:
    """Seconds per step, timed from the end of the second step to the end of the last but one: from the second on, steps
    run ahead on every backend, and the last but one still has another queued behind it. Hidden states are not recorded
    meanwhile, as their log could not be rewound."""

    def job() -> float:
        taps, target.taps = target.taps, None
        limits = Limits(STEPS + 3, 2**31, cancelled=calling(between))
        events = decode(target, None, FixedLength(0), draft_context.sampler, list(draft_context.tokens), limits, 0.0)
        try:
            times = [event.time_s for event in events if isinstance(event, Round)]
        finally:
            target.taps = taps
        target.rewind(len(draft_context.tokens) - 1)
        return (times[-2] - times[1]) / STEPS

    return job


def _measured_lengths(member: Drafter, longest: int) -> list[int]:
    """Returns the draft lengths that are timed. A block drafter may need its one pass from the second token on only, as
    P-EAGLE does, so no straight line leads there from the first."""
    most = max(2, longest)
    return sorted({1, 2, most} if member.traits.shape == "block" else {1, most})


def _timed(work: Callable[[], None]) -> Callable[[], float]:
    def job() -> float:
        began = time.perf_counter()
        work()
        return time.perf_counter() - began

    return job


def _pass_job(target: CachedModel, draft_context: DraftContext, draft: Draft) -> Callable[[], float]:
    @_timed
    def job() -> None:
        round_ = submit(target, draft_context, draft).wait(0, 0.0)
        if round_.parents is not None:
            target.keep_path(round_.path)
        target.rewind(len(draft_context.tokens) - 1)

    return job


def _draft_job(drafter: Drafter, draft_context: DraftContext, length: int) -> Callable[[], float]:
    @_timed
    def job() -> None:
        mx.eval(drafter.propose(draft_context, length).tokens)
        drafter.rewind(len(draft_context.tokens) - 1)

    return job


def _eager_job(target: CachedModel, drafter: Drafter, draft_context: DraftContext) -> Callable[[], float]:
    @_timed
    def job() -> None:
        submit(target, draft_context, drafter.propose(draft_context, 1)).wait(0, 0.0)
        target.rewind(len(draft_context.tokens) - 1)
        drafter.rewind(len(draft_context.tokens) - 1)

    return job


def _quickest(jobs: Mapping[_Key, Callable[[], float]], repeats: int, between: Callable[[], None]) -> dict[_Key, float]:
    """Returns the quickest time of each job, as other work on the machine only ever adds to it. A job whose quickest
    time no second one confirms takes more turns, up to MOST_TURNS."""
    times: dict[_Key, list[float]] = {key: [] for key in jobs}
    for job in jobs.values():
        between()
        job()
    for _ in range(MOST_TURNS):
        for key in [key for key, seen in times.items() if len(seen) < repeats or not _is_confirmed(seen)]:
            between()
            times[key].append(jobs[key]())
    return {key: min(seen) for key, seen in times.items()}


def _is_confirmed(times: Sequence[float]) -> bool:
    """Returns whether the two quickest of these times agree; a single one is taken as it is."""
    quickest, *others = sorted(times)
    return not others or others[0] <= CONFIRMED * quickest
