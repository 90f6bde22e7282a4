"""Where things are in an mlx-lm model: its layers, its embedding, its output matrix.

Found by what they are, not by which architecture they belong to, so that a new file in mlx-lm needs
nothing here. Where the search fails, ModelError says what was looked for.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import mlx.core as mx
import mlx.nn as nn

from engine.errors import ModelError

_EMBEDDINGS = ("embed_tokens", "wte", "embeddings", "tok_embeddings", "word_embeddings")
_OUTPUTS = ("lm_head", "output", "embed_out", "head")


def layers_of(model: Any) -> list[Any]:
    """The decoder layers, first to last."""
    layers = getattr(model, "layers", None)
    if not isinstance(layers, list) or not layers:
        raise ModelError("the model has no list of layers, so hidden states cannot be read: choose another drafter")
    return layers


def embedding_of(model: Any) -> Any:
    """The token embedding: ids (n,) to (n, hidden), as the first layer sees them before any scaling."""
    for name in _EMBEDDINGS:
        for key, module in _named(model):
            if key == name and hasattr(module, "as_linear"):
                return module
    raise ModelError("the model has no token embedding where one is expected: choose another drafter")


def output_of(model: Any) -> Any | None:
    """The output matrix as a module of its own, or None where the embedding serves (tied)."""
    tied = getattr(getattr(model, "args", None), "tie_word_embeddings", False)
    for name in _OUTPUTS:
        for key, module in _named(model):
            if key == name and "weight" in module and not tied:
                return module
    return None


def output_rows(model: Any, ids: mx.array) -> mx.array:
    """Rows `ids` (n,) of the output matrix, dequantized: (n, hidden)."""
    module = output_of(model) or embedding_of(model)
    weight = module.weight[ids]
    if "scales" not in module:
        return weight
    biases = module.biases[ids] if module.get("biases") is not None else None
    return mx.dequantize(weight, module.scales[ids], biases, module.group_size, module.bits)


def embed(model: Any) -> Callable[[mx.array], mx.array]:
    """The embedding as a function: ids (n,) to (n, hidden)."""
    module = embedding_of(model)
    return lambda ids: module(ids)


def _named(model: Any) -> Iterator[tuple[str, Any]]:
    """(last part of the name, module) of every module, outermost first."""
    found = [(name, module) for name, module in model.named_modules() if isinstance(module, nn.Module)]
    yield from sorted(((name.rpartition(".")[2], module) for name, module in found), key=lambda pair: 0)
