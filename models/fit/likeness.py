"""An EAGLE-3 head begins as the target's end: its output rows, its last norm and its last layer."""

from __future__ import annotations

from typing import Any

import mlx.core as mx
import mlx.nn as nn

from engine.anatomy import layers_of, output_rows
from engine.heads.eagle3 import Eagle3Config, Eagle3Head
from models.load import Loaded

_SPREAD = 0.02


def begin_like(head: Eagle3Head, target: Loaded) -> None:
    """Begin where the target ends: its output rows, its last norm, and its last layer where the names and shapes are
    llama's. The layer then reads the highest of the features, as the target's own did."""
    network, hidden = target.network, head.config.hidden_size
    head.lm_head.weight = output_rows(network, head.ids).astype(mx.float32)
    norm = _final_norm(network, hidden)
    if norm is not None:
        head.norm.weight = norm.astype(mx.float32)
    fused = mx.random.normal(head.fc.weight.shape, scale=_SPREAD / hidden**0.5)
    if head.config.feature_size == hidden * len(head.config.points):
        fused[:, -hidden:] = fused[:, -hidden:] + mx.eye(hidden)
    head.fc.weight = fused
    last, layer = layers_of(network)[-1], head.layers[0]
    for name in ("mlp.gate_proj", "mlp.up_proj", "mlp.down_proj"):
        _copy(_at(layer, name), _dense(_at(last, name)))
    for name, own in (("input_layernorm", "hidden_norm"), ("post_attention_layernorm", "post_attention_layernorm")):
        _copy(_at(layer, own), _dense(_at(last, name)))
    _attend_like(layer.self_attn, _at(last, "self_attn"), head.config)


def _attend_like(own: Any, theirs: Any, config: Eagle3Config) -> None:
    """All key-value heads but the last, with their query heads, look at the hidden states as the first of the target's
    layer do, and at embeddings hardly; as far as names and shapes are llama's. The last ones say nothing yet."""
    hidden, size = config.hidden_size, config.head_dim
    group = config.num_attention_heads // config.num_key_value_heads
    for name, last in (("q_proj", group), ("k_proj", 1), ("v_proj", 1)):
        weight, found = own[name].weight, _dense(_at(theirs, name))
        rows = weight.shape[0] - last * size
        if found is not None and found.shape[0] in (rows, weight.shape[0]) and found.shape[1] == hidden:
            kept = mx.concatenate([weight[:rows, :hidden] * _SPREAD, found[:rows].astype(mx.float32)], 1)
            own[name].weight = mx.concatenate([kept, weight[rows:]])
    weight, found = own.o_proj.weight, _dense(_at(theirs, "o_proj"))
    columns = weight.shape[1] - group * size
    if found is not None and found.shape[0] == hidden and found.shape[1] in (columns, weight.shape[1]):
        weight = found.astype(mx.float32)
    own.o_proj.weight = mx.pad(weight[:, :columns], [(0, 0), (0, group * size)])


def _final_norm(network: Any, hidden: int) -> mx.array | None:
    """The weight of the norm behind the last layer."""
    inside = {id(part) for layer in layers_of(network) for part in layer.modules()}
    for name, module in network.named_modules():
        if name.rpartition(".")[2] in ("norm", "ln_f", "final_layernorm", "norm_f") and id(module) not in inside:
            weight = module.get("weight")
            if weight is not None and weight.shape == (hidden,) and isinstance(module, nn.RMSNorm):
                return mx.array(weight)
    return None


def _at(module: Any, name: str) -> Any:
    """The module `name` below `module`, None where there is none."""
    for part in name.split("."):
        module = getattr(module, part, None)
    return module


def _dense(module: Any) -> mx.array | None:
    """The weight of a linear map or a norm, dequantized; None for anything else."""
    if not isinstance(module, nn.Linear | nn.QuantizedLinear | nn.RMSNorm):
        return None
    weight: mx.array = module.weight
    if not isinstance(module, nn.QuantizedLinear):
        return weight
    return mx.dequantize(weight, module.scales, module.get("biases"), module.group_size, module.bits, module.mode)


def _copy(module: Any, weight: mx.array | None) -> None:
    if weight is not None and weight.shape == module.weight.shape:
        module.weight = weight.astype(mx.float32)
