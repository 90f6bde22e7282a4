"""Trees for tests: random shapes, the ways through them, and a drafter that hides the truth in one."""

from collections.abc import Sequence
from typing import Any

import mlx.core as mx
import numpy as np
from hypothesis import strategies as st

from engine.drafters import Draft, Drafter, Traits, empty_draft
from engine.tree.draft_tree import DraftTree


def forests(least: int = 0, most: int = 9) -> st.SearchStrategy[list[int]]:
    """Parents of a random tree: in any order that has parents before their children."""
    return st.lists(st.integers(0, 10_000), min_size=least, max_size=most).map(
        lambda numbers: [number % (node + 1) - 1 for node, number in enumerate(numbers)]
    )


def random_parents(rng: np.random.Generator, nodes: int) -> list[int]:
    """The same from a generator."""
    return [int(rng.integers(-1, node)) for node in range(nodes)]


def way(parents: Sequence[int], node: int) -> list[int]:
    """The nodes from the root, which is none of them, down to `node`."""
    nodes = []
    while node >= 0:
        nodes.insert(0, node)
        node = parents[node]
    return nodes


class Hidden(Drafter):
    """A drafter that proposes trees in which the reply `truth` goes down one way, hidden among wrong siblings.

    At the places `wrong` of the reply even the way itself is wrong. Shapes and the order of siblings differ from
    round to round. `vocabulary`: wrong tokens are other ids below it.
    """

    name = "hidden"
    traits = Traits(branches=True)

    def __init__(
        self,
        prompt: int,
        truth: Sequence[int],
        wrong: frozenset[int] = frozenset(),
        vocabulary: int = 64,
        seed: int = 0,
    ) -> None:
        self._prompt, self._truth, self._wrong, self._vocabulary = prompt, truth, wrong, vocabulary
        self._random = np.random.default_rng(seed)

    def propose(self, context: Any, length: int) -> Draft:
        at = len(context.tokens) - self._prompt
        if length == 0 or at >= len(self._truth):
            return empty_draft()
        parents = random_parents(self._random, length)
        told = self._labelled(parents, at)
        return Draft(mx.array(told, mx.int32), tree=DraftTree.of(parents))

    def _labelled(self, parents: Sequence[int], at: int) -> list[int]:
        """A token for each node, siblings being different, the truth on the way to one of the deepest nodes."""
        depths = [len(way(parents, node)) for node in range(len(parents))]
        true = set(way(parents, int(np.argmax(depths))))
        used: dict[int, set[int]] = {}
        tokens = []
        for node, parent in enumerate(parents):
            place = at + depths[node] - 1
            right = self._truth[place] if place < len(self._truth) else 0
            taken = used.setdefault(parent, {right})
            token = right
            if node not in true or place in self._wrong:
                token = next(t for t in range(right + 1, right + 200) if t % self._vocabulary not in taken)
                token %= self._vocabulary
            taken.add(token)
            tokens.append(token)
        return tokens
