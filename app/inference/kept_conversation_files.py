"""What target and drafter remember of a conversation, in a file: after a restart its next reply need not read it again.

    <folder>/<conversation>.cache   an SQLite database
        block     the bytes of a part of an array, under their digest
        content   one row of JSON: what wrote it, the tokens, and for every array the digests of its blocks

Keys and values have a block for BLOCK_ROWS tokens, other arrays one. Only blocks that the file lacks are written, in
the place of those that nothing needs any more. SQLite's transactions see to it that a kill loses one time of writing
at most.

A file is used only by what wrote it: the same weights, the same kinds of cache, the same versions of Redline, MLX and
mlx-lm. One that is damaged or was made by anything else is emptied and ignored. `app.reply_history` makes an empty file
for each conversation, which only the user can read, and deletes it with the conversation: where there is no file,
nothing is written. `app.host.model_worker` decides when they are written.
"""

import hashlib
import json
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import mlx.core as mx
import numpy as np

from app.inference.loaded_pair import LoadedPair
from app.reply_history import ASIDE
from engine.cache.model_cache import filled_rows
from engine.cache.snapshot import Snapshot
from engine.errors import ModelError
from engine.kept_conversations import KeptConversation
from models.durable_files import free_disk_bytes, keep_newest
from models.package_versions import version_of

SUFFIX = ".cache"
BLOCK_ROWS = 64
MOST_BYTES = 4 << 30  # of all files of a folder
FORMAT = 7  # raise it whenever what is kept changes
_TABLES = """
    PRAGMA page_size = 16384;
    BEGIN;
    CREATE TABLE IF NOT EXISTS block (digest TEXT PRIMARY KEY, data BLOB NOT NULL);
    CREATE TABLE IF NOT EXISTS content (digest TEXT NOT NULL, json TEXT NOT NULL);
"""
_TYPES = {str(one): one for one in (mx.float32, mx.float16, mx.bfloat16, mx.uint32, mx.int32, mx.uint8)}

_Arrays = list[tuple[mx.array, bool]]  # of a conversation, and whether one has a row (of the last axis but one) a token


