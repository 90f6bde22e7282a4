"""The EAGLE-3 head as a drafter (Li 2025, arXiv 2503.01840): chains, or the dynamic trees of EAGLE-2 (Li 2024,
arXiv 2406.16858).

Pair i is what the target thought at token i together with token i + 1; the head's cache holds one entry a pair.
Every pair of the committed sequence has the target's own features; entries of drafted steps, which stand on the
head's own output, are dropped as soon as the draft is made. So after n committed tokens n - 1 pairs are known, and
drafting catches up with one pass over what the last round committed, whose last row is the first drafted step.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import mlx.core as mx

from engine.anatomy import embed
from engine.drafters import Draft, Standing, nothing
from engine.drafters.chain import draw_chain
from engine.drafters.growth import Growth
from engine.features import Features
from engine.heads.eagle3 import Eagle3Head
from engine.rope import by_row
from engine.target import PREFILL_CHUNK, CachedModel
from engine.upstream import KVCache


class Eagle:
    """Drafts with `head` for `target`. trees: whether to branch; else chains."""

    name = "eagle3"

    def __init__(self, head: Eagle3Head, target: CachedModel, trees: bool = False) -> None:
        self.head = head
        self.trees = trees
        self.features: Features = Features(target.model, head.config.points)
        self._embed: Callable[[mx.array], mx.array] = embed(target.model)
        self._cache = KVCache()

    @property
    def pairs(self) -> int:
        """Pairs in the cache, all of committed tokens between rounds."""
        return int(self._cache.offset)

    def prefill(self, tokens: Sequence[int], cancelled: Callable[[], bool] = lambda: False) -> None:
        while len(tokens) - 1 - self.pairs > 1 and not cancelled():  # the last pair is the first step of a draft
            upto = min(len(tokens) - 2, self.pairs + PREFILL_CHUNK)
            self._catch_up(tokens, upto)  # what it gives is not evaluated: later pairs look at keys and values alone
            mx.eval(self._cache.keys, self._cache.values)

    def propose(self, standing: Standing, length: int) -> Draft:
        if length == 0 or len(standing.tokens) < 2:  # a first token has no pair yet
            return nothing()
        if len(standing.tokens) - self.pairs > PREFILL_CHUNK:  # after a long stretch of plain steps
            self.prefill(standing.tokens)
        hidden = self._catch_up(standing.tokens, len(standing.tokens) - 1)[-1:]
        known = self.pairs
        if self.trees and length > 1:
            draft = Growth(self.head, self.steps, standing, known, length).draft(hidden)
        else:
            draft = self._chain(standing, hidden, length)
        self._cache.trim(self.pairs - known)
        return draft

    def hints(self, standing: Standing) -> Sequence[float | None]:
        return (None,)

    def quiet(self, standing: Standing) -> bool:
        return False

    def rewind(self, length: int) -> None:
        self._cache.trim(max(self.pairs - max(length - 1, 0), 0))

    def reach(self) -> int:
        """Pairs are made of features, so up to the first token that has none yet."""
        return max(self.pairs, self.features.end if self.features.start <= self.pairs else 0)

    def _catch_up(self, tokens: Sequence[int], upto: int) -> mx.array:
        """Put the pairs before `upto` that are missing through the head; its hidden states (n, hidden)."""
        first = self.pairs
        features = self.features.take(first, upto)
        hidden = self.head.fuse(features.astype(self.head.fc.weight.dtype))
        following = mx.array(list(tokens[first + 1 : upto + 1]), mx.int32)
        return self.steps(hidden, following)

    def steps(
        self, hidden: mx.array, tokens: mx.array, position: int | None = None, mask: mx.array | None = None
    ) -> mx.array:
        """One pair a row, (n, hidden) and (n,), to the next hidden states (n, hidden).

        The rows follow each other; or, with a `position` and a `mask` (n, pairs + n), they all stand there and see
        what the mask says.
        """
        first, cache, head = self.pairs, self._cache, self.head
        position = first if position is None else position

        def attend(queries: mx.array, keys: mx.array, values: mx.array) -> mx.array:
            rotate = head.rope if mask is None else by_row(head.rope)
            queries, keys = rotate(queries, offset=position), rotate(keys, offset=position)
            keys, values = cache.update_and_fetch(keys, values)
            seen = "causal" if mask is None and queries.shape[2] > 1 else mask
            return mx.fast.scaled_dot_product_attention(queries, keys, values, scale=head.scale, mask=seen)

        return head(hidden[None], self._embed(tokens)[None].astype(hidden.dtype), attend)[0]

    def _chain(self, standing: Standing, hidden: mx.array, length: int) -> Draft:
        head = self.head

        def follow(token: mx.array) -> mx.array:
            nonlocal hidden
            hidden = self.steps(hidden, token)
            return head.logits(hidden)

        return draw_chain(standing, head.logits(hidden), follow, length, head.ids)
