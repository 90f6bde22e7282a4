"""Toys of the main families as targets are on Metal: bfloat16, weights of 4 bits, heads of 64 numbers.

The other toys have heads of 8 numbers and float32 weights, so that they run neither the fused attention kernels of
Metal, which take heads of 64 numbers and more (`has_fused_kernel` in MLX's
`backend/metal/scaled_dot_product_attention.cpp`), nor its quantized products (`quantized.cpp`).
"""

import importlib
from typing import Any

import mlx.core as mx
import mlx.nn as nn

from tests.toys.architectures import _config, _redraw

GROUP, BITS = 64, 4
_WIDE = {
    "head_dim": 64,
    "hidden_size": 128,
    "intermediate_size": 128,
    "moe_intermediate_size": 64,
    "shared_expert_intermediate_size": 64,
    "linear_key_head_dim": 64,
    "linear_value_head_dim": 64,
    "query_pre_attn_scalar": 64.0,
}


def build_quantized(name: str, seed: int = 0) -> nn.Module:
    """A small random model of architecture `name`; the same one for the same seed."""
    mx.random.seed(seed)
    module, config = importlib.import_module(f"mlx_lm.models.{name}"), _config(name)
    for part in (config, config.get("text_config", config)):
        part.update({key: value for key, value in _WIDE.items() if key in part})
    model = module.Model(module.ModelArgs.from_dict(config))
    _redraw(model)
    model.eval()
    model.set_dtype(mx.bfloat16)
    nn.quantize(model, GROUP, BITS, class_predicate=_fits)
    mx.eval(model.parameters())
    return model


def _fits(_: str, module: Any) -> bool:
    return hasattr(module, "to_quantized") and module.weight.shape[-1] % GROUP == 0
