"""Numbers as MLX stores them, affine groups above all, and ggml's quantized blocks as such groups.

MLX has scale and bias per group of 32 and `value = scale * q + bias`; these ggml types have that form too:

    type   ggml block                                                     MLX
    Q4_0   f16 d, 16 bytes; value = d (q - 8)                             4 bits, scale d, bias -8 d
    Q4_1   f16 d, f16 m, 16 bytes; value = d q + m                        4 bits, scale d, bias m
    Q5_0   f16 d, 4 bytes of fifth bits, 16 bytes; value = d (q - 16)     5 bits, scale d, bias -16 d
    Q5_1   f16 d, f16 m, 4 bytes of fifth bits, 16 bytes; d q + m         5 bits, scale d, bias m
    Q8_0   f16 d, 32 signed bytes; value = d s                            8 bits, q = s + 128, scale d, bias -128 d
    Q4_K   f16 d, f16 e, 12 bytes of 8 pairs (a, b) of 6 bits, 128        4 bits, scale d a, bias -e b, for each of
           bytes; value = d a q - e b                                     8 groups of 32
    Q5_K   the same with 32 bytes of fifth bits before the 128            5 bits, as Q4_K

(ggml-quants.c; checked against the gguf package.) Q6_K has groups of 16, which MLX has not. Scales and biases come out
as f32, exactly; what storing them in 16 bits costs is said where that is done, in models/gguf/tensor_storage.py.

All in numpy rather than with mx.quantize, so that an import needs no MLX, gives the same bytes on every machine, and
rounds with the scale that is stored. Layout: mlx/backend/common/quantized.h; q is packed from the lowest bits up.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial

import numpy as np
from numpy.typing import NDArray

GROUP = 32
DTYPES = {"F16": "float16", "BF16": "bfloat16", "F32": "float32"}  # as safetensors and as people call them

Bytes = NDArray[np.uint8]
Floats = NDArray[np.float32]
Array = NDArray[np.generic]
Words = NDArray[np.uint32]
Groups = tuple[Bytes, Floats, Floats]  # q (groups, 32), scale (groups,), bias (groups,)


@dataclass(frozen=True)
class Affine:
    """The affine form of a ggml type: `bits` per value, and `split` from blocks (n, block bytes) to groups in order."""

    bits: int
    split: Callable[[Bytes], Groups]


def _float(blocks: Bytes, start: int) -> Floats:
    return np.ascontiguousarray(blocks[:, start : start + 2]).view("<f2")[:, 0].astype(np.float32)


def _nibbles(packed: Bytes) -> Bytes:
    """Byte j holds value j low and value j + half high."""
    return np.concatenate([packed & np.uint8(15), packed >> np.uint8(4)], axis=1)


def _split_plain(bits: int, has_minimum: bool, blocks: Bytes) -> Groups:
    """Splits a block of Q4 or Q5. has_minimum: whether m stands in the block, or the middle of the range is zero."""
    scale, start = _float(blocks, 0), 4 if has_minimum else 2
    bias = _float(blocks, 2) if has_minimum else scale * np.float32(-(2 ** (bits - 1)))
    if bits == 4:
        return _nibbles(blocks[:, start:]), scale, bias
    fifth = np.unpackbits(blocks[:, start : start + 4], axis=1, bitorder="little")  # bit j for value j
    return _nibbles(blocks[:, start + 4 :]) | fifth << np.uint8(4), scale, bias


def _split_q8_0(blocks: Bytes) -> Groups:
    scale = _float(blocks, 0)
    return blocks[:, 2:] ^ np.uint8(128), scale, scale * np.float32(-128)


def _split_q4_k(blocks: Bytes) -> Groups:
    scale, bias = _k_scales(blocks)
    return _k_nibbles(blocks[:, 16:]).reshape(-1, GROUP), scale, bias


def _split_q5_k(blocks: Bytes) -> Groups:
    scale, bias = _k_scales(blocks)
    high = np.unpackbits(blocks[:, 16:48, None], axis=2, bitorder="little")  # (n, 32, 8): bit g is of group g
    values = _k_nibbles(blocks[:, 48:]) | high.transpose(0, 2, 1) << np.uint8(4)
    return values.reshape(-1, GROUP), scale, bias


def _k_nibbles(packed: Bytes) -> Bytes:
    """128 bytes of each block as 8 groups: 32 bytes hold one group low and the next one high."""
    quarters = packed.reshape(-1, 4, 1, GROUP)
    return np.concatenate([quarters & np.uint8(15), quarters >> np.uint8(4)], axis=2).reshape(-1, 8, GROUP)


def _k_scales(blocks: Bytes) -> tuple[Floats, Floats]:
    """Scale and bias of each group. Of the 12 bytes, 4 have the first scales low and the high bits of the last, 4 the
    first minima likewise, and 4 the low bits of the last four scales and minima."""
    scales, minima, last = blocks[:, 4:8], blocks[:, 8:12], blocks[:, 12:16]
    a = np.concatenate([scales & 63, last & 15 | scales >> np.uint8(6) << np.uint8(4)], axis=1)
    b = np.concatenate([minima & 63, last >> np.uint8(4) | minima >> np.uint8(6) << np.uint8(4)], axis=1)
    scale = _float(blocks, 0)[:, None] * a.astype(np.float32)
    bias = _float(blocks, 2)[:, None] * -b.astype(np.float32)
    return scale.reshape(-1), bias.reshape(-1)


AFFINE: Mapping[str, Affine] = {
    "Q4_0": Affine(4, partial(_split_plain, 4, False)),
    "Q4_1": Affine(4, partial(_split_plain, 4, True)),
    "Q5_0": Affine(5, partial(_split_plain, 5, False)),
    "Q5_1": Affine(5, partial(_split_plain, 5, True)),
    "Q8_0": Affine(8, _split_q8_0),
    "Q4_K": Affine(4, _split_q4_k),
    "Q5_K": Affine(5, _split_q5_k),
}


def store(values: Floats, dtype: str) -> Array:
    """Returns f32 values as safetensors stores `dtype`: rounded to nearest, ties to even; bf16 as the u16 that it is.

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
    """Returns what `store` made as f32."""
    if dtype == "BF16":
        return (stored.astype(np.uint32) << np.uint32(16)).view(np.float32)
    return stored.astype(np.float32)


def all_finite(stored: Array, dtype: str) -> bool:
    """Whether what `store` made has no infinity and no NaN."""
    return bool(np.isfinite(read_back(stored, dtype)).all())


def pack(values: Bytes, bits: int) -> Words:
    """Packs q (rows, columns) of `bits` bits into (rows, columns * bits / 32) words. columns is a multiple of 32."""
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
    """Quantizes f32 (rows, columns) to q (rows, columns), scales and biases (rows, columns / group) of `dtype`.

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
