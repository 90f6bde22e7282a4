"""Puts the tensors of a head into its network: compared with it by name and shape, quantized or not.

A tensor that is quantized stands as `weight`, `scales` and, in affine mode, `biases`, as `mlx.nn.quantize` writes it.
Its bits and group size follow from the shapes, so configs that name each module by another layout's name need not be
read."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import mlx.core as mx
import mlx.nn as nn

from engine import backend
from engine.errors import ModelError
from models.dequantization import dequantize
from models.parameters import cast, flat_parameters

_APART = "config.json and weights do not belong together, download the drafter again"
_BITS, _GROUPS = (2, 3, 4, 5, 6, 8), (32, 64, 128)  # of affine quantization, as MLX has kernels for
_MODES = {(4, 32): "mxfp4", (4, 16): "nvfp4", (8, 32): "mxfp8"}  # bits and group size of what has no biases


def fill(path: Path, network: nn.Module, tensors: Mapping[str, mx.array]) -> None:
    """Makes `tensors`, by the network's names, the weights of `network`; modules that they hold quantized become so.

    path: of the folder, for messages. Nothing is evaluated. Raises ModelError, naming the first tensor that is missing,
    left over, or of the wrong shape or kind of number.
    """
    nn.quantize(network, class_predicate=lambda name, module: _quantization(path, name, module, tensors))
    wanted = flat_parameters(network)
    for name, value in wanted.items():
        if name not in tensors:
            raise ModelError(f"{path}: lacks the tensor {name!r}; {_APART}")
        found = tensors[name]
        if found.shape != value.shape:
            raise ModelError(f"{path}: the tensor {name!r} is {found.shape}, not {value.shape}; {_APART}")
        if mx.issubdtype(found.dtype, mx.floating) != mx.issubdtype(value.dtype, mx.floating):
            kinds = [str(array.dtype).rpartition(".")[2] for array in (found, value)]
            raise ModelError(f"{path}: the tensor {name!r} is stored as {kinds[0]}, not {kinds[1]}; {_APART}")
    for name in sorted(tensors.keys() - wanted.keys()):
        raise ModelError(f"{path}: unknown tensor {name[:80]!r} for a head of this kind; choose another drafter")
    network.load_weights(list(tensors.items()))


def settle(network: nn.Module, dtype: mx.Dtype) -> None:
    """Evaluates the weights in the type that the target computes in, as `cast` does; on CPU quantized modules are
    dequantized, as their kernels are scalar code there."""
    if backend.describe().dequantize:
        network.set_dtype(mx.float32)
        dequantize(network, mx.float32)
    cast(network, dtype)
    mx.eval(flat_parameters(network))


def _quantization(path: Path, name: str, module: Any, tensors: Mapping[str, mx.array]) -> bool | dict[str, object]:
    """How `mlx.nn.quantize` shall quantize a module; False where its tensors are plain."""
    scales = tensors.get(f"{name}.scales")
    if scales is None or not hasattr(module, "to_quantized"):
        return False
    packed = tensors.get(f"{name}.weight")
    width = module.weight.shape[-1]
    if packed is None or packed.dtype != mx.uint32 or not packed.ndim or scales.ndim != packed.ndim or not scales.size:
        raise ModelError(f"{path}: the tensor {name + '.scales'!r} has no quantized weight beside it; {_APART}")
    bits, group = packed.shape[-1] * 32 / width, width / scales.shape[-1]
    affine = f"{name}.biases" in tensors
    if affine and bits in _BITS and group in _GROUPS:
        return {"bits": int(bits), "group_size": int(group)}
    if affine or (bits, group) not in _MODES:
        raise ModelError(
            f"{path}: {name!r} is quantized in an unknown way ({bits:g} bits by {group:g}); choose another"
        )
    return {"bits": int(bits), "group_size": int(group), "mode": _MODES[bits, group]}
