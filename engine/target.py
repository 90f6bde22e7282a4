"""A causal language model with a rewindable memory: prefill, forward, rewind.

The target is one; a draft model is another. It knows nothing of drafts, laws or text.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import mlx.core as mx

from engine.branching import Branches
from engine.cache import ModelCache
from engine.errors import ModelError, UnsupportedCache
from engine.features import Features
from engine.rope import by_rows
from engine.tree import Tree
from engine.upstream import unsound

PREFILL_CHUNK = 512
REPLAY_LIMIT = 8


class CachedModel:
    """An mlx-lm model and its cache.

    Invariant: `length` tokens of one sequence are in the cache. Whoever drives the model keeps the
    sequence and feeds `tokens[length:]`, whatever `length` a rewind has left. `holder` is whose
    reply that is: whoever finds another there starts anew. `features`: who reads hidden states now.
    After a pass over a tree the cache holds no sequence until `keep` or a rewind to the root says which.
    """

    def __init__(self, model: Any, kv_bits: int | None = None, kv_group_size: int = 64) -> None:
        if reason := unsound(model):
            raise ModelError(f"this architecture cannot be decoded exactly: {reason}; choose another model")
        self.model = model
        self.holder: object = None
        self.features: Features | None = None
        self._root: int | None = None
        self._by_rows = False
        self.cache = ModelCache(model, kv_bits, kv_group_size)
        try:
            self.vocabulary = self._measure_vocabulary()
        except ValueError as error:
            if kv_bits is None:
                raise
            raise UnsupportedCache(
                f"this model's KV cache cannot be quantized to {kv_bits} bits in groups of {kv_group_size} "
                f"({error}): leave it as it is"
            ) from error

    @property
    def length(self) -> int:
        return self.cache.length

    def _measure_vocabulary(self) -> int:
        """Width of the logits, from a pass over one token that is never evaluated."""
        width = int(self.forward(mx.zeros(1, mx.int32)).shape[-1])
        self.cache.reset()
        return width

    def prefill(self, tokens: Sequence[int], chunk: int = PREFILL_CHUNK) -> Iterator[int]:
        """Feed `tokens` in chunks, one evaluation each; yields how many are in after each chunk.

        Closing the iterator between chunks is fine: `length` says how far it got.
        """
        for start in range(0, len(tokens), chunk):
            self.feed(tokens[start : start + chunk])
            mx.eval(self.cache.arrays(), self.features.arrays() if self.features else [])
            mx.clear_cache()  # a chunk's buffers fit no decoding step
            yield min(start + chunk, len(tokens))

    def forward(self, tokens: mx.array, shape: Tree | None = None) -> mx.array:
        """Feed (n,) token ids, which may be lazy; returns lazy logits (n, vocabulary).

        With a `shape`, the last of the tokens are the nodes of a tree that grows from the one before them.
        """
        entries: Any = self.cache.entries
        if shape is not None:
            if not self._by_rows:
                by_rows(self.model)
                self._by_rows = True
            lacking = tokens.size - shape.size
            entries = self.cache.branched(Branches.of(shape, self.length, lacking))
            self._root = self.length + lacking
        return self._through(tokens, entries)

    def feed(self, tokens: Sequence[int]) -> None:
        """Put tokens into the cache; nothing is evaluated and no logits are kept."""
        self._through(mx.array(list(tokens), mx.int32), self.cache.entries)

    def _through(self, tokens: mx.array, entries: Any) -> mx.array:
        """One pass: lazy logits (n, vocabulary). One that breaks off has reached some layers only: all is forgotten."""
        try:
            logits: mx.array = self.model(tokens[None], cache=entries)[0]
        except BaseException:
            self._root = None
            self.cache.reset()
            if self.features is not None:
                self.features.drop()
            raise
        if self.features is not None:
            self.features.record(self.length)
        self.cache.advance(tokens.size)
        return logits

    def continue_from(
        self, sequence: Sequence[int], draft: mx.array, shape: Tree | None = None
    ) -> tuple[mx.array, int]:
        """Lazy logits (k + 1, vocabulary) after the last token of `sequence` and after each of `draft` (k,), a chain
        or, with a `shape`, a tree.

        Whatever the cache lacks of `sequence` (at least its last token; more after a rewind that fell
        short) rides in the same pass, unless that is more than REPLAY_LIMIT tokens: then all but the
        last go through first, so that passes don't grow with a run of refusals. The place is marked
        where the certain tokens end: behind them when there is no draft, else before the pass. Also
        returns the width of the pass in rows.
        """
        lacking = sequence[self.length :]
        if not lacking:
            raise ValueError("the cache already holds the whole sequence: rewind it by one token first")
        if len(lacking) > REPLAY_LIMIT:
            self.feed(lacking[:-1])
            lacking = lacking[-1:]
        rows = mx.array(list(lacking), mx.int32)
        if draft.size:
            self.cache.mark()
            rows = mx.concatenate([rows, draft.astype(mx.int32)])
        logits = self.forward(rows, shape if draft.size else None)
        if not draft.size:
            self.cache.mark()
        return logits[len(lacking) - 1 :], rows.size

    def mark(self) -> None:
        """Keep this place until the next mark: a rewind to it or behind it need not start anew."""
        self.cache.mark()

    def pin(self) -> None:
        """Keep this place reachable for later turns, in models whose state cannot drop tokens."""
        self.cache.mark(pinned=True)

    def keep(self, path: Sequence[int]) -> None:
        """Of the tree that the latest pass went over, keep the nodes on `path`, and with them the root."""
        if self._root is None:
            raise ValueError("the latest pass was over no tree, so there is no path to keep")
        self.cache.keep(self._root, path)
        if self.features is not None:
            self.features.select(self._root, path)
        self._root = None

    def rewind(self, length: int) -> int:
        """Forget all but the first `length` tokens, or a few more where needed; returns what is left."""
        if self._root is not None:  # rows behind it are no sequence
            length, self._root = min(length, self._root), None
        kept = self.cache.rewind(length)
        if self.features is not None:
            self.features.cut(length)  # what the cache lost of them is fed again, but was seen
        return kept

    def read_by(self, features: Features | None) -> None:
        """From here on `features` logs every pass, in place of whoever did before and is told no more."""
        if self.features is not None and self.features is not features:
            self.features.drop()
        self.features = features
