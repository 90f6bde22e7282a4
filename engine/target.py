"""A causal language model with a rewindable memory: prefill, forward, rewind.

The target is one; a draft model is another. It knows nothing of drafts, laws or text.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import mlx.core as mx

from engine.branching import Branches
from engine.cache import ModelCache
from engine.errors import ModelError, UnsupportedCache, UsageError
from engine.features import Features
from engine.grid import NO_TREES, Grid
from engine.rope import by_rows
from engine.tree import Tree
from engine.upstream import unsound

PREFILL_CHUNK = 512
REPLAY_LIMIT = 8
UNBOUNDED = 2**31


class CachedModel:
    """An mlx-lm model and its cache.

    Invariant: `length` tokens of one sequence are in the cache. Whoever drives the model keeps the
    sequence and feeds `tokens[length:]`, whatever `length` a rewind has left. `holder` is whose
    reply that is: whoever finds another there starts anew. `features`: who reads hidden states now.
    After a pass over a tree the cache holds no sequence until `keep` or a rewind to the root says which.
    Laid on a `grid`, every pass reads one of its blocks and `length` is where a block ends.
    """

    def __init__(self, model: Any, kv_bits: int | None = None, kv_group_size: int = 64) -> None:
        if reason := unsound(model):
            raise ModelError(f"this architecture cannot be decoded exactly: {reason}; choose another model")
        self.model = model
        self.holder: object = None
        self.features: Features | None = None
        self.grid: Grid | None = None
        self._root: int | None = None
        self._by_rows = False
        self.kv_bits = kv_bits
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

        Closing the iterator between chunks is fine: `length` says how far it got. On a grid the chunks are its blocks.
        """
        for start, end in self._chunks(len(tokens), chunk):
            self.feed(tokens[start:end])
            mx.eval(self.cache.arrays(), self.features.arrays() if self.features else [])
            mx.clear_cache()  # a chunk's buffers fit no decoding step
            yield end

    def _chunks(self, count: int, chunk: int) -> list[tuple[int, int]]:
        """How the next `count` tokens are cut into passes: first and end of each, counted from here."""
        here, grid = self.length, self.grid
        if grid is None:
            return [(start, min(start + chunk, count)) for start in range(0, count, chunk)]
        return [(start - here, min(end - here, count)) for start, end in grid.blocks(here, here + count)]

    def forward(self, tokens: mx.array, shape: Tree | None = None) -> mx.array:
        """Feed (n,) token ids, which may be lazy; returns lazy logits (n, vocabulary).

        With a `shape`, the last of the tokens are the nodes of a tree that grows from the one before them. On a grid
        the tokens begin a block, the rest of which is filled up: rewind before anything else.
        """
        if self.grid is not None:
            return self._fill(self.grid, tokens, shape)
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
        end = self.length + len(tokens)
        self.forward(mx.array(list(tokens), mx.int32))
        if self.grid is not None:
            self.rewind(end)

    def _fill(self, grid: Grid, tokens: mx.array, shape: Tree | None) -> mx.array:
        """A pass over the block that begins here: lazy logits (n, vocabulary) of its first n tokens. What it lacks is
        filled up with the last of them, so that nothing is read that was not there."""
        start, end = grid.block(self.length)
        if shape is not None:
            raise UsageError(f"{NO_TREES}: draft chains, or leave exact-verify off")
        if start != self.length or tokens.size > end - start:
            raise ValueError(f"{tokens.size} tokens from {self.length} on are not of one block, {start} to {end}")
        missing = end - start - tokens.size
        self.cache.mark()
        if missing:
            tokens = mx.concatenate([tokens, mx.broadcast_to(tokens[-1:], (missing,))])
        return self._through(tokens, self.cache.entries)[: tokens.size - missing]

    def _through(self, tokens: mx.array, entries: Any) -> mx.array:
        """One pass: lazy logits (n, vocabulary). One that breaks off has reached some layers only: all is forgotten."""
        try:
            logits: mx.array = self.model(tokens[None], cache=entries)[0]
            if self.features is not None:
                self.features.record(self.length)
        except BaseException:
            self._root = None
            self.cache.reset()
            if self.features is not None:
                self.features.drop()
            raise
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
        if self.grid is not None:
            if draft.size > self.room(len(sequence)):
                raise ValueError(
                    f"a draft of {draft.size} tokens where its block has room for {self.room(len(sequence))}"
                )
            return self._in_block(self.grid, sequence, draft, shape)
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

    def continue_behind(self, sequence: Sequence[int], token: mx.array) -> tuple[mx.array, int]:
        """Lazy logits (1, vocabulary) after a `token` (1,) that is not known yet, behind a pass over all of `sequence`;
        and the width of this one."""
        if self.grid is not None:
            self.rewind(len(sequence))
            logits, width = self._in_block(self.grid, sequence, token)
            return logits[-1:], width
        self.cache.mark()
        return self.forward(token), 1

    def _in_block(
        self, grid: Grid, sequence: Sequence[int], following: mx.array, shape: Tree | None = None
    ) -> tuple[mx.array, int]:
        """Lazy logits of the last token of `sequence`, if it stands in the same block, and of each of `following`; and
        the width of the pass."""
        start = grid.start(len(sequence) + following.size - 1)
        for _ in self.prefill(sequence[self.length : start]):
            pass
        known = mx.array(list(sequence[start:]), mx.int32)
        rows = mx.concatenate([known, following.astype(mx.int32)])
        return self.forward(rows, shape if following.size else None)[-(following.size + 1) :], self.length - start

    def lay(self, grid: Grid | None) -> None:
        """From here on passes lie on `grid`. What other blocks made is forgotten. Raises UnsupportedCache for a model
        whose passes find there what others left."""
        if grid == self.grid:
            return
        if grid is not None and not self.cache.by_place:
            raise UnsupportedCache(
                "exact-verify needs every pass to see the same keys whatever was refused before, and this model's "
                "chunked cache keeps no such promise: leave it off"
            )
        self.rewind(self.grid.shared(grid, self.length) if self.grid is not None and grid is not None else 0)
        self.grid = grid

    def room(self, length: int) -> int:
        """Most tokens that a draft behind `length` tokens may have: any number, save on a grid."""
        return UNBOUNDED if self.grid is None else self.grid.room(length - 1)

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
        """Forget all but the first `length` tokens, or a few more where needed, on a grid back to where a block begins;
        returns what is left."""
        if self._root is not None:  # rows behind it are no sequence
            length, self._root = min(length, self._root), None
        kept = self.cache.rewind(length if self.grid is None else self.grid.start(length))
        if self.features is not None:
            self.features.cut(length)  # what the cache lost of them is fed again, but was seen
        return kept

    def read_by(self, features: Features | None) -> None:
        """From here on `features` logs every pass, in place of whoever did before and is told no more."""
        if self.features is not None and self.features is not features:
            self.features.drop()
        self.features = features
