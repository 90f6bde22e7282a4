"""Draft trees: which token follows which, and what the rows of a verify pass may see.

A verify pass over a tree has a row for the root (the last committed token) and one for each node. Here nodes are
numbered 0 to n - 1, parents before children, and row i + 1 of the pass belongs to node i:

    root ── 0 "the" ── 2 "cat"          parents  [-1, -1, 0, 0]
         │          └─ 3 "dog"          depths   [ 1,  1, 2, 2]
         └─ 1 "a"                       reach    node 3 sees itself, node 0 and everything committed

`engine.cache.tree_cache.TreeRows` has the mask and the positions of such a pass.

A chain is the tree in which each node follows the one before. Parents may be lazy: a dynamic tree is chosen,
verified and accepted in one graph, without a synchronisation.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import mlx.core as mx


@dataclass(frozen=True)
class DraftTree:
    """parents: (n,) int32, -1 for children of the root, may be lazy. depth: levels at most. breadth: children of one
    node at most. Both are known beforehand.

    Siblings stand for different tokens, in the order in which they are tried.
    """

    parents: mx.array
    depth: int
    breadth: int

    @classmethod
    def of(cls, parents: Sequence[int]) -> DraftTree:
        """Returns a tree that is known beforehand. Raises ValueError unless parents come before their children."""
        depths: list[int] = []
        for node, parent in enumerate(parents):
            if not -1 <= parent < node:
                raise ValueError(f"node {node} follows node {parent}: parents come before their children")
            depths.append(1 + (depths[parent] if parent >= 0 else 0))
        breadth = max(Counter(parents).values(), default=0)
        return cls(mx.array(list(parents), mx.int32), max(depths, default=0), breadth)

    @property
    def size(self) -> int:
        return self.parents.size

    @cached_property
    def reach(self) -> mx.array:
        """(n, n) bool: row i is true at node i and at each of its ancestors."""
        own = mx.eye(self.size, dtype=mx.bool_)
        below_root = self.parents >= 0
        reach = own
        for _ in range(self.depth - 1):
            reach = own | (below_root[:, None] & reach[mx.maximum(self.parents, 0)])
        return reach

    @cached_property
    def depths(self) -> mx.array:
        """(n,) int32: 1 for children of the root."""
        return mx.sum(self.reach.astype(mx.int32), -1)

    @cached_property
    def row_depths(self) -> mx.array:
        """(n + 1,) int32: of the root, 0, and of each node."""
        return mx.concatenate([mx.zeros(1, mx.int32), self.depths])


def tree_mask(reach: mx.array, seen: int, missing: int) -> mx.array:
    """Returns the mask of a pass whose rows are `missing` tokens of the sequence and then the nodes of a tree.

    seen: tokens already in the cache. Returns (missing + n, seen + missing + n) bool, true where a row may look.
    """
    n = reach.shape[0]
    tokens = mx.arange(seen + missing)[None] <= mx.arange(seen, seen + missing)[:, None]
    upper = mx.concatenate([tokens, mx.zeros((missing, n), mx.bool_)], 1)
    lower = mx.concatenate([mx.ones((n, seen + missing), mx.bool_), reach], 1)
    return mx.concatenate([upper, lower], 0)
