"""Caches for a verify pass over a tree, around caches that know only sequences.

For one pass each layer's cache is wrapped. The wrapper appends the rows as usual, but tells the layer each row's own
position in place of one offset (`engine.tree.rotary_positions` lets rotary modules take that), and the mask of the tree
in place of the causal one. Afterwards the cache holds rows that are no sequence; `TreeCache.keep` moves those of the
accepted path together.

    rows in the cache    committed ... root | 0 1 2 3        nodes 0, 2 accepted
    after keep           committed ... root | 0 2

The rows that are moved are read from the pass's own keys and values, not from the cache. MLX writes into an array in
place only while nothing else holds it, and what a gather reads is held until the device has run it: reading them from
the cache would copy the whole cache, in every layer and round.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import mlx.core as mx

from engine.backend.mlx_lm_imports import KVCache
from engine.cache.sliding_window import SlidingKVCache
from engine.tree.draft_tree import DraftTree, tree_mask


@dataclass(frozen=True)
class TreeRows:
    """What the rows of a pass over a tree may see, and their positions.

    mask: (rows, seen + rows) bool. positions: (rows,) int32. seen: tokens in the cache before the pass.
    """

    mask: mx.array
    positions: mx.array
    seen: int

    @classmethod
    def of(cls, tree: DraftTree, seen: int, missing: int) -> TreeRows:
        """Returns the rows of a pass over `missing` >= 1 more tokens of the sequence, the last being the root, and a
        tree."""
        chain = mx.arange(seen, seen + missing)
        positions = mx.concatenate([chain, seen + missing - 1 + tree.depths])
        return cls(tree_mask(tree.reach, seen, missing), positions.astype(mx.int32), seen)

    def window(self, size: int, shown: int) -> mx.array:
        """Returns the mask over the last `shown` of the keys, none being `size` or more positions before its row."""
        rows = self.positions.size
        keys = mx.concatenate([mx.arange(self.seen), self.positions])[-(shown + rows) :]
        return self.mask[:, -(shown + rows) :] & (self.positions[:, None] - keys[None] < size)


class TreeCache:
    """One layer's cache during a pass over a tree. `offset` is an array: a position for each row."""

    def __init__(self, leaf: Any, rows: TreeRows) -> None:
        self._leaf = leaf
        self._rows = rows
        self._before = min(leaf.offset, leaf.max_size - 1) if isinstance(leaf, SlidingKVCache) else leaf.offset
        self._newest: tuple[mx.array, mx.array] | None = None  # keys and values of the pass; None without attention
        self.offset = rows.positions

    @property
    def keys(self) -> Any:
        """What a rank of a pipeline has wait for what it sends."""
        return self._leaf.keys

    @keys.setter
    def keys(self, keys: Any) -> None:
        self._leaf.keys = keys

    def update_and_fetch(self, keys: mx.array, values: mx.array) -> Any:
        self._newest = keys, values
        return self._leaf.update_and_fetch(keys, values)

    def keys_and_values(self) -> Any:
        """What the latest update showed, for layers that share it."""
        return self._leaf.keys_and_values()

    def make_mask(self, N: int, window_size: int | None = None, return_array: bool = False) -> mx.array:
        sizes = [size for size in (window_size, getattr(self._leaf, "max_size", None)) if size]
        return self._rows.window(min(sizes), self._before) if sizes else self._rows.mask

    def keep(self, first: int, places: Sequence[int], rows: int) -> None:
        """Keeps of the newest `rows` rows of the cache, which begin at token `first`, those at `places`, in this
        order."""
        if self._newest is None:
            return
        leaf, start = self._leaf, first - getattr(self._leaf, "start", 0)
        if tuple(places) != tuple(range(len(places))):
            chosen = mx.array(list(places), mx.int32) - rows
            keys, values = (newest[..., chosen, :] for newest in self._newest)
            leaf.keys[..., start : start + len(places), :] = keys
            leaf.values[..., start : start + len(places), :] = values
        leaf.trim(rows - len(places))

    def __getattr__(self, name: str) -> Any:
        raise AttributeError(f"a pass over a tree does not know a cache's {name}")


def can_drop_rows(leaf: Any) -> bool:
    """Whether rows of this cache can be dropped from its middle."""
    return type(leaf) in (KVCache, SlidingKVCache)
