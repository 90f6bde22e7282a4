"""A bounds-checked reader of GGUF, versions 2 and 3, little-endian (format: ggml's docs/gguf.md).

The file is not trusted: every count, length and offset is checked against the file's size before it is used, so a
cut, damaged or hostile file ends in a ModelError of one line, never in a wild read or a huge allocation.

    header      "GGUF", u32 version, u64 tensor count, u64 pair count
    pairs       key, u32 value type, value                        strings are a u64 length and UTF-8 bytes
    tensors     name, u32 dimensions, u64 each (fastest first), u32 type, u64 offset into the data
    data        starts at the next multiple of general.alignment (32 unless the file says otherwise)

A model split over several files (llama.cpp's gguf-split: NAME-00001-of-00004.gguf and so on) reads as one: the first
has the metadata, each has tensors.
"""

import os
import re
import struct
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from types import MappingProxyType
from typing import BinaryIO, TypeVar

import numpy as np
from numpy.typing import NDArray

from engine.errors import ModelError


@dataclass(frozen=True)
class TensorType:
    """How ggml stores a row: blocks of `block_values` values in `block_bytes` bytes each."""

    name: str
    block_values: int
    block_bytes: int


# By ggml.h's `ggml_type`. A type that models/gguf/affine_groups.py does not repack is dequantized by the gguf package.
TENSOR_TYPES = {
    0: TensorType("F32", 1, 4),
    1: TensorType("F16", 1, 2),
    2: TensorType("Q4_0", 32, 2 + 16),
    3: TensorType("Q4_1", 32, 2 + 2 + 16),
    6: TensorType("Q5_0", 32, 2 + 4 + 16),
    7: TensorType("Q5_1", 32, 2 + 2 + 4 + 16),
    8: TensorType("Q8_0", 32, 2 + 32),
    12: TensorType("Q4_K", 256, 2 + 2 + 12 + 128),
    13: TensorType("Q5_K", 256, 2 + 2 + 12 + 32 + 128),
    14: TensorType("Q6_K", 256, 128 + 64 + 16 + 2),
    30: TensorType("BF16", 1, 2),
}

# By docs/gguf.md's `gguf_metadata_value_type`: numbers as struct formats, without the byte order.
NUMBER_FORMATS = {0: "B", 1: "b", 2: "H", 3: "h", 4: "I", 5: "i", 6: "f", 10: "Q", 11: "q", 12: "d"}
BOOL, STRING, ARRAY = 7, 8, 9
Value = int | float | bool | str | tuple["Value", ...]

# Far above any real file; they keep a hostile one of many gigabytes from filling the memory with Python objects.
MAX_ITEMS = 1 << 22
LARGEST_HEADER_BYTES = 1 << 26
_LONGEST_STRING_BYTES = 1 << 24
_DEEPEST_ARRAY = 4
_SMALLEST_STRING_BYTES = 8
_SMALLEST_ARRAY_BYTES = 4 + 8


