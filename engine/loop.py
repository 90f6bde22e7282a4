"""propose -> verify -> commit -> tell. Plain decoding is the same loop with an empty draft.

The caches are put right before a round is told, so whoever listens may walk away at any yield and
find target and drafter agreeing with the committed tokens.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

import mlx.core as mx

from engine import backend
from engine.choice import Chooser
from engine.drafters import Drafter, Standing, nothing
from engine.events import Finished, Reason, Round
from engine.policy import Policy
from engine.rounds import Flight, launch, launch_behind
from engine.sampling import Context
from engine.target import CachedModel


@dataclass(frozen=True)
class Limits:
    """When a reply ends. max_tokens: of the reply. context: of prompt and reply together.
    eos: ids that end it, committed as its last token. cancelled: asked after every round."""

    max_tokens: int
    context: int
    eos: frozenset[int] = frozenset()
    cancelled: Callable[[], bool] = lambda: False

    def room(self, prompt: int, reply: int) -> int:
        """Tokens that may still be committed."""
        return min(self.max_tokens - reply, self.context - prompt - reply)


def decode(
    target: CachedModel,
    drafter: Drafter | None,
    policy: Policy,
    chooser: Chooser,
    tokens: list[int],
    limits: Limits,
    began_s: float,
) -> Iterator[Round | Finished]:
    """Continue `tokens` (the prompt, extended in place), all but the last of which the target has seen.

    Yields a Round for every verify pass, then Finished. `tokens` is extended before its round is
    told, and may be cut by the listener (a stop string): call `rewind` on both caches then.
    """
    prompt, index = len(tokens), 0
    context, ahead, due = Context(chooser.law, tokens), None, None
    reason: Reason | None = _over(tokens, limits, prompt)
    policy.begin(limits.room(prompt, 0))
    while reason is None:
        room = limits.room(prompt, len(tokens) - prompt)
        standing = Standing(tokens, context, chooser)
        if due is not None:
            ahead = launch(target, standing, nothing(), due)
        flight = ahead or _depart(target, drafter, policy, standing, room)
        sure = flight.length == 0 and room > 1 and _plain_next(drafter, policy, standing)
        early = index > 0 or backend.queues()  # else the first token would be told a pass late
        ahead = launch_behind(target, standing, flight) if sure and early else None
        due = flight.reason if sure and not early else None
        round_ = _cut_at_eos(flight.land(index, began_s), limits.eos)
        if round_.parents is not None:
            target.keep(round_.path)
        context = flight.context.extended(mx.array(round_.tokens, mx.int32))
        tokens.extend(round_.tokens)
        _settle(target, drafter, tokens, ahead is not None)
        policy.observe(round_)
        reason = _over(tokens, limits, prompt) or ("cancelled" if limits.cancelled() else None)
        yield round_
        index += 1
    yield Finished(reason, len(tokens) - prompt, time.monotonic() - began_s)


def _depart(target: CachedModel, drafter: Drafter | None, policy: Policy, standing: Standing, room: int) -> Flight:
    """Propose and launch. A draft never reaches past the end of the reply."""
    plan = policy.plan(drafter.hints(standing) if drafter else ())
    length = min(plan.length, room - 1, target.room(len(standing.tokens)))  # a tree of n nodes is no deeper than n
    draft = nothing()
    if drafter and length > 0:
        draft = drafter.propose(replace(standing, gate=plan.gate, member=plan.member), length)
    reason = plan.reason if length or not plan.length else "no room for a draft here"
    if length > 0 and not draft.tokens.size:
        reason = "the drafter is not sure enough" if plan.gate and plan.gate.refused else "nothing to propose"
    return launch(target, standing, draft, reason)


def _plain_next(drafter: Drafter | None, policy: Policy, standing: Standing) -> bool:
    """Whether the next round is sure to be plain, whatever comes of this one."""
    return policy.plain_next() or (drafter is not None and policy.plain_next(drafter.quiet(standing)))


def _settle(target: CachedModel, drafter: Drafter | None, tokens: list[int], ahead: bool) -> None:
    """Take back what was refused. The last committed token has been through neither cache yet,
    unless a step ahead of it has been launched."""
    certain = len(tokens) if ahead else len(tokens) - 1
    target.rewind(certain)
    if drafter is not None:
        drafter.rewind(certain)


def _cut_at_eos(round_: Round, eos: frozenset[int]) -> Round:
    """Drop what a round committed behind an end-of-sequence token."""
    for i, token in enumerate(round_.tokens):
        if token in eos:
            return round_.cut(i + 1)
    return round_


def _over(tokens: list[int], limits: Limits, prompt: int) -> Reason | None:
    if len(tokens) > prompt and tokens[-1] in limits.eos:
        return "eos"
    if limits.room(prompt, len(tokens) - prompt) > 0:
        return None
    return "length" if len(tokens) - prompt >= limits.max_tokens else "context"
