"""Products that round by the rows of a pass, as Metal's kernels do, on this CPU, where they hardly differ; and products
and attention that never do, whatever library computes them.

A product of one row is left as it is; one of 2 to 5 rows is summed in two halves of its inputs, one of more rows in
four quarters, each rounded to the type of the activations before they are added. Quantized weights are dequantized for
it, as `qmm` does in its tiles.
"""

from typing import Any

import mlx.core as mx
import mlx.nn as nn
import numpy as np
import pytest

from tests.toys.architectures import build


def round_by_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    """Makes every product of a linear layer do so for the rest of a test."""
    for kind in (nn.Linear, nn.QuantizedLinear):
        monkeypatch.setattr(kind, "__call__", _by_rows(kind.__call__))


def compute_row_by_row(monkeypatch: pytest.MonkeyPatch) -> None:
    """Has every row of a pass computed alone for the rest of a test, in attention with the keys that it may see."""
    for kind, name in ((nn.Linear, "__call__"), (nn.QuantizedLinear, "__call__"), (nn.Embedding, "as_linear")):
        monkeypatch.setattr(kind, name, _each_row(getattr(kind, name)))
    monkeypatch.setattr(mx.fast, "scaled_dot_product_attention", _each_query(mx.fast.scaled_dot_product_attention))


def _each_row(real: Any) -> Any:
    def call(layer: Any, x: mx.array) -> mx.array:
        return mx.concatenate([real(layer, x[..., i : i + 1, :]) for i in range(x.shape[-2])], -2)

    return call


def _each_query(real: Any) -> Any:
    def call(queries: mx.array, keys: mx.array, values: mx.array, *, scale: float, mask: Any, **more: Any) -> mx.array:
        count, held, out = queries.shape[2], keys.shape[2], []
        for i in range(count):
            first, end = 0, held - count + i + 1
            if isinstance(mask, mx.array):
                seen = np.flatnonzero(np.broadcast_to(np.array(mask), (count, held))[i])
                first, end = int(seen[0]), int(seen[-1]) + 1
            some = (keys[:, :, first:end], values[:, :, first:end])
            out.append(real(queries[:, :, i : i + 1], *some, scale=scale, mask=None, **more))
        return mx.concatenate(out, 2)

    return call


def coarse(name: str, bits: int | None = None) -> Any:
    """A toy in bfloat16, and of `bits` if they are given, as targets are on Metal."""
    network = build(name)
    network.set_dtype(mx.bfloat16)
    if bits is not None:
        nn.quantize(network, 32, bits, class_predicate=_fits)
    mx.eval(network.parameters())
    return network


def _fits(_: str, module: Any) -> bool:
    return hasattr(module, "to_quantized") and module.weight.shape[-1] % 32 == 0


def _by_rows(real: Any) -> Any:
    def call(layer: Any, x: mx.array) -> mx.array:
        rows = x.shape[-2] if x.ndim > 1 else 1
        if rows == 1:
            return real(layer, x)  # type: ignore[no-any-return]
        weight = layer.weight
        if isinstance(layer, nn.QuantizedLinear):
            weight = mx.dequantize(weight, layer.scales, layer.get("biases"), layer.group_size, layer.bits, layer.mode)
        parts, dtype = 2 if rows <= 5 else 4, x.dtype
        both = (mx.split(matrix.astype(mx.float32), parts, axis=-1) for matrix in (x, weight))
        out = sum(some @ part.T for some, part in zip(*both, strict=True)).astype(dtype)
        return out + layer["bias"] if "bias" in layer else out  # type: ignore[no-any-return, operator]

    return call
