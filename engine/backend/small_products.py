"""Products of few rows with a weight matrix, on the CPU: cut so that OpenBLAS takes its kernels for small matrices.

A pass of plain decoding multiplies one row with each matrix, a verify pass a few. For these OpenBLAS packs the whole
matrix anew each time, which takes longer than the product. Its kernels for small matrices pack nothing, but it has them
for processors with AVX-512 alone, and takes them within bounds that few matrices of a model keep
(`kernel/x86_64/sgemm_small_kernel_permit_skylakex.c`, OpenBLAS 0.3.34). So the matrix is seen as a batch of blocks of
its rows, without a copy, each of which keeps them: up to three times as quick. And these kernels sum each number in one
order, whatever the number of rows, so in a verify pass the products that are cut have the bits of plain steps. A matrix
stays whole if its number of rows is no multiple of 8, or if 8 of them are too long for a pass.
"""

from functools import cache
from typing import Any

import mlx.core as mx
import mlx.nn as nn

from engine import backend
from engine.backend import blas

_MOST_ROWS = 12  # of the states; for more of them packing pays
_BLOCKS = (64, 32, 16, 8)
_MOST_RESULTS, _MOST_MULTIPLICATIONS, _SHORTEST_SUM = 1200, 10**6, 32  # OpenBLAS's bounds


def install() -> None:
    """Has the linear layers of MLX cut their products, where this process has kernels for small matrices."""
    if cuts():
        nn.Linear.__call__ = _linear  # type: ignore[method-assign]
        nn.Embedding.as_linear = _as_linear  # type: ignore[method-assign]


@cache
def cuts() -> bool:
    """Whether products of this process are cut."""
    return backend.describe().device == "cpu" and blas.has_small_kernels()


def times_transposed(x: mx.array, weight: mx.array) -> mx.array:
    """Returns x (..., inputs) times the transposed weight (outputs, inputs): (..., outputs)."""
    outputs, inputs = weight.shape
    rows = x.size // inputs
    block = _block(rows, outputs, inputs) if mx.float32 == x.dtype == weight.dtype else outputs
    if block == outputs or not cuts():
        return x @ weight.T
    blocks = weight.reshape(-1, block, inputs).swapaxes(1, 2)
    return (x.reshape(1, rows, inputs) @ blocks).swapaxes(0, 1).reshape(*x.shape[:-1], outputs)


def _block(rows: int, outputs: int, inputs: int) -> int:
    """Returns how many rows of a matrix each block has: all of them where nothing is to be cut."""
    if rows > _MOST_ROWS or inputs < _SHORTEST_SUM:
        return outputs
    most = min(_MOST_RESULTS, _MOST_MULTIPLICATIONS // inputs) // max(rows, 1)
    if outputs <= most:
        return outputs
    return next((block for block in _BLOCKS if block <= most and outputs % block == 0), outputs)


def _linear(self: Any, x: mx.array) -> mx.array:
    out = times_transposed(x, self["weight"])
    return out + self["bias"] if "bias" in self else out


def _as_linear(self: Any, x: mx.array) -> mx.array:
    return times_transposed(x, self["weight"])