def save(path: Path, pair: LoadedPair, kept: KeptConversation, pause: Callable[[], None]) -> int:
    """Writes to the file `path`, if there is one, what it lacks of a conversation of `pair`, and deletes the files of
    its folder that were written longest ago until all take at most MOST_BYTES. Returns how many bytes were written.

    pause: called between arrays; may raise to break off. Whatever happens, the file can be read as it was or as it is
    to be. Raises OSError or sqlite3.Error, and TypeError for a cache that holds what no file can.
    """
    arrays: _Arrays = []
    content: dict[str, Any] = {"of": _made_by(pair), "tokens": kept.tokens, "next_question": kept.next_question}
    content["target"] = _encoded(kept.target, arrays)
    if pair.drafter.monitored is not None and kept.drafter == pair.drafter.monitored.snapshot_key:
        content |= {"drafted": _encoded(kept.drafted, arrays), "drafter": pair.drafter.identity}
    most_bytes = min(MOST_BYTES, free_disk_bytes(path.parent) // 2)
    if not (path.exists() and pair.digest and kept.nbytes <= most_bytes):
        return 0
    with _opened(path) as file, file:
        written = _write(file, content, arrays, pause)
    # Those of deleted conversations count too, but not the journals of SQLite.
    files = [*path.parent.glob(f"*{SUFFIX}"), *path.parent.glob(f"*{SUFFIX}{ASIDE}")]
    keep_newest(files, most_bytes=MOST_BYTES)
    return written


def load(path: Path, pair: LoadedPair, pause: Callable[[], None] = lambda: None) -> KeptConversation | None:
    """Returns the conversation in a file, None where there is none that `pair` can use; such a file is emptied, unless
    there is only too little memory for it now. pause: called between arrays; may raise StoppedError to break off."""
    try:
        return _read(path, pair, pause) if 0 < path.stat().st_size <= pair.session.kept.limit_bytes else None
    except FileNotFoundError:
        return None
    except (ModelError, OSError, sqlite3.Error, LookupError, ValueError, TypeError, RuntimeError, RecursionError):
        with suppress(OSError):
            path.write_bytes(b"")
        return None


def _read(path: Path, pair: LoadedPair, pause: Callable[[], None]) -> KeptConversation:
    """Raises ValueError for a file made by anything else, and various errors for a damaged one."""
    with _opened(path) as file:
        ((digest, text),) = file.execute("SELECT digest, json FROM content")
        content = json.loads(_checked(text.encode(), digest))
        if content["of"] != _made_by(pair) or not pair.digest:
            raise ValueError("made by something else")
        arrays = [_read_array(file, described, pause) for described in content["arrays"]]
    tokens, target = tuple(content["tokens"]), _decoded(content["target"], arrays)
    kept = KeptConversation(tokens, target, next_question=content["next_question"])
    if content.get("drafter") != pair.drafter.identity or pair.drafter.monitored is None:
        return replace(kept, target={**target, "recorded": None})  # states that no drafter here reads
    return replace(kept, drafter=pair.drafter.monitored.snapshot_key, drafted=_decoded(content["drafted"], arrays))


def _made_by(pair: LoadedPair) -> dict[str, object]:
    model = pair.target.model
    return {
        "format": FORMAT,
        "versions": [version_of("redline"), version_of("mlx"), version_of("mlx-lm")],
        "weights": pair.digest,
        "kv_bits": model.kv_bits,
        "layers": list(model.cache.layer_types),
    }


# --- the file --------------------------------------------------------------------------------------


@contextmanager
def _opened(path: Path) -> Iterator[sqlite3.Connection]:
    """Opens a file that is there, and closes it. Raises sqlite3.Error."""
    with closing(sqlite3.connect(f"{path.absolute().as_uri()}?mode=rw", uri=True)) as file:
        file.executescript(_TABLES)
        yield file


def _write(file: sqlite3.Connection, content: dict[str, Any], arrays: _Arrays, pause: Callable[[], None]) -> int:
    """Writes the content and the blocks that the file lacks, and deletes those that nothing needs any more. Returns how
    many bytes were written."""
    known = {digest for (digest,) in file.execute("SELECT digest FROM block")}
    used, described, written = set[str](), list[dict[str, Any]](), 0
    for array, by_token in arrays:
        pause()
        rows, needed = mx.moveaxis(array, -2, 0) if by_token else array, []
        for block in _blocks(rows, by_token):
            needed.append(digest := _digest(block))
            if digest not in known:
                known.add(digest)
                written += len(block)
                file.execute("INSERT INTO block VALUES (?, ?)", (digest, block))
        used.update(needed)
        described.append({"dtype": str(array.dtype), "shape": rows.shape, "by_token": by_token, "blocks": needed})
    file.executemany("DELETE FROM block WHERE digest = ?", [(digest,) for digest in known - used])
    text = json.dumps({**content, "arrays": described})
    file.execute("DELETE FROM content")
    file.execute("INSERT INTO content VALUES (?, ?)", (_digest(text.encode()), text))
    return written + len(text)


def _read_array(file: sqlite3.Connection, described: dict[str, Any], pause: Callable[[], None]) -> mx.array:
    """Returns an array that `_write` described. Raises ValueError for a damaged one."""
    pause()
    select = "SELECT data FROM block WHERE digest = ?"
    parts = [_checked(file.execute(select, (digest,)).fetchone()[0], digest) for digest in described["blocks"]]
    data = mx.array(np.frombuffer(b"".join(parts), np.uint8))
    array = mx.view(data, _TYPES[described["dtype"]]).reshape(described["shape"])
    return mx.moveaxis(array, 0, -2) if described["by_token"] else array


def _checked(data: bytes, digest: str) -> bytes:
    """Returns the bytes that were stored under a digest. Raises ValueError for others."""
    if _digest(data) != digest:
        raise ValueError("damaged")
    return data


# --- arrays, and the values that hold them ---------------------------------------------------------


def _blocks(array: mx.array, by_token: bool) -> list[memoryview]:
    """Returns the bytes of an array, evaluated: in blocks of BLOCK_ROWS if its first axis is `by_token`, else whole."""
    data = memoryview(mx.view(mx.contiguous(array).reshape(-1), mx.uint8))  # type: ignore[arg-type]
    block_bytes = BLOCK_ROWS * len(data) // array.shape[0] if by_token and len(data) else max(1, len(data))
    return [data[start : start + block_bytes] for start in range(0, len(data), block_bytes)]


def _digest(data: Any) -> str:
    return hashlib.blake2b(data, digest_size=16).hexdigest()


def _encoded(value: Snapshot, arrays: _Arrays, by_token: bool = False) -> Any:
    """Returns a snapshot as JSON knows it; its arrays are added to `arrays`. Raises TypeError for anything else."""
    if isinstance(value, mx.array):
        if str(value.dtype) not in _TYPES:
            raise TypeError(f"an array of {value.dtype} cannot be written")
        arrays.append((value, by_token))
        return {"array": len(arrays) - 1}
    if isinstance(value, dict):
        held = filled_rows(value)
        by_token = by_token or held is not None
        return {"dict": {name: _encoded(one, arrays, by_token) for name, one in (held or value).items()}}
    if isinstance(value, list | tuple):
        return {type(value).__name__: [_encoded(one, arrays, by_token) for one in value]}
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
