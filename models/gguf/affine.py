"""Numbers as MLX stores them: 16- and 32-bit floats, and affine groups packed into words.

Here in numpy rather than with mx.quantize, so that an import needs no MLX, gives the same bytes on every machine, and
rounds with the scale that is stored. Layout: mlx/backend/common/quantized.h; q is packed from the lowest bits up.
"""

import numpy as np
from numpy.typing import NDArray

from models.gguf.blocks import Bytes, Floats

DTYPES = {"F16": "float16", "BF16": "bfloat16", "F32": "float32"}  # as safetensors and as people call them

Array = NDArray[np.generic]
Words = NDArray[np.uint32]


def store(values: Floats, dtype: str) -> Array:
    """f32 values as safetensors stores `dtype`: rounded to nearest, ties to even; bf16 as the u16 that it is.

    What does not fit becomes an infinity; see `all_finite`.
    """
    if dtype == "F32":
        return values
    if dtype == "F16":
        with np.errstate(over="ignore"):
            return values.astype("<f2")
    bits = np.ascontiguousarray(values).view(np.uint32)
    rounded = (bits + (np.uint32(0x7FFF) + (bits >> np.uint32(16) & np.uint32(1)))) >> np.uint32(16)
    return np.where(np.isnan(values), np.uint32(0x7FC0), rounded).astype("<u2")


def read_back(stored: Array, dtype: str) -> Floats:
    """What `store` made, as f32 again."""
    if dtype == "BF16":
        return (stored.astype(np.uint32) << np.uint32(16)).view(np.float32)
    return stored.astype(np.float32)


def all_finite(stored: Array, dtype: str) -> bool:
    """Whether what `store` made has no infinity and no NaN."""
    return bool(np.isfinite(read_back(stored, dtype)).all())


def pack(values: Bytes, bits: int) -> Words:
    """q (rows, columns) of `bits` bits each -> (rows, columns * bits / 32) words. columns is a multiple of 32."""
    rows = values.shape[0]
    if bits == 8:
        packed = values
    elif bits == 4:
        packed = values[:, 0::2] | values[:, 1::2] << np.uint8(4)
    else:
        single = np.unpackbits(values[:, :, None], axis=2, bitorder="little")[:, :, :bits]
        packed = np.packbits(single.reshape(rows, -1), axis=1, bitorder="little")
    return np.ascontiguousarray(packed).view("<u4")


def quantize(values: Floats, bits: int, group: int, dtype: str) -> tuple[Bytes, Array, Array]:
    """f32 (rows, columns) -> q (rows, columns), and scales and biases (rows, columns / group) stored as `dtype`.

    The extremes of a group become 0 and the largest q; every other value the nearest step of the *stored* scale.
    """
    grouped = values.reshape(values.shape[0], -1, group)
    low, high = grouped.min(axis=2), grouped.max(axis=2)
    biases = store(low, dtype)
    bias = read_back(biases, dtype)
    scales = store((high - bias) / np.float32(2**bits - 1), dtype)
    scale = read_back(scales, dtype)
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        steps = (grouped - bias[..., None]) / scale[..., None]
    steps = np.nan_to_num(np.rint(steps), nan=0.0, posinf=0.0, neginf=0.0).clip(0, 2**bits - 1)
    return steps.astype(np.uint8).reshape(values.shape), scales, biases
