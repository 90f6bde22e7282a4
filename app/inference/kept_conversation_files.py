"""What target and drafter remember of a conversation, in a file: after a restart its next reply need not read it again.

    <folder>/<conversation>.cache   for each time that it was written
        magic, bytes of blocks, bytes of JSON, CRC-32 of JSON | blocks of arrays, end to end | JSON

The JSON says for every array where its blocks are, also those of earlier times: a block that the file has is not
written again. Keys and values have a block for BLOCK_ROWS tokens, other arrays one. The first part is written last, so
a kill loses one time at most. A file that is mostly out of date is written anew.

A file is used only by what wrote it: the same weights, the same kinds of cache, the same versions of Redline, MLX and
mlx-lm. One that is damaged or was made by anything else is emptied and ignored. `app.reply_history` makes an empty file
for each conversation, which only the user can read, and deletes it with the conversation: where there is no file,
nothing is written. `app.host.model_worker` decides when they are written.
"""

from __future__ import annotations

import hashlib
import json
import os
import struct
import zlib
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field, replace
from importlib.metadata import version
from pathlib import Path
from typing import Any, BinaryIO

import mlx.core as mx
import numpy as np
from numpy.typing import NDArray

from app.inference import digests
from app.inference.loaded_pair import LoadedPair
from engine.cache.model_cache import filled_rows
from engine.cache.snapshot import Snapshot
from engine.errors import ModelError
from engine.kept_conversations import KeptConversation
from models.durable_files import free_disk_bytes, replace_with

SUFFIX = ".cache"
BLOCK_ROWS = 64
MOST_BYTES = 4 << 30  # of all files of a folder
FORMAT = 4  # raise it whenever what is kept changes
_HEAD = struct.Struct("<4sQII")
_MAGIC = b"RLC1"
_TYPES = ("float32", "float16", "bfloat16", "uint32", "int32", "uint8")


@dataclass
class _Arrays:
    """The arrays of a conversation. by_token: those with a row (of the last axis but one) for each token."""

    found: list[mx.array] = field(default_factory=list)
    by_token: set[int] = field(default_factory=set)


