"""Medusa heads (Cai 2024, arXiv 2401.10774): head i guesses the token 2 + i places behind what it reads.

Each head is a stack of residual blocks x + SiLU(linear(x)) over the target's last normed hidden state, then an
output matrix (FasterDecoding/Medusa, `medusa/model/medusa_model.py`). Without one of its own the head shares the
target's output matrix, or the rows of it that `ids` names. Medusa's typical acceptance is lossy; Redline accepts
exactly instead.

A tree of guesses is a list of paths of ranks: (0, 2) is what head 1 holds third likeliest, behind what head 0 holds
likeliest. It is nested: its first n paths are the tree of n nodes.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import mlx.core as mx
import mlx.nn as nn


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


class MedusaHeads(nn.Module):
    """All heads of a target. `ids` (draft_vocab_size,): the target's id of each column of the logits, increasing."""

    def __init__(self, config: MedusaConfig) -> None:
        super().__init__()
        self.config = config
        self.heads = [
            [
                *(_Block(config.hidden_size) for _ in range(config.num_layers)),
                *([nn.Linear(config.hidden_size, config.draft_vocab_size, bias=False)] if config.own_output else []),
            ]
            for _ in range(config.num_heads)
        ]
        self._ids = mx.arange(config.draft_vocab_size)
        self._project: Callable[[mx.array], mx.array] | None = None

    @property
    def ids(self) -> mx.array:
        return self._ids

    def speak(self, ids: mx.array) -> None:
        """Let the columns of the logits stand for the target's tokens `ids` (draft_vocab_size,), increasing."""
        self._ids = ids.astype(mx.int32)

    def share(self, output: mx.array | Callable[[mx.array], mx.array]) -> None:
        """Read the target's output matrix: rows `ids` of it, (draft_vocab_size, hidden), or what it makes of
        hidden states, where the heads know the whole vocabulary."""
        self._project = (lambda states: states @ output.T) if isinstance(output, mx.array) else output

    def states(self, hidden: mx.array, depth: int | None = None) -> mx.array:
        """(..., hidden) to what each head's output matrix reads: (num_heads, ..., hidden), or the first `depth`."""
        states = []
        for head in self.heads[:depth]:
            x = hidden
            for block in head[: self.config.num_layers]:
                x = block(x)
            states.append(x)
        return mx.stack(states)

    def __call__(self, hidden: mx.array, depth: int | None = None) -> mx.array:
        """(..., hidden) to logits (num_heads, ..., draft_vocab_size), or of the first `depth` heads."""
        states = self.states(hidden, depth)
        if self._project is None:
            return mx.stack([head[-1](state) for head, state in zip(self.heads[:depth], states, strict=True)])
        return self._project(states)


def parents_of(paths: Sequence[Sequence[int]], depth: int) -> list[int]:
    """Of each path in a nested tree its parent's place in the list, -1 for children of the root.

    Raises ValueError: a path is deeper than `depth`, stands twice, before its parent or before a likelier sibling.
    """
    places: dict[tuple[int, ...], int] = {(): -1}
    parents = []
    for place, path in enumerate(map(tuple, paths)):
        above, likelier = path[:-1], (*path[:-1], path[-1] - 1) if path else ()
        if not 1 <= len(path) <= depth or path in places:
            raise ValueError(f"the path {list(path)} of a tree stands twice or is not 1 to {depth} long")
        if above not in places or (path[-1] != 0 and likelier not in places):
            raise ValueError(f"the path {list(path)} of a tree stands before its parent or before a likelier sibling")
        parents.append(places[above])
        places[path] = place
    return parents


def plain_tree(depth: int, size: int) -> list[tuple[int, ...]]:
    """A nested tree for heads that bring none: the `size` likeliest paths if a guess of rank r is right with a chance
    of 0.5 / (r + 1)^2, whatever came before."""
    chances: dict[tuple[int, ...], float] = {}
    reached: dict[tuple[int, ...], float] = {(): 1.0}
    for _ in range(depth):
        reached = {
            (*path, rank): chance * 0.5 / (rank + 1) ** 2 for path, chance in reached.items() for rank in range(10)
        }
        reached = dict(sorted(reached.items(), key=lambda item: -item[1])[:size])
        chances |= reached
    return sorted(chances, key=lambda path: (-chances[path], len(path), path))[:size]
