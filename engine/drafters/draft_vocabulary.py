"""A draft vocabulary: lets a model compute the logits of some tokens only.

The output matrix is the largest part of a small draft model, and most of its rows stand for tokens that hardly ever
occur. Drafts from the frequent ones alone are nearly as good and cost a fraction (FR-Spec; Zhao 2025, arXiv
2502.14856). The target chooses from all tokens either way.
"""

from collections.abc import Callable
from typing import Any

import mlx.core as mx
import mlx.nn as nn

from engine.backend.small_products import times_transposed
from engine.target.hooks import unhook
from engine.target.model_layout import output_of


class _Rows(nn.Module):
    """Some rows of an output matrix, stored as that is: hidden states (..., hidden) to logits (..., rows)."""

    def __init__(self, matrix: Any, ids: mx.array) -> None:
        super().__init__()
        for name in ("weight", "scales", "biases", "bias"):
            if matrix.get(name) is not None:
                self[name] = matrix[name][ids]
        if "scales" in self:
            self.group_size, self.bits, self.mode = matrix.group_size, matrix.bits, matrix.mode
        self.freeze()

    def __call__(self, x: mx.array) -> mx.array:
        if "scales" in self:
            stored = (self["weight"], self["scales"], self.get("biases"))
            out = mx.quantized_matmul(x, *stored, True, self.group_size, self.bits, self.mode)
        else:
            out = times_transposed(x, self["weight"])
        return out + self["bias"] if "bias" in self else out


class _Tied(nn.Module):
    """An embedding that reads every token, and serves as the output matrix for some."""

    def __init__(self, embedding: Any, ids: mx.array) -> None:
        super().__init__()
        self.embedding, self.rows = embedding, _Rows(embedding, ids)

    def __call__(self, tokens: mx.array) -> mx.array:
        out: mx.array = self.embedding(tokens)
        return out

    def as_linear(self, x: mx.array) -> mx.array:
        return self.rows(x)


def output_of_some(model: Any, ids: mx.array) -> Callable[[mx.array], mx.array]:
    """Returns the map from states (..., hidden) of `model` to the logits (..., n) of the tokens `ids` (n,) alone, from
    copies of their rows. Raises ModelError for a model without a single output matrix."""
    rows = _Rows(output_of(model).module, ids)
    mx.eval(rows.parameters())
    return rows


def shorten_output(model: Any, ids: mx.array) -> None:
    """Makes `model` return the logits of the tokens `ids` (n,) alone, in their order: (..., n). What it reads stays as
    it was. Raises ModelError for a model without a single output matrix."""
    module, kind = output_of(model)
    unhook(module, kind)
    short = _Tied(module, ids) if kind == "as_linear" else _Rows(module, ids)
    owners = [(owner, name) for owner in model.modules() for name, value in owner.items() if value is module]
    for owner, name in owners:
        owner[name] = short
