"""The safetensors format, read with suspicion and written in one pass.

    u64 length of the header | header: JSON, name -> {"dtype", "shape", "data_offsets"} | data, end to end

Our own so that a file is judged before MLX maps it, and so that the importer needs neither MLX nor the whole model
in memory. `write_tensors` writes arrays of MLX by MLX itself. Format: huggingface/safetensors, README "Format".
"""

from __future__ import annotations

import json
import math
import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeGuard

import numpy as np
from numpy.typing import NDArray

from engine.errors import ModelError

if TYPE_CHECKING:
    import mlx.core as mx

# The reference implementation takes 100 MB, which a hostile header can blow up to gigabytes; real ones have a few MB.
LARGEST_HEADER_BYTES = 1 << 25
_MAX_DIMENSIONS, _LARGEST_COUNT = 16, 1 << 62

_BITS = {"BOOL": 8, "U8": 8, "I8": 8, "F8_E5M2": 8, "F8_E4M3": 8, "F8_E8M0": 8, "I16": 16, "U16": 16, "F16": 16}
_BITS |= {"BF16": 16, "I32": 32, "U32": 32, "F32": 32, "I64": 64, "U64": 64, "F64": 64, "C64": 64}
_BITS |= {"F4": 4, "F6_E2M3": 6, "F6_E3M2": 6}

# What numpy makes of the types that are written; it has no bf16, which goes as the 16 bits that it is.
NUMPY: dict[str, np.dtype[Any]] = {
    "BOOL": np.dtype("?"),
    "U8": np.dtype("u1"),
    "I8": np.dtype("i1"),
    "BF16": np.dtype("<u2"),
}
NUMPY |= {"U32": np.dtype("<u4"), "I32": np.dtype("<i4"), "I64": np.dtype("<i8")}
NUMPY |= {"F16": np.dtype("<f2"), "F32": np.dtype("<f4")}


@dataclass(frozen=True)
class Entry:
    """One tensor of a file: dtype as safetensors spells it, shape slowest dimension first."""

    name: str
    dtype: str
    shape: tuple[int, ...]

    @property
    def size_bytes(self) -> int:
        return math.prod(self.shape) * _BITS[self.dtype] // 8


@dataclass(frozen=True)
class Piece:
    """Some of a tensor's rows, from `row` on: shape (rows, the rest of the tensor's shape)."""

    name: str
    row: int
    array: NDArray[np.generic]


def read_metadata(path: Path) -> dict[str, str]:
    """What the writer says of the file: {"format": "mlx"} or "pt". Raises ModelError where the header is none."""
    metadata = _read_header(path)[0].get("__metadata__")
    return (
        {key: value for key, value in metadata.items() if isinstance(value, str)} if isinstance(metadata, dict) else {}
    )


def read_entries(path: Path) -> dict[str, Entry]:
    """The tensors of `path`, by name. Reads the header only, and proves that the data is as long as it says.

    Raises ModelError: missing, cut short, a header that is no JSON, an unknown dtype, offsets with gaps or overlaps,
    a tensor whose shape does not fit its bytes, data left over.
    """
    header, data_bytes = _read_header(path)
    header.pop("__metadata__", None)
    placed = sorted((_entry(path, name, value) for name, value in header.items()), key=lambda place: place[1:])
    end = 0
    for entry, start, stop in placed:
        if start != end or stop - start != entry.size_bytes:
            raise _damaged(path, f"tensor {entry.name[:60]!r} does not fit its place in the data")
        end = stop
    if end != data_bytes:
        fault = "cut short" if end > data_bytes else "too long"
        raise _damaged(path, f"{fault}, its header wants {end} bytes of data and {data_bytes} are there")
    return {entry.name: entry for entry, _, _ in placed}


def write_entries(path: Path, entries: Sequence[Entry], pieces: Iterable[Piece]) -> None:
    """Writes a file whose header is `entries` and whose data come in `pieces`, in any order, together all of it.

    Durable when it returns. Raises OSError when the disk does, ValueError if the pieces are not what was announced.
    """
    announced = {entry.name: entry for entry in entries}
    missing_bytes = {entry.name: entry.size_bytes for entry in entries}
    header, starts = _header(entries)
    with path.open("wb") as file:
        file.write(header)
        for piece in pieces:
            file.seek(starts[piece.name] + _offset(announced[piece.name], piece))
            file.write(np.ascontiguousarray(piece.array).data)
            missing_bytes[piece.name] -= piece.array.nbytes
        if any(missing_bytes.values()):
            raise ValueError(f"not the bytes announced, by tensor: {missing_bytes}")
        file.flush()
        os.fsync(file.fileno())


