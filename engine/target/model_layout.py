"""Where things are in an mlx-lm model: its layers, its embedding, its output matrix.

Found by what they are, not by which architecture they belong to, so that a new file in mlx-lm needs
nothing here. Where the search fails, ModelError says what was looked for.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import mlx.core as mx
import mlx.nn as nn

from engine.errors import ModelError
from engine.target.hooks import HookKind, hook, is_hooked, trial_pass, unhook

_EMBEDDINGS = (
    *("embed_tokens", "wte", "embeddings", "tok_embeddings", "word_embeddings", "token_embeddings"),
    *("embed_in", "embedding", "embed"),
)
_OUTPUTS = ("lm_head", "output", "embed_out", "head", "lm_head.linear")


_POSITIONS = ("wpe", "embed_positions", "position_embeddings")  # tables of positions, by their names


class Output(NamedTuple):
    """The module whose weight turns hidden states into logits, and which call of it that is."""

    module: Any
    kind: HookKind


def layers_of(model: Any) -> list[Any]:
    """Returns the decoder layers, first to last. Raises ModelError unless they are a list of different modules."""
    layers = getattr(model, "layers", None)
    if not isinstance(layers, list) or not layers or not all(isinstance(layer, nn.Module) for layer in layers):
        raise ModelError("the model has no list of layers, so hidden states cannot be read: choose another drafter")
    if len({id(layer) for layer in layers}) < len(layers):
        raise ModelError("the model uses a layer twice, so its states cannot be told apart: choose another drafter")
    return layers


def pipeline_of(model: Any) -> Any:
    """Returns the module of a model that mlx-lm can divide by layers over several machines, None without one."""
    found = [m for m in model.modules() if hasattr(m, "pipeline") and hasattr(m, "pipeline_size")]
    return found[0] if found else None


def is_pipelined(model: Any) -> bool:
    """Returns whether a model has only some of its layers here."""
    return getattr(pipeline_of(model), "pipeline_size", 1) > 1


def check_states(model: Any) -> None:
    """Raises ModelError unless the states of all layers can be read here."""
    if is_pipelined(model):
        raise ModelError(
            "this drafter reads hidden states, and the target's layers are on several machines: "
            "choose lookup or a draft model"
        )


def leading_layers_with_kv(model: Any) -> int | None:
    """Returns how many layers have keys and values of their own, in a model whose further layers read those of earlier
    ones (Gemma 4's attention says so in `has_kv`); None where layers do not say."""
    own = [getattr(getattr(layer, "self_attn", None), "has_kv", None) for layer in layers_of(model)]
    if None in own:
        return None
    return own.index(False) if False in own and True not in own[own.index(False) :] else None


def embedding_of(model: Any) -> Any:
    """Returns the token embedding: ids (n,) to (n, hidden), as the first layer sees them before any scaling."""
    for module in _named(model, _EMBEDDINGS):
        if hasattr(module, "as_linear"):
            return module
    raise ModelError("the model has no token embedding where one is expected: choose another drafter")


def output_of(model: Any) -> Output:
    """Returns the output matrix: a module of its own, or the embedding where that serves (tied).

    A config may be wrong about what is tied, so a pass that is never evaluated shows what is called. Raises ModelError
    where nothing is, or more than one thing.
    """
    found = [Output(module, "input") for module in _named(model, _OUTPUTS) if "weight" in module]
    found += [Output(module, "as_linear") for module in _named(model, _EMBEDDINGS) if hasattr(module, "as_linear")]
    read_already = [is_hooked(*output) for output in found]
    hooks = [hook(*output) for output in found]
    for one in hooks:
        one.clear()
    trial_pass(model)
    called = []
    for output, one, is_read in zip(found, hooks, read_already, strict=True):
        if one.calls:
            called.append(output)
        if not is_read:
            unhook(*output)
    if len(called) != 1:
        raise ModelError("the model has no single output matrix where one is expected: choose another drafter")
    return called[0]


def output_rows(model: Any, ids: mx.array) -> mx.array:
    """Returns rows `ids` (n,) of the output matrix, dequantized: (n, hidden)."""
    return matrix_rows(output_of(model).module, ids)


def matrix_rows(module: Any, ids: mx.array) -> mx.array:
    """Returns rows `ids` (n,) of a linear map or an embedding, dequantized: (n, inputs)."""
    weight: mx.array = module.weight[ids]
    if "scales" not in module:
        return weight
    biases = module.biases[ids] if module.get("biases") is not None else None
    return mx.dequantize(weight, module.scales[ids], biases, module.group_size, module.bits, module.mode)


def embed(model: Any) -> Callable[[mx.array], mx.array]:
    """Returns the embedding as a function: ids (n,) to (n, hidden)."""
    module = embedding_of(model)
    return lambda ids: module(ids)


def unembed(model: Any) -> Callable[[mx.array], mx.array]:
    """Returns the output matrix as a function: hidden states (..., hidden) to logits (..., vocabulary)."""
    module, kind = output_of(model)
    return lambda hidden: module.as_linear(hidden) if kind == "as_linear" else module(hidden)


def position_limit(model: Any) -> int | None:
    """Returns how many positions there are where they are rows of a learnt table; None where they are computed, so that
    there is no end."""
    tables = [module for name, module in model.named_modules() if name.rpartition(".")[2] in _POSITIONS]
    return int(tables[0].weight.shape[0]) if tables else None


def _named(model: Any, ends: tuple[str, ...]) -> list[Any]:
    """Returns the modules outside the layers whose name ends in one of `ends`, outermost first."""
    inside = {id(part) for layer in layers_of(model) for part in layer.modules()}
    found = [(name, module) for name, module in model.named_modules() if id(module) not in inside]
    named = [(name, module) for name, module in found if any(f".{name}".endswith(f".{end}") for end in ends)]
    return [module for _, module in sorted(named, key=lambda pair: pair[0].count("."))]
