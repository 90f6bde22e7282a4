"""A verify pass over a tree, through caches that know only sequences.

For one pass each layer's cache is wrapped. The wrapper appends the rows as usual, but tells the layer each row's own
position in place of one offset (`engine.rope` lets rotary modules take that), and the mask of the tree in place of the
causal one. Afterwards the cache holds rows that are no sequence; `keep` moves those of the accepted way together.

    rows in the cache   committed ... root | 0 1 2 3        nodes 0, 2 accepted
    after keep          committed ... root | 0 2
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import mlx.core as mx

from engine.sliding import SlidingKVCache
from engine.tree import Tree, visible
from engine.upstream import KVCache


@dataclass(frozen=True)
class Branches:
    """What the rows of one pass may see and where they stand.

    mask: (rows, seen + rows) bool. positions: (rows,) int32. seen: tokens in the cache before the pass.
    """

    mask: mx.array
    positions: mx.array
    seen: int

    @classmethod
    def of(cls, shape: Tree, seen: int, lacking: int) -> Branches:
        """Of a pass over `lacking` >= 1 more tokens of the sequence, the last being the root, and a tree."""
        chain = mx.arange(seen, seen + lacking)
        positions = mx.concatenate([chain, seen + lacking - 1 + shape.depths])
        return cls(visible(shape.reach, seen, lacking), positions.astype(mx.int32), seen)

    def window(self, size: int, shown: int) -> mx.array:
        """The mask over the last `shown` of the keys, none being `size` or more positions before its row."""
        rows = self.positions.size
        keys = mx.concatenate([mx.arange(self.seen), self.positions])[-(shown + rows) :]
        return self.mask[:, -(shown + rows) :] & (self.positions[:, None] - keys[None] < size)


class BranchedCache:
    """One layer's cache for the time of one pass. `offset` is an array: a position for each row."""

    def __init__(self, leaf: Any, branches: Branches) -> None:
        self._leaf = leaf
        self._branches = branches
        self._before = min(leaf.offset, leaf.max_size - 1) if isinstance(leaf, SlidingKVCache) else leaf.offset
        self.offset = branches.positions

    def update_and_fetch(self, keys: mx.array, values: mx.array) -> Any:
        return self._leaf.update_and_fetch(keys, values)

    def keys_and_values(self) -> Any:
        """What the latest update showed, for layers that share it."""
        return self._leaf.keys_and_values()

    def make_mask(self, N: int, window_size: int | None = None, return_array: bool = False) -> mx.array:
        sizes = [size for size in (window_size, getattr(self._leaf, "max_size", None)) if size]
        return self._branches.window(min(sizes), self._before) if sizes else self._branches.mask

    def __getattr__(self, name: str) -> Any:
        raise AttributeError(f"a pass over a tree does not know a cache's {name}")


def can_branch(leaf: Any) -> bool:
    """Whether rows of this cache can be left out again from the middle."""
    return type(leaf) in (KVCache, SlidingKVCache)


def keep(leaf: Any, first: int, places: Sequence[int], rows: int) -> None:
    """Of the newest `rows` rows of a cache, which begin at token `first`, keep those at `places`, in this order."""
    if leaf.keys is None:  # of a layer that has no attention
        return
    start = first - getattr(leaf, "start", 0)
    if tuple(places) != tuple(range(len(places))):
        chosen = mx.array(list(places), mx.int32) + start
        end = start + len(places)
        leaf.keys[..., start:end, :] = leaf.keys[..., chosen, :]
        leaf.values[..., start:end, :] = leaf.values[..., chosen, :]
    leaf.trim(rows - len(places))
