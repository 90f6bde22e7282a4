"""The safetensors format, read with suspicion and written in one pass.

    u64 length of the header | header: JSON, name -> {"dtype", "shape", "data_offsets"} | data, end to end

Our own so that a file is judged before MLX maps it, and so that the importer needs neither MLX nor the whole model
in memory. Format: huggingface/safetensors, README "Format".
"""

import json
import math
import os
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TypeGuard

import numpy as np
from numpy.typing import NDArray

from engine.errors import ModelError

LARGEST_HEADER_BYTES = 100_000_000  # the limit of the reference implementation

_BITS = {"BOOL": 8, "U8": 8, "I8": 8, "F8_E5M2": 8, "F8_E4M3": 8, "F8_E8M0": 8, "I16": 16, "U16": 16, "F16": 16}
_BITS |= {"BF16": 16, "I32": 32, "U32": 32, "F32": 32, "I64": 64, "U64": 64, "F64": 64, "C64": 64}
_BITS |= {"F4": 4, "F6_E2M3": 6, "F6_E3M2": 6}
_NUMPY = {"U32": np.dtype("<u4"), "F16": np.dtype("<f2"), "F32": np.dtype("<f4")}


@dataclass(frozen=True)
class Entry:
    """One tensor of a file: dtype as safetensors spells it, shape slowest dimension first."""

    name: str
    dtype: str
    shape: tuple[int, ...]

    @property
    def size_bytes(self) -> int:
        return math.prod(self.shape) * _BITS[self.dtype] // 8


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


def write_entries(path: Path, entries: Sequence[Entry], arrays: Iterable[NDArray[np.generic]]) -> None:
    """Write a file whose header is `entries` and whose data is `arrays`, taken one at a time in the same order.

    Durable when it returns. Raises OSError when the disk does, ValueError if an array is not what its entry says.
    """
    with path.open("wb") as file:
        file.write(_header(entries))
        for entry, array in zip(entries, arrays, strict=True):
            if array.shape != entry.shape or array.dtype != _NUMPY[entry.dtype]:
                raise ValueError(f"{entry} announced, but {array.dtype} {array.shape} came")
            file.write(np.ascontiguousarray(array).data)
        file.flush()
        os.fsync(file.fileno())


def _header(entries: Sequence[Entry]) -> bytes:
    fields: dict[str, object] = {"__metadata__": {"format": "mlx"}}
    end = 0
    for entry in entries:
        start, end = end, end + entry.size_bytes
        fields[entry.name] = {"dtype": entry.dtype, "shape": list(entry.shape), "data_offsets": [start, end]}
    text = json.dumps(fields, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)  # the data starts aligned, as the reference writer has it
    return len(text).to_bytes(8, "little") + text


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
    return isinstance(value, list) and all(type(item) is int and item >= 0 for item in value)


def _damaged(path: Path, what: str) -> ModelError:
    return ModelError(f"{path}: {what}; the file is damaged, download it again")
