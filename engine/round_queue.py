"""The rounds of a reply, one after another: submitted, waited for, and committed, which takes back refused tokens."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable

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
    been submitted ahead. cancelled: as in `DraftContext`.
    """

    def __init__(
        self,
        target: CachedModel,
        sampler: Sampler,
        tokens: list[int],
        began_s: float,
        cancelled: Callable[[], bool] = lambda: False,
    ) -> None:
        self._target, self._sampler, self._tokens, self._began_s = target, sampler, tokens, began_s
        self._cancelled = cancelled
        self._counts = TokenCounts(sampler.distribution, tokens)
        self._rounds = 0
        self._clearance = BufferClearance()
        self._pending: deque[PendingRound] = deque()  # in the order of their submission

    @property
    def context(self) -> DraftContext:
        """Where the reply stands."""
        return DraftContext(self._tokens, self._counts, self._sampler, self._cancelled)

    @property
    def has_pending(self) -> bool:
        """Whether the next round has been submitted."""
        return bool(self._pending)

    @property
    def may_run_ahead(self) -> bool:
        """Whether a plain step may be submitted before the pending round is waited for: after a plain one, and where
        that would not delay the first token, because the backend queues what is submitted. Not with a grammar, whose
        mask needs the token before, nor where the token before changes how positions are rotated."""
        if self._sampler.grammar is not None or not self._target.rotation.tokens_left(len(self._tokens)):
            return False
        return self._pending[-1].is_plain and (self._rounds > 0 or backend.queues())

    def submit(self, draft: Draft) -> None:
        """Submits the round of `draft`."""
        self._pending.append(verify_pass.submit(self._target, self.context, draft))

    def submit_ahead(self) -> None:
        """Submits a plain step on the token of the pending round, which is plain too and not known yet."""
        self._pending.append(verify_pass.submit_after(self._target, self.context, self._pending[-1]))

    def wait(self) -> Round:
        """Waits for the next round."""
        pending = self._pending.popleft()
        self._counts = pending.counts
        return pending.wait(self._rounds, self._began_s)

    def commit(self, round_: Round) -> int:
        """Makes the tokens of `round_` part of the reply and takes back what was refused. Returns how many tokens are
        certain: all but the last, which has been through no cache yet, unless a step has been submitted ahead."""
        if round_.parents is not None:
            self._target.keep_path(round_.path)
        self._counts = self._counts.extended(round_.tokens)
        self._tokens.extend(round_.tokens)
        if self._sampler.grammar is not None:
            self._sampler.grammar.advance(round_.tokens)
        self._rounds += 1
        certain = len(self._tokens) if self.has_pending else len(self._tokens) - 1
        self._target.rewind(certain)
        self._clearance.count(len(round_.tokens))
        return certain
