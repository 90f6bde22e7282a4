"""What target and drafter remember of a conversation, in a file: after a restart its next reply need not read it again.

    <folder>/<conversation>.safetensors     the arrays of a `KeptConversation`; "structure": all else and the CRC-32 of
                                            each array, as JSON; "sum": the CRC-32 of "structure"

A file is used only by what wrote it: the same weights, the same kinds of cache, the same versions of Redline, MLX and
mlx-lm. One that is damaged or was made by anything else is emptied and ignored. `app.reply_history` makes an empty file
for each conversation, which only the user can read, and deletes it with the conversation: where there is no file,
nothing is written. `app.host.model_worker` decides when they are written.
"""

from __future__ import annotations

import json
import zlib
from collections.abc import Callable, Iterator
from contextlib import suppress
from importlib.metadata import version
from pathlib import Path
from typing import Any

import mlx.core as mx
import numpy as np
from numpy.typing import NDArray

from app.inference import digests
from app.inference.loaded_pair import LoadedPair
from engine.cache.snapshot import Snapshot
from engine.errors import ModelError
from engine.kept_conversations import KeptConversation
from models.durable_files import free_disk_bytes, replace_with
from models.safetensors_file import Entry, Piece, read_entries, write_entries

MOST_BYTES = 4 << 30  # of all files of a folder
FORMAT = 3  # raise it whenever what is kept changes
_STRUCTURE, _SUM = "structure", "sum"
_TYPES = {mx.float32: "F32", mx.float16: "F16", mx.bfloat16: "BF16", mx.uint32: "U32", mx.int32: "I32", mx.uint8: "U8"}


