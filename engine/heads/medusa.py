"""Medusa heads (Cai 2024, arXiv 2401.10774): head i guesses the token 2 + i places behind what it reads.

Each head is a stack of residual blocks x + SiLU(linear(x)) over the target's last normed hidden state, then an
output matrix. Layout: FasterDecoding's (`{head}.{layer}.linear.{weight,bias}`, `{head}.{L}.weight`), where
`{head}.{L}.weight` may be missing: then the head shares the target's output matrix, or the rows of it that
`ids` names. Medusa's typical acceptance is lossy; Redline accepts exactly instead.
"""

from __future__ import annotations

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
        self._shared: mx.array | None = None

    @property
    def ids(self) -> mx.array:
        return self._ids

    def speak(self, ids: mx.array) -> None:
        """Let the columns of the logits stand for the target's tokens `ids` (draft_vocab_size,), increasing."""
        self._ids = ids.astype(mx.int32)

    def share(self, output: mx.array) -> None:
        """Read the target's output matrix, rows `ids` of it: (draft_vocab_size, hidden)."""
        self._shared = output

    def states(self, hidden: mx.array) -> mx.array:
        """(..., hidden) to what each head's output matrix reads: (num_heads, ..., hidden)."""
        states = []
        for head in self.heads:
            x = hidden
            for block in head[: self.config.num_layers]:
                x = block(x)
            states.append(x)
        return mx.stack(states)

    def __call__(self, hidden: mx.array) -> mx.array:
        """(..., hidden) to logits (num_heads, ..., draft_vocab_size)."""
        states = self.states(hidden)
        if self._shared is None:
            return mx.stack([head[-1](state) for head, state in zip(self.heads, states, strict=True)])
        return states @ self._shared.T