class Cursor:
    """Reads little-endian values in order. Every method raises ModelError rather than pass the end of the file.

    It maps nothing: a file that another program cuts while it is mapped kills the process that reads it. path: for
    messages. file: at its beginning, of `size_bytes`.
    """

    def __init__(self, path: Path, file: BinaryIO, size_bytes: int) -> None:
        self.path = path
        self.position = 0
        self.size_bytes = size_bytes
        self._file = file

    @property
    def left_bytes(self) -> int:
        return self.size_bytes - self.position

    def damaged(self, what: str) -> ModelError:
        """Returns the error for a damaged file. what: the damage."""
        return ModelError(f"{self.path}: {what}; the file is damaged, download it again")

    def take(self, count_bytes: int, what: str) -> bytes:
        if count_bytes > self.left_bytes:
            raise self.damaged(f"cut short in {what}, {count_bytes} bytes wanted and {self.left_bytes} left")
        if self.position + count_bytes > LARGEST_HEADER_BYTES:
            raise self.damaged(f"its metadata go on past {LARGEST_HEADER_BYTES >> 20} MiB, more than any model has")
        raw = self._file.read(count_bytes)
        if len(raw) != count_bytes:
            raise self.damaged(f"cut short in {what} while it was read")
        self.position += count_bytes
        return raw

    def u32(self, what: str) -> int:
        return int.from_bytes(self.take(4, what), "little")

    def u64(self, what: str) -> int:
        return int.from_bytes(self.take(8, what), "little")

    def text(self, what: str) -> str:
        length_bytes = self.u64(what)
        if length_bytes > _LONGEST_STRING_BYTES:
            raise self.damaged(f"{what} claims {length_bytes} bytes, too many for a text")
        raw = self.take(length_bytes, what)
        try:
            return raw.decode()
        except UnicodeDecodeError as error:
            raise self.damaged(f"{what} is not UTF-8") from error

    def value(self, code: int, key: str, depth: int = 0) -> Value:
        """Reads one metadata value of type `code`; `key` is only for messages."""
        shown = f"the value of {key[:60]!r}"
        if code == STRING:
            return self.text(shown)
        if code == BOOL:
            return self._bools(1, shown)[0]
        if code == ARRAY:
            return self._array(key, depth)
        return self._numbers(code, 1, shown)[0]

    def _array(self, key: str, depth: int) -> tuple[Value, ...]:
        shown = f"the list {key[:60]!r}"
        if depth >= _DEEPEST_ARRAY:
            raise self.damaged(f"{shown} is nested too deeply")
        code, count = self.u32(shown), self.u64(shown)
        if count > MAX_ITEMS:
            raise self.damaged(f"{shown} claims {count} items, more than any model has")
        if code == BOOL:
            return self._bools(count, shown)
        if code not in (STRING, ARRAY):
            return self._numbers(code, count, shown)
        smallest = _SMALLEST_STRING_BYTES if code == STRING else _SMALLEST_ARRAY_BYTES
        if count * smallest > self.left_bytes:
            raise self.damaged(f"{shown} claims {count} items, too many for the file")
        if code == STRING:
            return tuple(self.text(shown) for _ in range(count))
        return tuple(self._array(key, depth + 1) for _ in range(count))

    def _numbers(self, code: int, count: int, what: str) -> tuple[int | float, ...]:
        if code not in NUMBER_FORMATS:
            raise self.damaged(f"{what} has an unknown type {code}")
        size_bytes = struct.calcsize(f"<{NUMBER_FORMATS[code]}")
        raw = self.take(count * size_bytes, what)
        return struct.unpack(f"<{count}{NUMBER_FORMATS[code]}", raw)

    def _bools(self, count: int, what: str) -> tuple[bool, ...]:
        raw = self.take(count, what)
        if raw.strip(b"\x00\x01"):
            raise self.damaged(f"{what} is neither true nor false")
        return tuple(byte == 1 for byte in raw)


_MAGIC = b"GGUF"
_HEADER_BYTES = 24
_SMALLEST_PAIR_BYTES = 8 + 4 + 1
_SMALLEST_TENSOR_BYTES = 8 + 4 + 8 + 4 + 8
_MAX_DIMENSIONS = 4
_SPLIT = re.compile(r"(.*)-(\d{5})-of-(\d{5})\.gguf")
_MAX_FILES = 1000

T = TypeVar("T", int, float, str, bool)
Bytes = NDArray[np.uint8]


@dataclass(frozen=True)
class TensorInfo:
    """One tensor: `shape` slowest dimension first (rows, columns), `offset_bytes` from the start of `path`."""

    name: str
    type: TensorType
    shape: tuple[int, ...]
    offset_bytes: int
    size_bytes: int
    path: Path

    @property
    def row_bytes(self) -> int:
        return self.shape[-1] // self.type.block_values * self.type.block_bytes


