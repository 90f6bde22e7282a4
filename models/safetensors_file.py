"""The safetensors format: headers read by the safetensors library, files written in one pass.

    u64 length of the header | header: JSON, name -> {"dtype", "shape", "data_offsets"} | data, end to end

A file is judged by its header before MLX maps it: the library refuses gaps, overlaps, and data that are shorter or
longer than the header says. The writer is our own, so that the importer needs neither MLX nor the whole model in
memory; `write_tensors` writes arrays of MLX by MLX itself. Format: huggingface/safetensors, README "Format".
"""

from __future__ import annotations

import json
import math
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray
from safetensors import SafetensorError, safe_open

from engine.errors import ModelError

if TYPE_CHECKING:
    import mlx.core as mx

# The reference implementation takes 100 MB, which a hostile header can blow up to gigabytes; real ones have a few MB.
LARGEST_HEADER_BYTES = 1 << 25

_BITS = {"F4": 4, "F6_E2M3": 6, "F6_E3M2": 6, "I16": 16, "U16": 16, "F16": 16, "BF16": 16}
_BITS |= dict.fromkeys(("BOOL", "U8", "I8", "F8_E5M2", "F8_E4M3", "F8_E8M0", "F8_E4M3FNUZ", "F8_E5M2FNUZ"), 8)
_BITS |= {"I32": 32, "U32": 32, "F32": 32, "I64": 64, "U64": 64, "F64": 64, "C64": 64}

# What numpy makes of the types that are written; it has no bf16, which goes as the 16 bits that it is.
_CODES = {"BOOL": "?", "U8": "u1", "I8": "i1", "BF16": "<u2", "U32": "<u4", "I32": "<i4", "I64": "<i8"}
_CODES |= {"F16": "<f2", "F32": "<f4"}
NUMPY: dict[str, np.dtype[Any]] = {name: np.dtype(code) for name, code in _CODES.items()}


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
    """Consecutive rows of a tensor, from `row` on: shape (rows, the rest of the tensor's shape)."""

    name: str
    row: int
    array: NDArray[np.generic]


def read_metadata(path: Path) -> dict[str, str]:
    """Returns what the writer says of the file: {"format": "mlx"} or "pt". Raises ModelError as `read_entries` does."""
    with _opened(path) as file:
        return dict(file.metadata() or {})


def read_entries(path: Path) -> dict[str, Entry]:
    """Returns the tensors of `path` by name. Reads the header only.

    Raises ModelError: missing, cut short, a header that is no JSON, an unknown type, offsets with gaps or overlaps, a
    tensor whose shape does not fit its bytes, data left over.
    """
    with _opened(path) as file:
        tensors = {name: file.get_slice(name) for name in file.keys()}  # noqa: SIM118 - it is no mapping
        return {name: Entry(name, one.get_dtype(), tuple(one.get_shape())) for name, one in tensors.items()}


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


def write_tensors(
    path: Path, tensors: Mapping[str, mx.array], form: str = "mlx", about: Mapping[str, str] | None = None
) -> None:
    """Writes arrays of MLX durably. form: the "format" of their metadata, which readers ask for. about: the rest of it.

    Raises OSError, also for a disk that is full: MLX, when it opens the file itself, has errors of its own for that.
    """
    import mlx.core as mx

    with path.open("wb") as file:
        mx.save_safetensors(file, dict(tensors), {"format": form, **(about or {})})
        file.flush()
        os.fsync(file.fileno())


def _offset(entry: Entry, piece: Piece) -> int:
    """Returns where a piece begins in its tensor, in bytes. Raises ValueError if it is not what was announced."""
    array = piece.array
    if array.shape[1:] != entry.shape[1:] or array.dtype != NUMPY[entry.dtype]:
        raise ValueError(f"{entry} announced, but {array.dtype} {array.shape} came")
    row_bytes = entry.size_bytes // entry.shape[0] if entry.shape and entry.shape[0] else 0
    return piece.row * row_bytes


def _header(entries: Sequence[Entry]) -> tuple[bytes, dict[str, int]]:
    """Returns the bytes of the header, and where in the file the data of each tensor start."""
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


@contextmanager
def _opened(path: Path) -> Iterator[Any]:
    """Opens a file with the safetensors library, which checks its header. Raises ModelError."""
    try:
        if not path.is_file():
            raise ModelError(f"{path}: no such file; the model folder is incomplete, download it again")
        with path.open("rb") as file:
            length = int.from_bytes(file.read(8), "little")
        if length > LARGEST_HEADER_BYTES:
            raise _damaged(path, f"its header would have {length} bytes")
        with safe_open(path, "np") as opened:
            yield opened
    except OSError as error:
        raise ModelError(f"{path}: cannot be read ({error.strerror or error}); check its permissions") from error
    except SafetensorError as error:
        raise _damaged(path, str(error).removeprefix("Error while deserializing header: ")[:120]) from error


def _damaged(path: Path, reason: str) -> ModelError:
    return ModelError(f"{path}: cut short or not a safetensors file ({' '.join(reason.split())}); download it again")