def save(path: Path, pair: LoadedPair, kept: KeptConversation, pause: Callable[[], None]) -> None:
    """Writes a conversation of `pair` in place of the file `path`, if there is one, and deletes the files of its folder
    that were written longest ago until all take at most MOST_BYTES.

    pause: called between arrays; may raise to break off. Whatever happens, the file is whole or as it was. Raises
    OSError, and TypeError for a cache that holds what no file can.
    """
    arrays: list[mx.array] = []
    content = {"tokens": list(kept.tokens), "target": _encoded(kept.target, arrays), "of": _made_by(pair)}
    if kept.drafter is pair.monitored and kept.drafter is not None:
        content |= {"drafted": _encoded(kept.drafted, arrays), "drafter": _drafter_of(pair)}
    entries = [Entry(str(place), _TYPES[array.dtype], tuple(array.shape)) for place, array in enumerate(arrays)]
    room = len(json.dumps({**content, "sums": [0xFFFFFFFF] * len(arrays)}).encode())

    def pieces() -> Iterator[Piece]:
        sums = []
        for place, array in enumerate(arrays):
            pause()
            data = _bytes(array)
            sums.append(zlib.crc32(data.data))
            yield Piece(str(place), 0, data.view(_numpy_type(array)).reshape(array.shape))
        text = json.dumps({**content, "sums": sums}).encode().ljust(room)
        yield Piece(_STRUCTURE, 0, np.frombuffer(text, np.uint8))
        yield Piece(_SUM, 0, np.array([zlib.crc32(text)], np.uint32))

    entries += [Entry(_STRUCTURE, "U8", (room,)), Entry(_SUM, "U32", (1,))]
    if path.exists() and pair.digest and kept.nbytes <= min(MOST_BYTES, free_disk_bytes(path.parent) // 2):
        replace_with(path, lambda draft: write_entries(draft, entries, pieces()), private=True)
        _shrink(path.parent)


def load(path: Path, pair: LoadedPair, pause: Callable[[], None] = lambda: None) -> KeptConversation | None:
    """Returns the conversation in a file, None where there is none that `pair` can use; such a file is emptied, unless
    there is only too little memory for it now. pause: called between arrays; may raise StoppedError to break off."""
    try:
        return _read(path, pair, pause) if 0 < path.stat().st_size <= pair.session.kept.limit_bytes else None
    except FileNotFoundError:
        return None
    except (ModelError, OSError, ValueError, KeyError, TypeError, IndexError, RuntimeError, RecursionError):
        with suppress(OSError):
            path.write_bytes(b"")
        return None


def _read(path: Path, pair: LoadedPair, pause: Callable[[], None]) -> KeptConversation:
    """Raises ValueError for a file made by anything else, and various errors for a damaged one."""
    entries = read_entries(path)
    if entries[_STRUCTURE].dtype != "U8" or entries[_SUM] != Entry(_SUM, "U32", (1,)):
        raise ValueError("not a file of this kind")
    loaded = mx.load(str(path))
    assert isinstance(loaded, dict)
    text, total = bytes(_bytes(loaded.pop(_STRUCTURE))), loaded.pop(_SUM)
    if zlib.crc32(text) != total.item():
        raise ValueError("damaged")
    content = json.loads(text)
    if content["of"] != _made_by(pair) or not pair.digest:
        raise ValueError("made by something else")
    arrays = [loaded[str(place)] for place in range(len(loaded))]
    for expected, array in zip(content["sums"], arrays, strict=True):
        pause()
        if zlib.crc32(_bytes(array).data) != expected:
            raise ValueError("damaged")
    target = _decoded(content["target"], arrays)
    if content.get("drafter") != _drafter_of(pair) or pair.monitored is None:
        return KeptConversation(tuple(content["tokens"]), target)
    drafted = _decoded(content["drafted"], arrays)
    return KeptConversation(tuple(content["tokens"]), target, None, pair.monitored, drafted)


def _made_by(pair: LoadedPair) -> dict[str, object]:
    model = pair.target.model
    return {
        "format": FORMAT,
        "versions": [version("redline"), version("mlx"), version("mlx-lm")],
        "weights": pair.digest,
        "kv_bits": model.kv_bits,
        "layers": list(model.cache.layer_types),
    }


def _drafter_of(pair: LoadedPair) -> list[list[str]]:
    """Returns what tells the drafter of a pair from others: of each part its name and the digest of its files."""
    return [
        [
            part.spec,
            "" if part.folder is None else digests.of_files(part.folder, list(part.folder.glob("*.safetensors"))),
        ]
        for part in pair.drafter.parts
    ]


def _shrink(folder: Path) -> None:
    """Deletes the files that were written longest ago, all but the newest, while they take too much."""
    files = sorted(folder.glob("*.safetensors"), key=lambda file: file.stat().st_mtime_ns)
    left = sum(file.stat().st_size for file in files)
    for file in files[:-1]:
        if left <= MOST_BYTES:
            return
        left -= file.stat().st_size
        file.unlink()


# --- arrays, and the values that hold them ---------------------------------------------------------


def _numpy_type(array: mx.array) -> str:
    """Returns numpy's type for the bytes of an array; it has no bfloat16, which goes as the 16 bits that it is."""
    return "<u2" if array.dtype == mx.bfloat16 else str(array.dtype).rpartition(".")[2]


def _bytes(array: mx.array) -> NDArray[np.uint8]:
    """Returns the bytes of an array, evaluated."""
    return np.asarray(mx.view(mx.contiguous(array).reshape(-1), mx.uint8))


def _encoded(value: Snapshot, arrays: list[mx.array]) -> Any:
    """Returns a snapshot as JSON knows it; its arrays are appended to `arrays`. Raises TypeError for anything else."""
    if isinstance(value, mx.array):
        if value.dtype not in _TYPES:
            raise TypeError(f"an array of {value.dtype} cannot be written")
        arrays.append(value)
        return {"array": len(arrays) - 1}
    if isinstance(value, dict):
        return {"dict": {name: _encoded(one, arrays) for name, one in value.items()}}
    if isinstance(value, list | tuple):
        return {type(value).__name__: [_encoded(one, arrays) for one in value]}
    if value is None or isinstance(value, bool | int | float | str):
        return value
    raise TypeError(f"{type(value).__name__} cannot be written")


def _decoded(value: Any, arrays: list[mx.array]) -> Snapshot:
    """Returns what `_encoded` was given. Raises ValueError for what it would not have returned."""
    if not isinstance(value, dict):
        return value
    (kind, inner), *_ = value.items()
    if kind == "array":
        return arrays[inner]
    if kind == "dict":
        return {name: _decoded(one, arrays) for name, one in inner.items()}
    if kind not in ("list", "tuple"):
        raise ValueError(f"{kind} is no kind of value")
    values = [_decoded(one, arrays) for one in inner]
    return values if kind == "list" else tuple(values)
