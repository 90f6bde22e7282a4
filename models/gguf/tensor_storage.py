"""Decides how each tensor is stored in the MLX folder, and converts it some rows at a time.

What a tensor loses in conversion, by ggml's type and the storage options:

    kept, 16-bit  F32 F16 BF16                  rounded to the folder's dtype: 2^-12 of each value in f16, 2^-9 in bf16
    kept, affine  Q4_0 Q4_1 Q5_0 Q5_1 Q8_0      nothing in f16; in bf16 the scale is rounded by 2^-9
                  Q4_K Q5_K                     the integers stay; scale and bias rounded by 2^-12 in f16, 2^-9 in bf16
                  Q6_K                          quantized again to 8 bits, because MLX has no groups of 16:
                                                half a step of 1/255 of the group's range
    16 bits       every matrix                  rounded to the folder's dtype
    2 to 8 bits   every matrix                  quantized anew, as mlx-lm does

With dtype f32 none of this is rounded. Vectors (norms, biases) are always plain.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from models.gguf.affine_groups import AFFINE, DTYPES, GROUP, Array, Bytes, Floats, all_finite, pack, quantize, store
from models.gguf.gguf_reader import GgufFile, TensorInfo
from models.safetensors_file import Entry, Piece
from models.storage_options import StorageOptions

_CHUNK_VALUES = 1 << 22  # of a tensor at once: 16 MB of f32, however large the model is
_KEPT_BITS = 8  # of a quantized type that is not affine
_PLAIN = ("F32", "F16", "BF16")


@dataclass(frozen=True)
class Part:
    """One tensor to convert: GGUF's `name`, MLX's `target`, the shape it must have.

    heads: where llama.cpp has interleaved the rows of each head, how many. less: what llama.cpp has added to it.
    """

    name: str
    target: str
    shape: tuple[int, ...]
    heads: int | None = None
    less: float = 0.0

    @property
    def base(self) -> str:
        return self.target.removesuffix(".weight")


@dataclass(frozen=True)
class Storage:
    """How a tensor is stored. bits: of an affine one, None for a plain one. again: whether it is quantized anew."""

    dtype: str
    bits: int | None = None
    group: int = GROUP
    again: bool = False


def storage_of(info: TensorInfo, options: StorageOptions, dtype: str) -> Storage:
    """Returns how the tensor will be stored in a folder of `dtype` (as safetensors calls it)."""
    kind, columns = info.type.name, info.shape[-1]
    plain = Storage(dtype)
    if len(info.shape) < 2 or options.bits == 16 or (options.bits is None and kind in _PLAIN):
        return plain
    if options.bits is not None:
        return Storage(dtype, options.bits, options.group, again=True) if columns % options.group == 0 else plain
    if kind in AFFINE:
        return Storage(dtype, AFFINE[kind].bits)
    return Storage(dtype, _KEPT_BITS, again=True)


def entries_of(part: Part, storage: Storage) -> list[Entry]:
    """Returns the entries that `pieces_of` will fill."""
    if storage.bits is None:
        return [Entry(part.target, storage.dtype, part.shape)]
    rows, columns = part.shape
    groups = (rows, columns // storage.group)
    return [
        Entry(f"{part.base}.weight", "U32", (rows, columns * storage.bits // 32)),
        Entry(f"{part.base}.scales", storage.dtype, groups),
        Entry(f"{part.base}.biases", storage.dtype, groups),
    ]


def pieces_of(gguf: GgufFile, part: Part, storage: Storage) -> Iterator[Piece]:
    """Yields the tensor for MLX, some rows at a time. Raises ModelError if a number is not finite or the file ends."""
    info = gguf.tensors[part.name]
    rows, columns = (1, *info.shape)[-2:]
    step = max(1, _CHUNK_VALUES // columns)
    if part.heads:
        width = rows // part.heads
        step = max(1, step // width) * width
    for start in range(0, rows, step):
        raw = gguf.rows(part.name, start, min(start + step, rows))
        for name, array in _chunk(part, storage, info, raw):
            if array.dtype != np.uint32 and not all_finite(array, storage.dtype):
                raise gguf.unfit(_not_finite(part, storage), "the file is damaged, download it again")
            moved = unpermute(array, part.heads * array.shape[0] // rows) if part.heads else array
            yield Piece(name, start if len(info.shape) > 1 else 0, moved.reshape(-1) if len(info.shape) == 1 else moved)


def unpermute(rows: Array, heads: int) -> Array:
    """Undoes llama.cpp's reordering of q and k: (heads * width, any) -> the same shape.

    llama.cpp rotates neighbours (0, 1), Hugging Face and MLX rotate halves (0, width / 2), so its converter
    interleaves the two halves of each head's rows. Rows move whole, so packed rows and their scales move alike.
    """
    split = rows.reshape(heads, rows.shape[0] // heads // 2, 2, *rows.shape[1:])
    return split.swapaxes(1, 2).reshape(rows.shape)


def values_of(info: TensorInfo, raw: Bytes) -> Floats:
    """Rows of bytes as f32, shape (rows, columns); every quantized type by the gguf package."""
    if info.type.name == "F32":
        return raw.view("<f4").astype(np.float32, copy=False)
    if info.type.name == "F16":
        return raw.view("<f2").astype(np.float32)
    from gguf import GGMLQuantizationType
    from gguf.quants import dequantize

    with np.errstate(over="ignore", invalid="ignore"):  # `pieces_of` reports what came of it
        values: Floats = dequantize(raw, GGMLQuantizationType[info.type.name])
    return values


def _chunk(part: Part, storage: Storage, info: TensorInfo, raw: Bytes) -> list[tuple[str, Array]]:
    if storage.bits is None:
        values = values_of(info, raw)
        return [(part.target, store(values - np.float32(part.less) if part.less else values, storage.dtype))]
    if storage.again:
        values = values_of(info, raw)
        if not np.isfinite(values).all():
            values = np.full_like(values, np.nan)  # so that the scales say it
        numbers, scales, biases = quantize(values, storage.bits, storage.group, storage.dtype)
    else:
        with np.errstate(over="ignore", invalid="ignore"):
            numbers, scale, bias = AFFINE[info.type.name].split(raw.reshape(-1, info.type.block_bytes))
        groups = (raw.shape[0], -1)
        numbers, scales, biases = (
            numbers.reshape(groups),
            store(scale.reshape(groups), storage.dtype),
            store(bias.reshape(groups), storage.dtype),
        )
    words = pack(numbers, storage.bits)
    return [(f"{part.base}.weight", words), (f"{part.base}.scales", scales), (f"{part.base}.biases", biases)]


def _not_finite(part: Part, storage: Storage) -> str:
    return f"tensor {part.name!r} holds infinities or NaN, or numbers too large for {DTYPES[storage.dtype]}"