def save(path: Path, pair: LoadedPair, kept: KeptConversation, pause: Callable[[], None]) -> int:
    """Writes to the file `path`, if there is one, what it lacks of a conversation of `pair`, and deletes the files of
    its folder that were written longest ago until all take at most MOST_BYTES. Returns how many bytes were written.

    pause: called between arrays; may raise to break off. Whatever happens, the file can be read as it was or as it is
    to be. Raises OSError, and TypeError for a cache that holds what no file can.
    """
    arrays = _Arrays()
    content: dict[str, Any] = {"of": _made_by(pair), "tokens": kept.tokens, "next_question": kept.next_question}
    content["target"] = _encoded(kept.target, arrays)
    if pair.monitored is not None and kept.drafter == pair.monitored.snapshot_key:
        content |= {"drafted": _encoded(kept.drafted, arrays), "drafter": _drafter_of(pair)}
    most_bytes = min(MOST_BYTES, free_disk_bytes(path.parent) // 2)
    if not (path.exists() and pair.digest and kept.nbytes <= most_bytes):
        return 0
    with path.open("r+b") as file:
        end, before = _last_content(file)
        if before.get("of") == content["of"] and end <= min(2 * kept.nbytes, MOST_BYTES - kept.nbytes):
            written = _append(file, end, before, content, arrays, pause)
        else:
            written = _write_anew(path, content, arrays, pause)
    _shrink(path.parent)
    return written


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
    with path.open("rb") as file:
        _, content = _last_content(file)
        if content["of"] != _made_by(pair) or not pair.digest:
            raise ValueError("made by something else")
        arrays = [_read_array(file, described, pause) for described in content["arrays"]]
    tokens, target = tuple(content["tokens"]), _decoded(content["target"], arrays)
    kept = KeptConversation(tokens, target, next_question=content["next_question"])
    if content.get("drafter") != _drafter_of(pair) or pair.monitored is None:
        return kept
    return replace(kept, drafter=pair.monitored.snapshot_key, drafted=_decoded(content["drafted"], arrays))


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
    files = sorted(folder.glob(f"*{SUFFIX}"), key=lambda file: file.stat().st_mtime_ns)
    left = sum(file.stat().st_size for file in files)
    for file in files[:-1]:
        if left <= MOST_BYTES:
            return
        left -= file.stat().st_size
        file.unlink()


# --- the file --------------------------------------------------------------------------------------


def _last_content(file: BinaryIO) -> tuple[int, dict[str, Any]]:
    """Returns the JSON that was written last, and where it ends; 0 and {} where there is none that is whole."""
    size, end, found = os.fstat(file.fileno()).st_size, 0, b"{}"
    while end + _HEAD.size <= size:
        file.seek(end)
        magic, blocks_bytes, text_bytes, crc = _HEAD.unpack(file.read(_HEAD.size))
        after = end + _HEAD.size + blocks_bytes + text_bytes
        if magic != _MAGIC or after > size:
            break
        file.seek(after - text_bytes)
        text = file.read(text_bytes)
        if zlib.crc32(text) != crc:
            break
        end, found = after, text
    return end, json.loads(found)


def _append(
    file: BinaryIO,
    end: int,
    before: dict[str, Any],
    content: dict[str, Any],
    arrays: _Arrays,
    pause: Callable[[], None],
) -> int:
    """Writes behind `end` what the file lacks, whose content there is `before`. Returns how many bytes were written."""
    known = {digest: offset for array in before.get("arrays", ()) for offset, digest, _ in array["blocks"]}
    try:
        file.truncate(end)
        file.seek(end)
        file.write(bytes(_HEAD.size))
        described = [
            _write_array(file, array, place in arrays.by_token, known, pause)
            for place, array in enumerate(arrays.found)
        ]
        blocks_bytes = file.tell() - end - _HEAD.size
        text = json.dumps({**content, "arrays": described}).encode()
        file.write(text)
        written = file.tell() - end
        _sync(file)
        file.seek(end)
        file.write(_HEAD.pack(_MAGIC, blocks_bytes, len(text), zlib.crc32(text)))
        _sync(file)
    except BaseException:
        file.truncate(end)
        raise
    return written


def _write_anew(path: Path, content: dict[str, Any], arrays: _Arrays, pause: Callable[[], None]) -> int:
    def write(draft: Path) -> None:
        with draft.open("wb") as file:
            _append(file, 0, {}, content, arrays, pause)

    replace_with(path, write, private=True)
    return path.stat().st_size


def _sync(file: BinaryIO) -> None:
    file.flush()
    os.fsync(file.fileno())


def _write_array(
    file: BinaryIO, array: mx.array, by_token: bool, known: dict[str, int], pause: Callable[[], None]
) -> dict[str, Any]:
    """Writes the blocks of an array that are not `known` by their digests, with their places, and adds them there.
    Returns what `_read_array` needs."""
    pause()
    name, array = _type_name(array), mx.moveaxis(array, -2, 0) if by_token else array
    data, blocks = _bytes(array), []
    block_bytes = BLOCK_ROWS * data.size // array.shape[0] if by_token and data.size else max(1, data.size)
    for start in range(0, data.size, block_bytes):
        block = data[start : start + block_bytes].data
        digest = _digest(block)
        if digest not in known:
            known[digest] = file.tell()
            file.write(block)
        blocks.append((known[digest], digest, block.nbytes))
    return {"dtype": name, "shape": array.shape, "by_token": by_token, "blocks": blocks}


def _read_array(file: BinaryIO, described: dict[str, Any], pause: Callable[[], None]) -> mx.array:
    """Returns an array that `_write_array` described. Raises ValueError for a damaged one."""
    pause()
    parts = []
    for offset, digest, nbytes in described["blocks"]:
        file.seek(offset)
        parts.append(file.read(nbytes))
        if _digest(parts[-1]) != digest:
            raise ValueError("damaged")
    data = np.frombuffer(b"".join(parts), _numpy_type(described["dtype"])).reshape(described["shape"])
    array = mx.array(data)
    array = mx.view(array, mx.bfloat16) if described["dtype"] == "bfloat16" else array
    return mx.moveaxis(array, 0, -2) if described["by_token"] else array


# --- arrays, and the values that hold them ---------------------------------------------------------


def _type_name(array: mx.array) -> str:
    return str(array.dtype).rpartition(".")[2]


def _numpy_type(name: str) -> str:
    """Returns numpy's type for the bytes of an array; it has no bfloat16, which goes as the 16 bits that it is."""
    return "<u2" if name == "bfloat16" else name


def _bytes(array: mx.array) -> NDArray[np.uint8]:
    """Returns the bytes of an array, evaluated."""
    return np.asarray(mx.view(mx.contiguous(array).reshape(-1), mx.uint8))


def _digest(data: Any) -> str:
    return hashlib.blake2b(data, digest_size=16).hexdigest()


def _encoded(value: Snapshot, arrays: _Arrays) -> Any:
    """Returns a snapshot as JSON knows it; its arrays are added to `arrays`. Raises TypeError for anything else."""
    if isinstance(value, mx.array):
        if _type_name(value) not in _TYPES:
            raise TypeError(f"an array of {value.dtype} cannot be written")
        arrays.found.append(value)
        return {"array": len(arrays.found) - 1}
    if isinstance(value, dict):
        first, held = len(arrays.found), filled_rows(value)
        encoded = {"dict": {name: _encoded(one, arrays) for name, one in (held or value).items()}}
        if held is not None:
            arrays.by_token.update(range(first, len(arrays.found)))
        return encoded
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
