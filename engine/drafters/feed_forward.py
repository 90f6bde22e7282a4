"""The feed-forward part of a decoder layer: SwiGLU (Shazeer 2020, arXiv 2002.05202), by the names of Llama and Qwen."""

from __future__ import annotations

import mlx.core as mx
import mlx.nn as nn


class FeedForward(nn.Module):
    """down(silu(gate(x)) * up(x)), without biases: states (..., hidden) to the same shape."""

    def __init__(self, hidden_size: int, intermediate_size: int) -> None:
        super().__init__()
        self.gate_proj = nn.Linear(hidden_size, intermediate_size, bias=False)
        self.up_proj = nn.Linear(hidden_size, intermediate_size, bias=False)
        self.down_proj = nn.Linear(intermediate_size, hidden_size, bias=False)

    def __call__(self, x: mx.array) -> mx.array:
        out: mx.array = self.down_proj(nn.silu(self.gate_proj(x)) * self.up_proj(x))
        return out