def write_tensors(path: Path, tensors: Mapping[str, mx.array], form: str = "mlx") -> None:
    """Writes arrays of MLX durably. form: the "format" of their metadata, which readers ask for.

    Raises OSError, also for a disk that is full: MLX, when it opens the file itself, has errors of its own for that.
    """
    import mlx.core as mx

    with path.open("wb") as file:
        mx.save_safetensors(file, dict(tensors), {"format": form})
        file.flush()
        os.fsync(file.fileno())


def _offset(entry: Entry, piece: Piece) -> int:
    """Where a piece begins in its tensor, in bytes. Raises ValueError if it is not what was announced."""
    array = piece.array
    if array.shape[1:] != entry.shape[1:] or array.dtype != NUMPY[entry.dtype]:
        raise ValueError(f"{entry} announced, but {array.dtype} {array.shape} came")
    row_bytes = entry.size_bytes // entry.shape[0] if entry.shape and entry.shape[0] else 0
    return piece.row * row_bytes


def _header(entries: Sequence[Entry]) -> tuple[bytes, dict[str, int]]:
    """The bytes of the header, and where in the file the data of each tensor start."""
    fields: dict[str, object] = {"__metadata__": {"format": "mlx"}}
    end, starts = 0, dict[str, int]()
    for entry in entries:
        starts[entry.name], end = end, end + entry.size_bytes
        place = [starts[entry.name], end]
        fields[entry.name] = {"dtype": entry.dtype, "shape": list(entry.shape), "data_offsets": place}
    text = json.dumps(fields, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)  # the data starts aligned, as the reference writer has it
    header = len(text).to_bytes(8, "little") + text
    return header, {name: start + len(header) for name, start in starts.items()}


def _read_header(path: Path) -> tuple[dict[str, object], int]:
    """The header, and how many bytes of data follow it."""
    try:
        if not path.is_file():
            raise ModelError(f"{path}: no such file; the model folder is incomplete, download it again")
        with path.open("rb") as file:
            size_bytes = os.fstat(file.fileno()).st_size
            length = int.from_bytes(file.read(8), "little")
            if size_bytes < 8 or length > min(size_bytes - 8, LARGEST_HEADER_BYTES):
                raise _damaged(path, f"cut short or no safetensors file, {size_bytes} bytes")
            header = json.loads(file.read(length), object_pairs_hook=_without_twins)
    except OSError as error:
        raise ModelError(f"{path}: cannot be read ({error.strerror}); check its permissions") from error
    except (ValueError, RecursionError) as error:
        raise _damaged(path, "its header is not valid JSON") from error
    if not isinstance(header, dict):
        raise _damaged(path, "its header is not a JSON object")
    return header, size_bytes - 8 - length


def _without_twins(pairs: list[tuple[str, object]]) -> dict[str, object]:
    if len(dict(pairs)) != len(pairs):
        raise ValueError("a key appears twice")
    return dict(pairs)


def _entry(path: Path, name: str, value: object) -> tuple[Entry, int, int]:
    fields = value if isinstance(value, dict) else {}
    dtype, shape, offsets = fields.get("dtype"), fields.get("shape"), fields.get("data_offsets")
    shown = f"tensor {name[:60]!r}"
    if not isinstance(dtype, str) or dtype not in _BITS:
        raise _damaged(path, f"{shown} has an unknown type {str(dtype)[:20]!r}")
    if not _is_counts(shape) or not _is_counts(offsets) or len(offsets) != 2:
        raise _damaged(path, f"{shown} has a nonsense shape or place")
    return Entry(name, dtype, tuple(shape)), offsets[0], offsets[1]


def _is_counts(value: object) -> TypeGuard[list[int]]:
    if not isinstance(value, list) or len(value) > _MAX_DIMENSIONS:
        return False
    return all(type(item) is int and 0 <= item < _LARGEST_COUNT for item in value)


def _damaged(path: Path, what: str) -> ModelError:
    return ModelError(f"{path}: {what}; the file is damaged, download it again")
