"""Medusa heads as a drafter (Cai 2024, arXiv 2401.10774): all guesses at once, and a static tree over them.

The row that they read is the target's state at the last token that it has seen, whose logits gave the last committed
token; so head d - 1 guesses the token at depth d. Each head guesses for itself: what stands at depth 2 does not know
which of its siblings' parents it follows. There is no law that such a tree is drawn from, so its children are fixed,
the likeliest of each head (under the target's own noise where choices are coupled), and each is a point mass.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import mlx.core as mx

from engine.drafters import Draft, Standing, nothing
from engine.features import NORMED, Features
from engine.heads.medusa import MedusaHeads, parents_of
from engine.target import CachedModel
from engine.tree import Tree


class Medusa:
    """Drafts with `heads` for `target`.

    tree: a nested list of paths of ranks (see `engine.heads.medusa`); a draft of n nodes is its first n. trees: whether
    to branch; else a draft is the chain of every head's first guess. Raises ValueError for a tree that is none.
    """

    name = "medusa"

    def __init__(
        self, heads: MedusaHeads, tree: Sequence[Sequence[int]], target: CachedModel, trees: bool = False
    ) -> None:
        self.heads = heads
        self.trees = trees
        self.features = Features(target.model, (NORMED,), last_only=True)
        depth, width = heads.config.num_heads, heads.ids.size
        chain = [(0,) * (i + 1) for i in range(depth)]
        self._paths = [tuple(path) for path in tree if max(path, default=0) < width] if trees else chain
        self._parents = parents_of(self._paths, depth)
        self._known = 0

    def prefill(self, tokens: Sequence[int], cancelled: Callable[[], bool] = lambda: False) -> None:
        pass

    def propose(self, standing: Standing, length: int) -> Draft:
        """Before a second token there is no state to read, and nothing to propose."""
        paths, place = self._paths[:length], len(standing.tokens) - 2
        if not paths or place < 0:
            return nothing()
        depth, breadth = max(map(len, paths)), 1 + max(path[-1] for path in paths)
        found = standing.chooser.children(
            self._logits(place, depth),
            standing.context.rows(mx.zeros(0, mx.int32)),
            len(standing.tokens) + mx.arange(depth),
            breadth,
            self.heads.ids,
        )
        places = mx.array([(len(path) - 1) * breadth + path[-1] for path in paths], mx.int32)
        parents = self._parents[: len(paths)]
        shape = Tree.of(parents) if parents != list(range(-1, len(paths) - 1)) else None
        return Draft(found.tokens.reshape(-1)[places], shape=shape, q=found.chances.reshape(-1)[places])

    def hints(self, standing: Standing) -> Sequence[float | None]:
        return (None,)

    def quiet(self, standing: Standing) -> bool:
        return False

    def rewind(self, length: int) -> None:
        self._known = length

    def reach(self) -> int:
        """All that is known, if the last state of it is there to be read; else the target must see one token again."""
        held = self.features.start < self._known <= self.features.end
        return self._known if held else max(self._known - 1, 0)

    def _logits(self, place: int, depth: int) -> mx.array:
        """Of the first `depth` heads, from the state at token `place`: (depth, width)."""
        hidden = self.features.take(place, place + 1)
        return self.heads(hidden, depth)[:, 0]
