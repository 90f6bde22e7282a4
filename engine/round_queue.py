"""The rounds of a reply, one after another: submitted, waited for, and committed, which takes back refused tokens."""

from __future__ import annotations

import mlx.core as mx

from engine import backend, verify_pass
from engine.backend.memory import BufferClearance
from engine.drafters import Draft, DraftContext
from engine.events import Round
from engine.sampling import Sampler, TokenCounts
from engine.target.cached_model import CachedModel
from engine.verify_pass import PendingRound


class RoundQueue:
    """The rounds of one reply on the device: the one waited for next, and at most one plain step submitted ahead of it.

    Invariant: between two rounds the target's cache holds all of `tokens` but the last, or all of them if a step has
    been submitted ahead.
    """

    def __init__(self, target: CachedModel, sampler: Sampler, tokens: list[int], began_s: float) -> None:
        self._target, self._sampler, self._tokens, self._began_s = target, sampler, tokens, began_s
        self._counts = TokenCounts(sampler.distribution, tokens)
        self._rounds = 0
        self._clearance = BufferClearance()
        self._pending: PendingRound | None = None
        self._ahead: PendingRound | None = None

    @property
    def context(self) -> DraftContext:
        """Where the reply stands."""
        return DraftContext(self._tokens, self._counts, self._sampler)

    @property
    def has_step_ahead(self) -> bool:
        """Whether the next round is a plain step that has been submitted already."""
        return self._ahead is not None

    @property
    def may_run_ahead(self) -> bool:
        """Whether another plain step may be submitted before the round that comes next is waited for: after a plain
        one, and where that would not delay the first token, because the backend queues what is submitted. Not with a
        grammar, whose mask needs the token before."""
        if self._sampler.grammar is not None:
            return False
        pending = self._ahead or self._pending
        return pending is not None and pending.is_plain and (self._rounds > 0 or backend.queues())

    def verify(self, draft: Draft) -> None:
        """Submits the round of `draft`."""
        self._pending = verify_pass.submit(self._target, self.context, draft)

    def wait(self, plain_follows: bool = False) -> Round:
        """Waits for the next round, with another plain step submitted after it if one is sure to follow."""
        pending = self._ahead or self._pending
        if pending is None:
            raise ValueError("no round has been submitted")
        self._ahead = verify_pass.submit_after(self._target, self.context, pending) if plain_follows else None
        self._pending, self._counts = None, pending.counts
        return pending.wait(self._rounds, self._began_s)

    def commit(self, round_: Round) -> int:
        """Makes the tokens of `round_` part of the reply and takes back what was refused. Returns how many tokens are
        certain: all but the last, which has been through no cache yet, unless a step has been submitted ahead."""
        if round_.parents is not None:
            self._target.keep_path(round_.path)
        self._counts = self._counts.extended(mx.array(round_.tokens, mx.int32))
        self._tokens.extend(round_.tokens)
        if self._sampler.grammar is not None:
            self._sampler.grammar.advance(round_.tokens)
        self._rounds += 1
        certain = len(self._tokens) if self.has_step_ahead else len(self._tokens) - 1
        self._target.rewind(certain)
        self._clearance.count(len(round_.tokens))
        return certain
