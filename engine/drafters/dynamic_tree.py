"""A dynamic draft tree (EAGLE-2, Li 2024, arXiv 2406.16858; of a block's marginals, DDTree, arXiv 2604.12989).

Level by level the nodes that the head is surest of are expanded, all of a level in one pass; then the best of all
children are kept. Nothing of this waits for the device: which nodes were kept, and which follows which, stays lazy.

A child ranks by the score of its parent and the probability of its *place* among its siblings, not by that of the
token drawn there, and never before its parent. So whether a place is filled depends on nothing drawn in it or below
it, which rejection over children drawn without replacement needs in order to be exact. Where children are the
likeliest tokens the two are the same, and this is EAGLE-2's choice.
"""

from collections.abc import Callable
from typing import NamedTuple

import mlx.core as mx

from engine.drafters import Draft, DraftContext
from engine.tree.draft_tree import DraftTree

BREADTH = 4  # children of a node, and nodes expanded a level
DEEPEST = 6
_MIN_LOGPROB = -30.0  # of a probability below which all are alike: ranks stay finite, and differences of _STEP count
_STEP = 1e-4  # by how much a node ranks after its parent and its elder siblings at least
_SALTS = 64  # a level

Steps = Callable[[mx.array, mx.array, int, mx.array], mx.array]


class _Children(NamedTuple):
    """The children of the nodes expanded in one level, row by row.

    tokens: (children,) int32. parents: places among all candidates, -1 for the root. q: the head's probability of each.
    scores: log of the probability of the whole path to it. ranks: what it is expanded and kept by.
    """

    tokens: mx.array
    parents: mx.array
    q: mx.array
    scores: mx.array
    ranks: mx.array


class _Frontier(NamedTuple):
    """The nodes that are expanded next: (rows, ...) of each.

    hidden: the head's state after it. places: among all candidates. lineage: which of the drafted rows it sees. counts:
    (rows, vocabulary) for the penalties, or None.
    """

    hidden: mx.array
    places: mx.array
    scores: mx.array
    ranks: mx.array
    lineage: mx.array
    counts: mx.array | None


class TreeHead(NamedTuple):
    """What a tree asks of a head.

    steps(hidden, tokens, position, mask): a pass over rows at one position, see `Eagle3.steps`. logits: from states
    (rows, hidden) to (rows, width). ids (width,): the tokens that their columns stand for, None for all. entries:
    how many pairs of the committed sequence its cache holds. deepest: levels at most.
    """

    steps: Steps
    logits: Callable[[mx.array], mx.array]
    ids: mx.array | None
    entries: int = 0
    deepest: int = DEEPEST


class DynamicTree:
    """One tree of at most `length` nodes, drafted by a head."""

    def __init__(self, head: TreeHead, context: DraftContext, length: int) -> None:
        self.head, self.context, self.length = head, context, length
        self.depth = min(length, head.deepest)
        self.breadth = min(BREADTH, context.sampler.vocabulary if head.ids is None else head.ids.size)
        self.levels: list[_Children] = []
        self.logprobs: list[mx.array] = []

    def draft(self, hidden: mx.array) -> Draft:
        """Returns the tree that grows from the head's state at the last committed token, (1, hidden)."""
        zero, above = mx.zeros(1), mx.zeros((1, 0), mx.bool_)
        frontier = _Frontier(hidden, mx.array([-1], mx.int32), zero, zero, above, self.context.counts.rows())
        children = self._children(frontier)
        while len(self.levels) < self.depth:
            frontier = self._expand(frontier, children)
            children = self._children(frontier)
        return self._best()

    def _children(self, frontier: _Frontier) -> _Children:
        """Returns the best children of every node of the frontier."""
        sampler, position, level = self.context.sampler, len(self.context.tokens), len(self.levels)
        rows = frontier.hidden.shape[0]
        sampled = not sampler.accepts_by_match
        found = sampler.children(
            self.head.logits(frontier.hidden),
            frontier.counts,
            mx.array([position if sampled else position + level], mx.int32),
            self.breadth,
            self.head.ids,
            # Noise of this round, this level and this row alone, or what was drawn would depend on what is drawn later.
            [1 + level * _SALTS + row for row in range(rows)] if sampled else None,
        )
        scores = frontier.scores[:, None] + mx.maximum(mx.log(found.q), _MIN_LOGPROB)
        ranks = frontier.scores[:, None] + mx.maximum(found.ranked, _MIN_LOGPROB)
        ranks = mx.minimum(frontier.ranks[:, None] - _STEP, ranks)
        ranks = ranks - _STEP * mx.arange(self.breadth)
        parents = mx.broadcast_to(frontier.places[:, None], scores.shape)
        children = _Children(*(x.reshape(-1) for x in (found.tokens, parents, found.q, scores, ranks)))
        mx.async_eval(children)
        self.levels.append(children)
        self.logprobs.append(found.logprobs)
        return children

    def _expand(self, frontier: _Frontier, children: _Children) -> _Frontier:
        """Runs the head over the best of the children."""
        best = _greatest(children.ranks, self.breadth)
        row, tokens = best // self.breadth, children.tokens[best]
        lineage = mx.concatenate([frontier.lineage[row], mx.eye(best.size, dtype=mx.bool_)], 1)
        mask = mx.concatenate([mx.ones((best.size, self.head.entries), mx.bool_), lineage], 1)
        hidden = self.head.steps(frontier.hidden[row], tokens, self.head.entries + len(self.levels) - 1, mask)
        before = sum(level.tokens.size for level in self.levels[:-1])
        counts = frontier.counts
        if counts is not None:
            counts = counts[row] + (tokens[:, None] == mx.arange(counts.shape[-1])[None]).astype(counts.dtype)
        return _Frontier(hidden, best + before, children.scores[best], children.ranks[best], lineage, counts)

    def _best(self) -> Draft:
        """Returns the best of all candidates, parents before children and siblings in order, as candidates are."""
        tokens, parents, q, _, ranks = (mx.concatenate(list(parts)) for parts in zip(*self.levels, strict=True))
        best = _greatest(ranks, min(self.length, ranks.size))
        place = mx.zeros(ranks.size, mx.int32).at[best].add(mx.arange(best.size, dtype=mx.int32))
        above = parents[best]
        above = mx.where(above >= 0, place[mx.maximum(above, 0)], -1).astype(mx.int32)
        tree = DraftTree(above, self.depth, self.breadth)
        sampler, logq = self.context.sampler, None
        if not sampler.accepts_by_match:
            logq = sampler.widen(mx.concatenate(self.logprobs)[best // self.breadth], self.head.ids)
        return Draft(tokens[best], logq, tree, q[best])


def _greatest(ranks: mx.array, count: int) -> mx.array:
    """Returns the places of the `count` greatest, the earlier of equals, in order of place: (count,) int32."""
    return mx.sort(mx.argsort(-ranks)[:count].astype(mx.int32))
