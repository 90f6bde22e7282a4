"""Rejection sampling among the children of every row of a tree at once, for `engine.acceptance.reject_tree`.

A row's children x0, x1, ... were drawn from q without replacement and are tried in order. Refusing one turns p into
max(0, p - q) / Z, and takes it out of q, which is renormalised. Written out, after some refusals

    p is max(0, p - a q) / mass    also of the refused tokens: only one with p < q is ever refused, and that leaves 0
    q is q / left                  left: the sum of q over all tokens but those refused

and another refusal raises a by mass / left. So a row is two numbers, and only its new mass is a sum over the
vocabulary. Rows with the most children come first, so that later ranks need fewer rows: at most n / 2 of n nodes are
second children.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import mlx.core as mx

from engine.tree.draft_tree import DraftTree


class Siblings(NamedTuple):
    """Who is a child of whom, lazy. Rows are numbered as in a verify pass: the root is 0, node i is row i + 1.

    parents: (n,) the row of each node's parent. earlier: (n, n) bool, whether the second is a sibling of the first and
    comes before it. ranks: (n,) how many come before each. most: the most children of any row, known beforehand.
    """

    parents: mx.array
    earlier: mx.array
    ranks: mx.array
    most: int

    @classmethod
    def of(cls, tree: DraftTree) -> Siblings:
        """Returns the siblings of a tree."""
        places, parents = mx.arange(tree.size), tree.parents + 1
        earlier = (parents[:, None] == parents[None]) & (places[:, None] > places[None])
        return cls(parents, earlier, mx.sum(earlier.astype(mx.int32), -1), tree.breadth)

    def with_most_children(self) -> mx.array:
        """Returns n rows, those with most children first, (n,) int32. Every row that has a child is among them."""
        n = self.parents.size
        counts = mx.sum((self.parents[None] == mx.arange(n + 1)[:, None]).astype(mx.int32), -1)
        return mx.argsort(-counts)[:n].astype(mx.int32)

    def children(self, rows: mx.array) -> tuple[mx.array, mx.array]:
        """Returns the nodes that follow each of `rows` (m,), in order, and whether there is one in each place: both
        (m, most). Where there is none, the node is the first child, or 0 for a row without children."""
        ranks = mx.arange(self.most)[None, :, None]
        hits = (self.parents[None, None] == rows[:, None, None]) & (self.ranks[None, None] == ranks)
        exist, nodes = mx.any(hits, -1), mx.argmax(hits, -1)
        return mx.where(exist, nodes, nodes[:, :1]), exist


class _Rows(NamedTuple):
    """Some rows and their children. p, q: (rows, vocabulary). px, qx: (rows, most) of the children, q as 0 where there
    is none. left: (rows, most) the sum of q over all tokens but the children before. a, mass: (rows,)."""

    p: mx.array
    q: mx.array
    px: mx.array
    qx: mx.array
    left: mx.array
    a: mx.array
    mass: mx.array

    @classmethod
    def of(cls, logp: mx.array, draft: mx.array, logq: mx.array, siblings: Siblings, rows: mx.array) -> _Rows:
        """Returns `rows` (m,) with no child refused yet."""
        nodes, exist = siblings.children(rows)
        tokens = draft[nodes]
        p, q = mx.exp(logp[rows]), mx.exp(logq[nodes[:, 0]])
        px, qx = mx.take_along_axis(p, tokens, -1), mx.where(exist, mx.take_along_axis(q, tokens, -1), 0.0)
        others = mx.sum(mx.put_along_axis(q, tokens, mx.array(0.0), -1), -1, keepdims=True)
        left = others + mx.cumsum(qx, -1, reverse=True)
        return cls(p, q, px, qx, left, mx.zeros(rows.size), mx.ones(rows.size))

    def refused(self, rank: int, count: int) -> _Rows:
        """Returns the first `count` rows after their child of this rank was refused, where there is one that q can have
        drawn. Where only rounding would be left of p, p stays."""
        rows = _Rows(*(x[:count] for x in self))
        a = mx.where(rows.qx[:, rank] > 0, rows.a + rows.mass / rows.left[:, rank], rows.a)
        mass = mx.sum(_rest(rows.p, rows.q, a[:, None]), -1)
        return rows._replace(a=mx.where(mass > 0, a, rows.a), mass=mx.where(mass > 0, mass, rows.mass))

    def chance(self, rank: int) -> mx.array:
        """Returns p / q of the child of this rank, (rows,); 0 where q cannot have drawn it."""
        px, qx = self.px[:, rank], self.qx[:, rank]
        return mx.where(qx > 0, _rest(px, qx, self.a) / self.mass / (qx / self.left[:, rank]), 0.0)


def _rest(p: mx.array, q: mx.array, a: mx.array) -> mx.array:
    return mx.maximum(p - a * q, 0.0)


def accepted_children(
    logp: mx.array, draft: mx.array, logq: mx.array, siblings: Siblings, uniforms: mx.array
) -> mx.array:
    """Returns whether each node would be accepted, were its parent accepted and its earlier siblings refused: (n,).
    Arguments as in `reject_tree`."""
    n = draft.size
    order = siblings.with_most_children()
    nodes, exist = siblings.children(order)
    first = nodes[:, 0]
    q = logq[first, draft[first]]
    chances = [mx.where(q > -math.inf, mx.exp(logp[order, draft[first]] - q), 0.0)]
    rows = _Rows.of(logp, draft, logq, siblings, order[: max(1, n // 2)])
    for rank in range(1, min(siblings.most, n)):
        rows = rows.refused(rank - 1, n // (rank + 1))
        chances.append(rows.chance(rank))
    kept = mx.zeros(n, mx.bool_)
    for rank, chance in enumerate(chances):
        node, there = nodes[: chance.size, rank], exist[: chance.size, rank]
        accepted = there & (uniforms[node] < chance)
        kept = kept | mx.any((node[:, None] == mx.arange(n)[None]) & accepted[:, None], 0)
    return kept


def rest_after_refusals(logp: mx.array, draft: mx.array, logq: mx.array, siblings: Siblings, row: mx.array) -> mx.array:
    """Returns what is left of p in `row` (), once all its children are refused, as probabilities: (vocabulary,)."""
    rows = _Rows.of(logp, draft, logq, siblings, row[None])
    for rank in range(siblings.most):
        rows = rows.refused(rank, 1)
    return (_rest(rows.p, rows.q, rows.a[:, None]) / rows.mass[:, None]).squeeze(0)
