"""Quantized layers made plain again.

mlx-lm's own `dequantize_model` (0.32.2) leaves out the scale that each expert of an nvfp4 model has besides those of
its groups, and makes bfloat16 of whatever has no scale in a float type.
"""

from typing import Any

import mlx.core as mx
from mlx import nn
from mlx.utils import tree_unflatten

from engine.backend.mlx_lm_imports import QuantizedSwitchLinear, SwitchLinear

_PLAIN = {nn.QuantizedLinear: nn.Linear, nn.QuantizedEmbedding: nn.Embedding, QuantizedSwitchLinear: SwitchLinear}


def dequantize(network: Any, dtype: mx.Dtype | None = None) -> Any:
    """Returns the network with a plain layer in place of every quantized one, nothing evaluated yet.

    dtype: of their weights; by default that of the scales, or bfloat16 where these are no floats.
    """
    plain = [(name, _plain(module, dtype)) for name, module in network.named_modules() if type(module) in _PLAIN]
    if plain:
        network.update_modules(tree_unflatten(plain))
    return network


def _plain(module: Any, dtype: mx.Dtype | None) -> nn.Module:
    weight, kind = _weight(module, dtype), _PLAIN[type(module)]
    options = {} if kind is nn.Embedding else {"bias": "bias" in module}
    layer: nn.Module = kind(*weight.shape[::-1], **options)
    layer.weight = weight
    if "bias" in module:
        layer.bias = module.bias
    return layer


def _weight(module: Any, dtype: mx.Dtype | None) -> mx.array:
    """Returns the weights of a layer: (outputs, inputs), or (experts, outputs, inputs)."""
    form = {"group_size": module.group_size, "bits": module.bits, "mode": module.mode, "dtype": dtype}
    global_scale = module.get("global_scale")
    if global_scale is None:
        return mx.dequantize(module.weight, module.scales, module.get("biases"), **form)
    experts = zip(module.weight, module.scales, global_scale, strict=True)
    return mx.stack([mx.dequantize(w, scales, **form, global_scale=scale) for w, scales, scale in experts])