@dataclass(frozen=True)
class GgufFile:
    """A whole GGUF model whose every tensor is known to lie inside its file. Tensor data stays on disk.

    path: the first of its files, of which a model that is split has several.
    """

    path: Path
    metadata: Mapping[str, Value]
    tensors: Mapping[str, TensorInfo]

    def raw(self, name: str) -> Bytes:
        """Returns all bytes of a tensor, shape (size_bytes,). Raises ModelError as `rows` does."""
        info = self.tensors[name]
        return self.rows(name, 0, info.size_bytes // info.row_bytes).reshape(-1)

    def rows(self, name: str, start: int, stop: int) -> Bytes:
        """Returns the bytes of some rows of a tensor (a vector is one row), shape (stop - start, bytes of a row).

        Raises ModelError when the file has been cut since its header was read, or cannot be read.
        """
        info = self.tensors[name]
        start_bytes, stop_bytes = start * info.row_bytes, stop * info.row_bytes
        if not 0 <= start_bytes <= stop_bytes <= info.size_bytes:
            raise IndexError(f"rows {start} to {stop} of {info}")
        try:
            with info.path.open("rb") as file:
                file.seek(info.offset_bytes + start_bytes)
                content = file.read(stop_bytes - start_bytes)
        except OSError as error:
            raise _unreadable(info.path, error) from error
        if len(content) != stop_bytes - start_bytes:
            raise ModelError(f"{info.path}: was cut while it was read; let whatever writes it finish, then try again")
        return np.frombuffer(content, np.uint8).reshape(stop - start, info.row_bytes)

    def get(self, key: str, kind: type[T], default: T | None = None) -> T:
        """Returns the value of `key`; ints pass for floats. Raises ModelError if it is missing or of another kind."""
        value = self.metadata.get(key, default)
        if kind is float and isinstance(value, int) and not isinstance(value, bool):
            value = float(value)
        if value is None:
            raise self.unfit(f"lacks {key}", "use a complete model file")
        if not isinstance(value, kind) or (kind is int and isinstance(value, bool)):
            raise self.unfit(f"{key} is not of the kind {kind.__name__}", "download it again")
        return value

    def get_all(self, key: str, kind: type[T]) -> tuple[T, ...]:
        """Returns the metadata array of `key`. Raises ModelError if it is missing or holds anything but `kind`."""
        value = self.metadata.get(key)
        if not isinstance(value, tuple):
            raise self.unfit(f"lacks the list {key}", "use a complete model file")
        items = tuple(item for item in value if isinstance(item, kind))
        if len(items) != len(value):
            raise self.unfit(f"{key} is not a list of the kind {kind.__name__}", "download it again")
        return items

    def unfit(self, what: str, to_do: str) -> ModelError:
        """Returns the error for a file that is readable GGUF, but not what the caller needs."""
        return ModelError(f"{self.path}: {what}; {to_do}")


def read_gguf(path: Path) -> GgufFile:
    """Reads header, metadata and tensor table of `path`, and of its siblings where the model is split.

    Raises ModelError: no such file, not GGUF, big-endian, an unsupported version or tensor type, cut short, or any
    number in it that does not fit the file; a sibling that is missing or does not belong to it.
    """
    gguf = _read_one(path)
    count = gguf.get("split.count", int, 1)
    return gguf if count <= 1 else _joined(path, count)


def paths_of(path: Path) -> tuple[Path, ...]:
    """Returns the files of the model that `path` is, or is one of: its siblings by their names, there or not."""
    name = _SPLIT.fullmatch(path.name)
    if name is None or not 1 <= int(name[2]) <= int(name[3]) <= _MAX_FILES:
        return (path,)
    total = int(name[3])
    return tuple(path.with_name(f"{name[1]}-{number:05d}-of-{total:05d}.gguf") for number in range(1, total + 1))


def _read_one(path: Path) -> GgufFile:
    try:
        if not path.is_file():
            raise ModelError(f"{path}: no such file; check the path")
        with path.open("rb") as file:
            return _read_open(path, file, os.fstat(file.fileno()).st_size)
    except OSError as error:
        raise _unreadable(path, error) from error


def _read_open(path: Path, file: BinaryIO, size_bytes: int) -> GgufFile:
    if size_bytes < _HEADER_BYTES:
        raise ModelError(f"{path}: cut short: {size_bytes} bytes is too small for a GGUF file; download it again")
    cursor = Cursor(path, file, size_bytes)
    tensor_count, pair_count = _read_header(cursor)
    metadata = _read_pairs(cursor, pair_count)
    alignment = _alignment(cursor, metadata)
    entries = [_read_tensor(cursor) for _ in range(tensor_count)]
    tensors = _place(cursor, entries, alignment)
    return GgufFile(path, MappingProxyType(metadata), MappingProxyType(tensors))


def _joined(path: Path, count: int) -> GgufFile:
    """Returns all `count` files of the model that `path` is one of."""
    paths = paths_of(path)
    if len(paths) != count:
        what = f"is one of {count} files of a split model, but is not named -00001-of-{count:05d}.gguf or the like"
        raise ModelError(f"{path}: {what}; give the files their names back")
    parts = [_read_one(sibling) for sibling in paths]
    tensors: dict[str, TensorInfo] = {}
    for number, part in enumerate(parts):
        if part.get("split.count", int, 0) != count or part.get("split.no", int) != number:
            raise part.unfit("does not belong to the split model beside it", "download all of its files again")
        if twice := tensors.keys() & part.tensors.keys():
            raise part.unfit(f"tensor {min(twice)[:60]!r} is in two files", "download all of its files again")
        tensors |= part.tensors
    first = parts[0]
    if first.get("split.tensors.count", int, len(tensors)) != len(tensors):
        raise first.unfit(f"its files hold {len(tensors)} tensors, not all", "download all of its files again")
    return replace(first, tensors=MappingProxyType(tensors))


def _read_header(cursor: Cursor) -> tuple[int, int]:
    """Tensor count and pair count, neither more than the file could hold."""
    if cursor.take(4, "the header") != _MAGIC:
        raise cursor.damaged("not a GGUF file (wrong first bytes)")
    version = cursor.u32("the version")
    if version & 0xFFFF == 0 and version:
        raise ModelError(f"{cursor.path}: big-endian GGUF is not supported; use the little-endian file")
    if version not in (2, 3):
        raise ModelError(f"{cursor.path}: GGUF version {version} is not supported; use a file of version 2 or 3")
    tensor_count, pair_count = cursor.u64("the tensor count"), cursor.u64("the pair count")
    smallest = tensor_count * _SMALLEST_TENSOR_BYTES + pair_count * _SMALLEST_PAIR_BYTES
    if smallest > cursor.left_bytes or max(tensor_count, pair_count) > MAX_ITEMS:
        raise cursor.damaged(f"claims {tensor_count} tensors and {pair_count} metadata pairs, too many")
    return tensor_count, pair_count


def _read_pairs(cursor: Cursor, count: int) -> dict[str, Value]:
    metadata: dict[str, Value] = {}
    for _ in range(count):
        key = cursor.text("a metadata key")
        if key in metadata:
            raise cursor.damaged(f"metadata key {key[:60]!r} appears twice")
        metadata[key] = cursor.value(cursor.u32("a value type"), key)
    return metadata


def _alignment(cursor: Cursor, metadata: Mapping[str, Value]) -> int:
    alignment = metadata.get("general.alignment", 32)
    if not isinstance(alignment, int) or alignment < 1 or alignment & (alignment - 1):
        raise cursor.damaged("general.alignment is not a power of two")
    return alignment


def _read_tensor(cursor: Cursor) -> TensorInfo:
    """Reads one entry of the tensor table, its offset still relative to the start of the data."""
    name = cursor.text("a tensor name")
    shown = f"tensor {name[:60]!r}"
    dimensions = cursor.u32(shown)
    if not 1 <= dimensions <= _MAX_DIMENSIONS:
        raise cursor.damaged(f"{shown} has {dimensions} dimensions")
    shape = tuple(cursor.u64(shown) for _ in range(dimensions))[::-1]
    kind = _tensor_type(cursor, shown, cursor.u32(shown))
    if 0 in shape or shape[-1] % kind.block_values:
        raise cursor.damaged(f"{shown} has a shape {shape} that {kind.name} cannot store")
    values = 1
    for side in shape:
        values *= side  # Python's integers do not overflow; _place compares the result with the file
    size_bytes = values // kind.block_values * kind.block_bytes
    return TensorInfo(name, kind, shape, cursor.u64(shown), size_bytes, cursor.path)


def _tensor_type(cursor: Cursor, shown: str, code: int) -> TensorType:
    if code in TENSOR_TYPES:
        return TENSOR_TYPES[code]
    from gguf import GGMLQuantizationType  # takes half a second to import

    name = next((kind.name for kind in GGMLQuantizationType if kind == code), None)
    if name is None:
        raise cursor.damaged(f"{shown} has an unknown type {code}")
    supported = ", ".join(kind.name for kind in TENSOR_TYPES.values())
    raise ModelError(f"{cursor.path}: {shown} is {name}, which is not supported; use a file of {supported}")


def _place(cursor: Cursor, entries: list[TensorInfo], alignment: int) -> dict[str, TensorInfo]:
    """Turns data offsets into file offsets; every tensor must be inside the file, aligned, and on its own."""
    start = -(-cursor.position // alignment) * alignment
    end, tensors = start, dict[str, TensorInfo]()
    for entry in sorted(entries, key=lambda entry: entry.offset_bytes):
        shown, first = f"tensor {entry.name[:60]!r}", start + entry.offset_bytes
        if entry.name in tensors:
            raise cursor.damaged(f"{shown} appears twice")
        if entry.offset_bytes % alignment:
            raise cursor.damaged(f"{shown} is not aligned to {alignment} bytes")
        if first < end:
            raise cursor.damaged(f"{shown} overlaps the one before it")
        end = first + entry.size_bytes
        if end > cursor.size_bytes:
            raise cursor.damaged(f"cut short, {shown} ends at byte {end} and the file at {cursor.size_bytes}")
        tensors[entry.name] = replace(entry, offset_bytes=first)
    return tensors


def _unreadable(path: Path, error: OSError) -> ModelError:
    return ModelError(f"{path}: cannot be read ({error.strerror}); check its permissions")
