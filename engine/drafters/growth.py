"""A dynamic draft tree in the making (EAGLE-2, Li 2024, arXiv 2406.16858).

Level by level the nodes that the head is surest of are expanded, all of a level in one pass; then the best of all
children are kept. Nothing of this waits for the device: which nodes were kept, and who follows whom, stays lazy.

A child ranks by the score of its parent and the probability of its *place* among its siblings, not by that of the
token drawn there, and never before its parent. So whether a place is filled depends on nothing drawn in it or below
it, which rejection over children drawn without replacement needs in order to be exact. Where children are the
likeliest tokens the two are the same, and this is EAGLE-2's choice.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import mlx.core as mx

from engine.draft import Draft
from engine.drafters import Standing
from engine.heads.eagle3 import Eagle3Head
from engine.tree import Tree

BREADTH = 4  # children of a node, and nodes expanded a level
DEEPEST = 6
_LEAST = -30.0  # log of a probability below which all are alike: ranks stay finite, and differences of _STEP count
_STEP = 1e-4  # by how much a node ranks behind its parent and its elder siblings at least
_SALTS = 64  # a level

Steps = Callable[[mx.array, mx.array, int, mx.array], mx.array]


class _Children(NamedTuple):
    """The children of the nodes expanded in one level, row by row.

    tokens: (children,) int32. parents: places among all candidates, -1 for the root. chances: the head's probability
    of each. scores: log of the probability of the whole way to it. ranks: what it is expanded and kept by.
    """

    tokens: mx.array
    parents: mx.array
    chances: mx.array
    scores: mx.array
    ranks: mx.array


class _Frontier(NamedTuple):
    """The nodes whose children are wanted: (rows, ...) of each.

    hidden: the head's state behind it. places: among all candidates. lineage: which of the rows drafted so far are
    on its way, or None for the root. counts: (rows, vocabulary) for the penalties, or None.
    """

    hidden: mx.array
    places: mx.array
    scores: mx.array
    ranks: mx.array
    counts: mx.array | None


class Growth:
    """One tree of at most `length` nodes.

    steps(hidden, tokens, position, mask): a pass of the head over rows at one position, see `Eagle.steps`.
    known: pairs of the committed sequence in the head's cache.
    """

    def __init__(self, head: Eagle3Head, steps: Steps, standing: Standing, known: int, length: int) -> None:
        self.head, self.steps, self.standing = head, steps, standing
        self.known, self.length = known, length
        self.depth = min(length, DEEPEST)
        self.breadth = min(BREADTH, head.config.draft_vocab_size)
        self.levels: list[_Children] = []
        self.laws: list[mx.array] = []

    def draft(self, hidden: mx.array) -> Draft:
        """The tree that grows from the head's state at the last committed token, (1, hidden)."""
        zero = mx.zeros(1)
        counts = self.standing.context.rows(mx.zeros(0, mx.int32))
        frontier = _Frontier(hidden, mx.array([-1], mx.int32), zero, zero, counts)
        lineage = mx.zeros((1, 0), mx.bool_)
        children = self._children(frontier)
        while len(self.levels) < self.depth:
            frontier, lineage = self._expand(frontier, lineage, children)
            children = self._children(frontier)
        return self._best()

    def _children(self, frontier: _Frontier) -> _Children:
        """The best children of every node of the frontier."""
        chooser, position, level = self.standing.chooser, len(self.standing.tokens), len(self.levels)
        rows = frontier.hidden.shape[0]
        sampled = not chooser.matches
        found = chooser.children(
            self.head.logits(frontier.hidden),
            frontier.counts,
            mx.array([position if sampled else position + level], mx.int32),
            self.breadth,
            self.head.ids,
            # Noise of this round, this level and this row alone, or what was drawn would tell of what is drawn later.
            [1 + level * _SALTS + row for row in range(rows)] if sampled else None,
        )
        scores = frontier.scores[:, None] + mx.maximum(mx.log(found.chances), _LEAST)
        ranks = frontier.scores[:, None] + mx.maximum(found.ranked, _LEAST)
        ranks = mx.minimum(frontier.ranks[:, None] - _STEP, ranks)
        ranks = ranks - _STEP * mx.arange(self.breadth)
        parents = mx.broadcast_to(frontier.places[:, None], scores.shape)
        children = _Children(*(x.reshape(-1) for x in (found.tokens, parents, found.chances, scores, ranks)))
        mx.async_eval(children)
        self.levels.append(children)
        self.laws.append(found.logprobs)
        return children

    def _expand(self, frontier: _Frontier, lineage: mx.array, children: _Children) -> tuple[_Frontier, mx.array]:
        """Run the head over the best of the children; also returns which drafted rows each of them sees."""
        best = _greatest(children.ranks, self.breadth)
        row, tokens = best // self.breadth, children.tokens[best]
        lineage = mx.concatenate([lineage[row], mx.eye(best.size, dtype=mx.bool_)], 1)
        mask = mx.concatenate([mx.ones((best.size, self.known), mx.bool_), lineage], 1)
        hidden = self.steps(frontier.hidden[row], tokens, self.known + len(self.levels) - 1, mask)
        before = sum(level.tokens.size for level in self.levels[:-1])
        counts = frontier.counts
        if counts is not None:
            counts = counts[row] + (tokens[:, None] == mx.arange(counts.shape[-1])[None]).astype(counts.dtype)
        return _Frontier(hidden, best + before, children.scores[best], children.ranks[best], counts), lineage

    def _best(self) -> Draft:
        """The best of all candidates, parents before children and siblings in order, as candidates are."""
        tokens, parents, chances, _, ranks = (mx.concatenate(list(parts)) for parts in zip(*self.levels, strict=True))
        best = _greatest(ranks, min(self.length, ranks.size))
        place = mx.zeros(ranks.size, mx.int32).at[best].add(mx.arange(best.size, dtype=mx.int32))
        above = parents[best]
        shape = Tree(mx.where(above >= 0, place[mx.maximum(above, 0)], -1).astype(mx.int32), self.depth)
        chooser, logq = self.standing.chooser, None
        if not chooser.matches:
            logq = chooser.spread(mx.concatenate(self.laws)[best // self.breadth], self.head.ids)
        return Draft(tokens[best], logq, shape, chances[best])


def _greatest(ranks: mx.array, count: int) -> mx.array:
    """Places of the `count` greatest, the earlier of equals, in order of place: (count,) int32."""
    return mx.sort(mx.argsort(-ranks)[:count].astype(mx.int32))
