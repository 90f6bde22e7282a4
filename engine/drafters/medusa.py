"""Medusa (Cai 2024, arXiv 2401.10774): the heads, and the drafter that proposes all their guesses at once as a static
tree.

Head i guesses the token 2 + i places after what it reads. Each head is a stack of residual blocks x + SiLU(linear(x))
over the target's last normed hidden state, then an output matrix (FasterDecoding/Medusa,
`medusa/model/medusa_model.py`). Without one of its own the head shares the target's output matrix, or the rows of it
that `ids` names. Medusa's typical acceptance is lossy; Redline accepts exactly instead.

A tree of guesses is a list of paths of ranks: (0, 2) is what head 1 holds third likeliest, after what head 0 holds
likeliest. It is nested: its first n paths are the tree of n nodes.

The heads read the state that gave the last committed token (`engine.drafters.head_drafter`), so head d - 1 guesses the
token at depth d. Each head guesses for itself: it does not know which of its
parents a guess follows. There is no distribution that such a tree is drawn from, so its children are fixed, the
likeliest of each head (under the target's own noise where choices are coupled), and each is a point mass.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import mlx.core as mx
import mlx.nn as nn

from engine.backend.small_products import times_transposed
from engine.drafters import Draft, DraftContext, Traits, empty_draft
from engine.drafters.head_drafter import LatestStateDrafter
from engine.drafters.head_layers import DraftVocabularyHead
from engine.target.cached_model import CachedModel
from engine.target.joint_pass import RowsPass
from engine.together import run
from engine.tree.draft_tree import DraftTree


@dataclass(frozen=True)
class MedusaConfig:
    """num_layers: residual blocks a head. own_output: each head has an output matrix of its own."""

    hidden_size: int
    vocab_size: int
    draft_vocab_size: int
    num_heads: int
    num_layers: int = 1
    own_output: bool = False


class _Block(nn.Module):
    def __init__(self, size: int) -> None:
        super().__init__()
        self.linear = nn.Linear(size, size)
        self.linear.weight = mx.zeros_like(self.linear.weight)  # an untrained head repeats the target's own guess
        self.linear.bias = mx.zeros_like(self.linear.bias)

    def __call__(self, x: mx.array) -> mx.array:
        out: mx.array = x + nn.silu(self.linear(x))
        return out


class MedusaHeads(DraftVocabularyHead):
    """All heads of a target."""

    def __init__(self, config: MedusaConfig) -> None:
        super().__init__(config.draft_vocab_size, config.vocab_size)
        self.config = config
        self.heads = [
            [
                *(_Block(config.hidden_size) for _ in range(config.num_layers)),
                *([nn.Linear(config.hidden_size, config.draft_vocab_size, bias=False)] if config.own_output else []),
            ]
            for _ in range(config.num_heads)
        ]
        self._project: Callable[[mx.array], mx.array] | None = None

    def tie_lm_head(self, output: mx.array | Callable[[mx.array], mx.array]) -> None:
        """Uses the target's output matrix: rows `ids` of it, (draft_vocab_size, hidden), or, where the heads know the
        whole vocabulary, the function from states to logits."""
        self._project = (lambda states: times_transposed(states, output)) if isinstance(output, mx.array) else output

    def states(self, hidden: mx.array, depth: int | None = None) -> mx.array:
        """Returns what each head's output matrix reads of states (..., hidden): (num_heads, ..., hidden), or the first
        `depth`."""
        states = []
        for head in self.heads[:depth]:
            x = hidden
            for block in head[: self.config.num_layers]:
                x = block(x)
            states.append(x)
        return mx.stack(states)

    def __call__(self, hidden: mx.array, depth: int | None = None) -> mx.array:
        """Returns logits of states (..., hidden): (num_heads, ..., draft_vocab_size), or of the first `depth` heads."""
        states = self.states(hidden, depth)
        if self._project is None:
            return mx.stack([head[-1](state) for head, state in zip(self.heads[:depth], states, strict=True)])
        return self._project(states)


def parents_of(paths: Sequence[Sequence[int]], depth: int) -> list[int]:
    """Returns for each path of a nested tree its parent's place in the list, -1 for children of the root.

    Raises ValueError for a path that is deeper than `depth`, occurs twice, or precedes its parent or a likelier
    sibling.
    """
    places: dict[tuple[int, ...], int] = {(): -1}
    parents = []
    for place, path in enumerate(map(tuple, paths)):
        above, likelier = path[:-1], (*path[:-1], path[-1] - 1) if path else ()
        if not 1 <= len(path) <= depth or path in places:
            raise ValueError(f"the path {list(path)} of a tree occurs twice or is not 1 to {depth} long")
        if above not in places or (path[-1] != 0 and likelier not in places):
            raise ValueError(f"the path {list(path)} of a tree precedes its parent or a likelier sibling")
        parents.append(places[above])
        places[path] = place
    return parents


def default_tree(depth: int, size: int) -> list[tuple[int, ...]]:
    """Returns a nested tree for heads that bring none: the `size` likeliest paths if a guess of rank r is right with
    probability 0.5 / (r + 1)^2, whatever came before."""
    probs: dict[tuple[int, ...], float] = {}
    level: dict[tuple[int, ...], float] = {(): 1.0}
    for _ in range(depth):
        level = {(*path, rank): prob * 0.5 / (rank + 1) ** 2 for path, prob in level.items() for rank in range(10)}
        level = dict(sorted(level.items(), key=lambda item: -item[1])[:size])
        probs |= level
    return sorted(probs, key=lambda path: (-probs[path], len(path), path))[:size]


class Medusa(LatestStateDrafter):
    """Drafts with `heads` for `target`.

    tree: a nested list of paths of ranks; a draft of n nodes is its first n. trees: whether to branch; else a draft is
    the chain of every head's first guess. Raises ValueError for a list that is no nested tree.
    """

    name = "medusa"

    def __init__(
        self, heads: MedusaHeads, tree: Sequence[Sequence[int]], target: CachedModel, trees: bool = False
    ) -> None:
        self.heads = heads
        depth, width = heads.config.num_heads, heads.ids.size
        super().__init__(target, heads.token_map)
        self.traits = Traits(trees, one_pass=True, longest=depth)
        chain = [(0,) * (i + 1) for i in range(depth)]
        self._paths = [tuple(path) for path in tree if max(path, default=0) < width] if trees else chain
        self._parents = parents_of(self._paths, depth)

    def draft(self, context: DraftContext, state: mx.array, length: int) -> Draft:
        paths = self._paths[:length]
        if not paths:
            return empty_draft()
        depth, breadth = max(map(len, paths)), 1 + max(path[-1] for path in paths)
        found = context.sampler.children(
            self._logits(state, depth),
            context.counts.rows(),
            len(context.tokens) + mx.arange(depth),
            breadth,
            self.needs.token_map,
        )
        places = mx.array([(len(path) - 1) * breadth + path[-1] for path in paths], mx.int32)
        parents = self._parents[: len(paths)]
        tree = DraftTree.of(parents) if parents != list(range(-1, len(paths) - 1)) else None
        return Draft(found.tokens.reshape(-1)[places], tree=tree, q=found.q.reshape(-1)[places])

    def _logits(self, state: mx.array, depth: int) -> mx.array:
        """Returns the logits (depth, width) of the first heads, of a state (1, hidden)."""

        def by_row(states: mx.array) -> mx.array:
            return mx.moveaxis(self.heads(states, depth), 0, 2)

        return run(RowsPass(by_row, [state], weights=(id(self.heads), depth))).squeeze(0)
