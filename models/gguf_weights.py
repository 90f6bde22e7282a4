"""ggml's quantized blocks as MLX's affine arrays, value for value.

ggml stores a row as blocks of 32 values; MLX stores scale and bias per group of 32 and `value = scale * q + bias`:

    type   ggml block                                          MLX
    Q4_0   f16 d, 16 bytes; value = d * (q - 8)                4 bits, scale d, bias -8 d
    Q4_1   f16 d, f16 m, 16 bytes; value = d * q + m           4 bits, scale d, bias m
    Q8_0   f16 d, 32 signed bytes; value = d * s               8 bits, q = s + 128, scale d, bias -128 d

In a 4-bit block byte j holds value j low and value j + 16 high (ggml-quants.c). MLX packs q into u32 from the lowest
bits up, in order. Scales and biases stay f16, exactly: the factors are powers of two. The values come out exact where
the arithmetic is f32; `mx.dequantize` with f16 scales rounds.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from models.gguf import GgufFile, TensorInfo
from models.safetensors_file import Entry

GROUP = 32

Array = NDArray[np.generic]
Bytes = NDArray[np.uint8]
Halves = NDArray[np.float16]


@dataclass(frozen=True)
class Affine:
    """A way to make affine groups: `split` turns blocks (n, block bytes) into q (n, 32), scale (n,), bias (n,)."""

    bits: int
    split: Callable[[Bytes], tuple[Bytes, Halves, Halves]]


def _halves(blocks: Bytes, start: int) -> Halves:
    return np.ascontiguousarray(blocks[:, start : start + 2]).view("<f2")[:, 0]


def _nibbles(packed: Bytes) -> Bytes:
    return np.concatenate([packed & np.uint8(15), packed >> np.uint8(4)], axis=1)


def _split_q4_0(blocks: Bytes) -> tuple[Bytes, Halves, Halves]:
    scale = _halves(blocks, 0)
    return _nibbles(blocks[:, 2:]), scale, scale * np.float16(-8)


def _split_q4_1(blocks: Bytes) -> tuple[Bytes, Halves, Halves]:
    return _nibbles(blocks[:, 4:]), _halves(blocks, 0), _halves(blocks, 2)


def _split_q8_0(blocks: Bytes) -> tuple[Bytes, Halves, Halves]:
    scale = _halves(blocks, 0)
    return blocks[:, 2:] ^ np.uint8(128), scale, scale * np.float16(-128)


AFFINE: Mapping[str, Affine] = {
    "Q4_0": Affine(4, _split_q4_0),
    "Q4_1": Affine(4, _split_q4_1),
    "Q8_0": Affine(8, _split_q8_0),
}


def outline(gguf: GgufFile, name: str, base: str) -> list[Entry]:
    """What `convert` will make of tensor `name`, without reading matrices."""
    info = gguf.tensors[name]
    if info.type.name not in AFFINE:
        dtype = "F32" if info.type.name == "F32" and not _fits_f16(gguf, info) else "F16"
        return [Entry(f"{base}.weight", dtype, info.shape)]
    rows, columns = info.shape
    words = columns * AFFINE[info.type.name].bits // 32
    groups = (rows, columns // GROUP)
    return [
        Entry(f"{base}.weight", "U32", (rows, words)),
        Entry(f"{base}.scales", "F16", groups),
        Entry(f"{base}.biases", "F16", groups),
    ]


def convert(gguf: GgufFile, name: str, heads: int | None) -> list[Array]:
    """Tensor `name` as MLX has it: [weight], or [weight (rows, words) u32, scales, biases (rows, groups) f16].

    `heads` un-permutes the rows of q and k (see `unpermute`). Raises ModelError when a number is not finite.
    """
    info = gguf.tensors[name]
    raw = gguf.raw(name)
    if info.type.name in AFFINE:
        arrays = _affine(raw, info)
        numbers = arrays[1:]
    else:
        plain = raw.view("<f4" if info.type.name == "F32" else "<f2").reshape(info.shape)
        arrays = numbers = [plain.astype("<f2") if _fits_f16(gguf, info) else plain]
    if not all(bool(np.isfinite(array).all()) for array in numbers):
        raise gguf.unfit(f"tensor {name!r} holds infinities or NaN", "the file is damaged, download it again")
    return [unpermute(array, heads) for array in arrays] if heads else arrays


def unpermute(rows: Array, heads: int) -> Array:
    """Undo llama.cpp's reordering of q and k: (heads * width, any) -> the same shape.

    llama.cpp rotates neighbours (0, 1), Hugging Face and MLX rotate halves (0, width / 2), so its converter
    interleaves the two halves of each head's rows. Rows move whole, so packed rows and their scales move alike.
    """
    split = rows.reshape(heads, rows.shape[0] // heads // 2, 2, *rows.shape[1:])
    return split.swapaxes(1, 2).reshape(rows.shape)


def _affine(raw: Bytes, info: TensorInfo) -> list[Array]:
    rows, columns = info.shape
    how = AFFINE[info.type.name]
    with np.errstate(over="ignore"):  # an overflow is an infinity, which `convert` reports
        values, scale, bias = how.split(raw.reshape(-1, info.type.block_bytes))
    if how.bits == 4:
        values = values[:, 0::2] | values[:, 1::2] << np.uint8(4)
    weight = np.ascontiguousarray(values).reshape(rows, -1).view("<u4")
    return [weight, scale.reshape(rows, columns // GROUP), bias.reshape(rows, columns // GROUP)]


def _fits_f16(gguf: GgufFile, info: TensorInfo) -> bool:
    """Whether a vector that GGUF widened to f32 is exact in f16; then it goes back, to keep activations in f16.

    Converters store norms as f32 whatever the checkpoint had; one f32 norm would turn every activation into f32.
    """
    if info.type.name != "F32" or len(info.shape) > 1:
        return False
    vector = gguf.raw(info.name).view("<f4")
    with np.errstate(over="ignore"):
        return bool(np.array_equal(vector.astype("<f2").astype("<f4"), vector))
