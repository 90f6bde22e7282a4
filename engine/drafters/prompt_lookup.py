"""Prompt lookup: what followed when these words occurred before (Saxena 2023), in this text or in earlier replies.

The places where the longest suffix of the committed tokens occurred are continued as they were; each counts by the
length of its match, the latest first among equals. What follows most of them is drafted, the longer the match the
longer the draft, as in SuffixDecoding (arXiv 2411.04975): as a chain, or as a tree of what followed at different
places. A point mass: there is no q. No model and no device work.

Earlier replies (`history`) belong to the caller. Those that were drawn with the noise of the reply to come must not be
in it under rejection sampling: a draft may not depend on noise that decides whether it is kept."""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice

import mlx.core as mx

from engine.drafters import Draft, DraftContext, Drafter, Traits
from engine.drafters.suffix_index import END, LONGEST_MATCH, Matches, SuffixIndex
from engine.target.cached_model import CachedModel
from engine.tree.draft_tree import DraftTree

SHORTEST = 2  # tokens of the text itself that must match
HISTORY_SHORTEST = 3  # of earlier replies, where two words occur everywhere
DRAFT_FACTOR = 2  # drafted tokens for each token that matches, at most
MIN_SHARE = 0.1  # of the weight at a place, for a draft to go on
_CLASSES = (32, 9, 6, 4, 3, 2, 1)  # shortest matches of each class of drafts
INDEXED_AT_ONCE = 4096  # tokens between two looks at whether the reply is cancelled
_LONGER = 2.0  # how much more a match counts that is a token longer


@dataclass(frozen=True)
class _Node:
    """A drafted token. share: how much of the weight of all places goes on along its path. places: their rows."""

    share: float
    token: int
    places: list[int]


class PromptLookup(Drafter):
    """Drafts by copying. shortest: the fewest tokens that must match. history: earlier replies, made with
    `HISTORY_SHORTEST`; it may be replaced between replies. trees: whether drafts branch."""

    name = "lookup"

    def __init__(self, shortest: int = SHORTEST, history: SuffixIndex | None = None, trees: bool = False) -> None:
        self._history = history
        self.traits = Traits(trees, one_pass=True)
        self._shortest = shortest
        self._text = SuffixIndex(shortest)
        self._found: list[tuple[SuffixIndex, Matches]] | None = None  # for the text as it is; None where not known
        self._class: float | None = None  # likewise

    def for_another_reply(self, target: CachedModel) -> PromptLookup:
        other = self._with_same_weights()
        other._text = SuffixIndex(self._shortest)
        other._found = other._class = None
        return other

    @property
    def history(self) -> SuffixIndex | None:
        """The earlier replies that it drafts from."""
        return self._history

    @history.setter
    def history(self, history: SuffixIndex | None) -> None:
        self._history = history
        self._found = self._class = None

    def sync(self, tokens: Sequence[int], cancelled: Callable[[], bool] = lambda: False, following: int = 0) -> None:
        while len(tokens) > self._text.length:
            self._text.extend(tokens[self._text.length :][:INDEXED_AT_ONCE])
            self._found = self._class = None
            if len(tokens) > self._text.length and cancelled():
                return

    def propose(self, context: DraftContext, length: int) -> Draft:
        self.sync(context.tokens, context.cancelled)
        tokens, parents = self.grow(length)
        tree = DraftTree.of(parents) if self.traits.branches and tokens else None
        return Draft(mx.array(tokens, mx.int32), tree=tree)

    def draft_class(self, context: DraftContext) -> float:
        """Returns the class of the longest match, as a share of the longest that there can be; 0 without a match that
        anything follows. Then plain steps are submitted ahead, so a copy that begins right after is taken up one step
        late; to wait for one costs more (`engine/NOTES.md`)."""
        self.sync(context.tokens, context.cancelled)
        if self._class is None:
            tokens, _ = self.grow(1)
            self._class = next(one for one in _CLASSES if self._longest() >= one) / LONGEST_MATCH if tokens else 0.0
        return self._class

    def grow(self, length: int) -> tuple[list[int], list[int]]:
        """Returns the `length` likeliest tokens of all continuations, and the parent of each; as deep as matches are
        long. Likeliest first, which puts parents before their children. Without branches each token is the one that
        followed most of the places of the token before it."""
        depth = min(length, DRAFT_FACTOR * self._longest())
        children = self._children(depth)
        tokens: list[int] = []
        parents: list[int] = []
        waiting: list[tuple[float, int, int, int, _Node]] = []
        entered = 0

        def enter(parent: int, node: _Node | None, level: int) -> None:
            nonlocal entered
            for child in islice(children(node, level), None if self.traits.branches else 1):
                heapq.heappush(waiting, (-child.share, entered, parent, level, child))
                entered += 1

        enter(-1, None, 0)
        while waiting and len(tokens) < length:
            _, _, parent, level, node = heapq.heappop(waiting)
            tokens.append(node.token)
            parents.append(parent)
            enter(len(tokens) - 1, node, level + 1)
        return tokens, parents

    def rewind(self, length: int, repeats: bool = False) -> None:
        if length < self._text.length:
            self._text.truncate(length)
            self._found = self._class = None

    def reusable(self, length: int) -> int:
        return min(length, self._text.length)

    # A snapshot has nothing: the next `sync` indexes the tokens again, in less time than a pass takes.

    def _matches(self) -> list[tuple[SuffixIndex, Matches]]:
        """Returns what the end of the text matches, in the text and in earlier replies."""
        if self._found is None:
            tail = self._text.tokens[-LONGEST_MATCH:]
            indexes = [self._text] if self._history is None else [self._text, self._history]
            self._found = [(index, index.matches(tail)) for index in indexes]
        return self._found

    def _longest(self) -> int:
        """Returns the length of the longest match, 0 if there is none."""
        return max((int(found.lengths[0]) for _, found in self._matches() if found.lengths.size), default=0)

    def _children(self, depth: int) -> Callable[[_Node | None, int], Iterator[_Node]]:
        """Returns a function that gives the children of a node at this depth (None: of the root), the likeliest first,
        down to `depth`."""
        rows: list[list[int]] = []
        weights: list[float] = []
        longest = self._longest()
        for index, found in self._matches() if depth else []:
            rows += index.continuations(found.ends, depth).tolist()
            weights += [_LONGER ** (int(length) - longest) for length in found.lengths]

        def children(node: _Node | None, level: int) -> Iterator[_Node]:
            if level >= depth:
                return
            share, places = (1.0, list(range(len(rows)))) if node is None else (node.share, node.places)
            followed: dict[int, list[int]] = {}
            for place in places:
                followed.setdefault(rows[place][level], []).append(place)
            sums = {token: sum(weights[place] for place in by) for token, by in followed.items()}
            total = sum(sums.values())
            for token in sorted(sums, key=lambda token: -sums[token]):
                below = share * sums[token] / total
                if token != END and below >= MIN_SHARE:
                    yield _Node(below, token, followed[token])

        return children
