"""A chain drafted by a head that reads pairs: the target's state at one token together with the token after it.

EAGLE heads (Li 2024, arXiv 2401.15077) and multi-token prediction heads (DeepSeek-V3, arXiv 2412.19437) both work so:
the pair of state i and token i + 1 gives a hidden state from which token i + 2 is drawn; after a drafted token the
head's own hidden state takes the place of the target's.

The head's cache holds one entry a pair. Every pair of the committed sequence has the target's own state; entries of
drafted steps, which build on the head's own output, are dropped as soon as the draft is made. So after n committed
tokens n - 1 pairs are known, and drafting catches up with one pass over what the last round committed, whose last row
is the first drafted step.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import Any

import mlx.core as mx

from engine.backend.mlx_lm_imports import KVCache
from engine.cache.snapshot import Snapshot, put, take
from engine.drafters import Draft, DraftContext, Needs, Traits, empty_draft
from engine.drafters.chain import draw_chain
from engine.rotary_embedding import RotationByLength
from engine.target.cached_model import PREFILL_CHUNK, CachedModel
from engine.target.target_view import TargetView


class PairDrafter(ABC):
    """Drafts for `target` with a head whose caches, one a layer, are `caches`. rotary: the modules that rotate its
    keys, where the length of a text may change how.

    Raises ModelError for a target whose states cannot be read.
    """

    name = "pairs"
    ids: mx.array | None = None  # (width,) the target's tokens that the columns of the logits stand for; None: all

    def __init__(
        self,
        target: CachedModel,
        needs: Needs,
        caches: Sequence[KVCache],
        traits: Traits | None = None,
        rotary: Sequence[Any] = (),
    ) -> None:
        self.needs = needs
        self.traits = traits or Traits("chain")
        self.target = TargetView(target, needs.taps)
        self._caches = caches
        self._rotation = RotationByLength(rotary)

    @abstractmethod
    def fuse(self, states: mx.array) -> mx.array:
        """Returns the hidden states (n, hidden) that pairs begin with, of the target's states (n, width)."""

    @abstractmethod
    def steps(self, hidden: mx.array, tokens: mx.array) -> mx.array:
        """Runs the head over one pair a row, (n, hidden) and (n,), that follow each other after the pairs in the
        cache; returns the next hidden states (n, hidden)."""

    @abstractmethod
    def logits(self, hidden: mx.array) -> mx.array:
        """Returns logits (n, width) of hidden states (n, hidden)."""

    @property
    def pairs(self) -> int:
        """How many pairs are in the cache; between rounds all are of committed tokens."""
        return int(self._caches[0].offset)

    def sync(self, tokens: Sequence[int], cancelled: Callable[[], bool] = lambda: False) -> None:
        while len(tokens) - 1 - self.pairs > 1 and not cancelled():  # the last pair is the first step of a draft
            upto = min(len(tokens) - 2, self.pairs + PREFILL_CHUNK)
            self._catch_up(tokens, upto)  # its states stay unevaluated: later pairs look at keys and values alone
            mx.eval([(cache.keys, cache.values) for cache in self._caches])

    def propose(self, context: DraftContext, length: int) -> Draft:
        if length == 0 or len(context.tokens) < 2:  # a first token has no pair yet
            return empty_draft()
        if len(context.tokens) - self.pairs > PREFILL_CHUNK:  # after a long stretch of plain steps
            self.sync(context.tokens, context.cancelled)
            if context.cancelled():
                return empty_draft()
        hidden = self._catch_up(context.tokens, len(context.tokens) - 1)[-1:]
        known = self.pairs
        draft = self.draft(context, hidden, length)
        self._trim(known)
        return draft

    def draft(self, context: DraftContext, hidden: mx.array, length: int) -> Draft:
        """Returns a chain of `length` tokens that begins with the hidden state (1, hidden) of the last pair."""

        def next_logits(token: mx.array) -> mx.array:
            nonlocal hidden
            hidden = self.steps(hidden, token)
            return self.logits(hidden)

        return draw_chain(context, self.logits(hidden), next_logits, length, self.ids)

    def hint(self, context: DraftContext) -> None:
        return None

    def rewind(self, length: int) -> None:
        self._trim(min(self.pairs, max(length - 1, 0)))

    def reusable_prefix(self) -> int:
        """Pairs are made of states, so up to the first token that has none yet."""
        start, end = self.target.recorded
        return max(self.pairs, end if start <= self.pairs else 0)

    def snapshot(self) -> Snapshot:
        return {"caches": take(self._caches), "is_long": self._rotation.is_long}

    def restore(self, snapshot: Snapshot) -> None:
        put(self._caches, snapshot["caches"])
        self._rotation.switch(snapshot["is_long"])

    def _trim(self, pairs: int) -> None:
        """Drops all pairs but the first `pairs`."""
        dropped = self.pairs - pairs
        for cache in self._caches:
            cache.trim(dropped)

    def _catch_up(self, tokens: Sequence[int], upto: int) -> mx.array:
        """Runs the head over the pairs before `upto` that are missing; returns its hidden states (n, hidden)."""
        first = self.pairs
        self._rotation.follow(len(tokens), self._caches)
        states = self.target.hidden(self.needs.taps, first, upto)
        following = mx.array(list(tokens[first + 1 : upto + 1]), mx.int32)
        return self.steps(self.fuse(states), following)
