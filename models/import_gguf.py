"""A GGUF file becomes an ordinary MLX model folder, once, and all at once.

Invariants:
1. The folder appears by a rename, after everything in it is on the disk. Whoever sees it sees all of it.
2. Unfinished work lies beside it under a name with a leading dot, its config.json written last.
3. One process works at a time (a lock file beside the folder); a killed one leaves the lock free and its
   unfinished work to be swept by the next.
4. The manifest names the source and every file's size; a folder that does not match it is made anew. A folder
   without a manifest is not ours and is never touched.
"""

import hashlib
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from filelock import FileLock, Timeout

from engine.errors import ModelError
from models.disk import read_json_object, replace_json, sync_folder, write_file, write_json
from models.gguf import GgufFile, read_gguf
from models.gguf_llama import make_config, parts, read_shape
from models.gguf_tokenizer import make_tokenizer, make_tokenizer_config, read_chat_template, read_special_ids
from models.gguf_weights import convert, outline
from models.safetensors_file import write_entries

IMPORTER_VERSION = 1  # raise it whenever the same source would give other files
MANIFEST = "redline-import.json"
_LOCK_WAIT_S = 300.0


def import_gguf(source: Path, folder: Path) -> Path:
    """Make the MLX model folder `folder` from the GGUF file `source`, or reuse it if it is there and whole.

    Returns `folder`. Raises ModelError: the source is missing, damaged or of a kind not imported; `folder` is
    something else's; another import does not end; the disk refuses.
    """
    with _disk_errors(folder):
        if not source.is_file():
            raise ModelError(f"{source}: no such file; check the path")
        if _is_current(folder, source, trust_time=True) and not any(map(Path.exists, _unfinished(folder))):
            return folder
        with _alone(folder):
            _sweep(folder)
            if (folder.exists() or folder.is_symlink()) and not (folder / MANIFEST).is_file():
                to_do = "move it away or choose another folder"
                raise ModelError(f"{folder}: exists and was not made by an import; {to_do}")
            if not _is_current(folder, source, trust_time=False):
                _make(source, folder)
    return folder


def _make(source: Path, folder: Path) -> None:
    work, old = _unfinished(folder)
    try:
        work.mkdir()
        _convert(read_gguf(source), work)
        write_json(work / MANIFEST, _manifest(source, work))
        sync_folder(work)
        if folder.exists():
            folder.rename(old)
        work.rename(folder)
        sync_folder(folder.parent)
    finally:
        _sweep(folder)


def _convert(gguf: GgufFile, work: Path) -> None:
    """All files of the model folder, config.json last."""
    shape = read_shape(gguf)
    pieces = parts(gguf, shape)
    config = make_config(gguf, shape, pieces) | _special_ids(gguf, shape.vocabulary)
    tokenizer = make_tokenizer(gguf)
    write_file(work / "tokenizer.json", tokenizer.to_str().encode())
    write_json(work / "tokenizer_config.json", make_tokenizer_config(gguf))
    template = read_chat_template(gguf)
    if template is not None:
        write_file(work / "chat_template.jinja", template.encode())
    entries = [entry for part in pieces for entry in outline(gguf, part.name, part.base)]
    arrays = (array for part in pieces for array in convert(gguf, part.name, part.heads))
    write_entries(work / "model.safetensors", entries, arrays)
    write_json(work / "config.json", config)


def _special_ids(gguf: GgufFile, rows: int) -> dict[str, object]:
    """The special ids for config.json; the vocabulary must fit the `rows` of the embedding (it may be padded)."""
    tokens = len(gguf.get_all("tokenizer.ggml.tokens", str))
    if tokens > rows:
        raise gguf.unfit(f"{tokens} tokens and an embedding of {rows} rows", "the file is damaged, download it again")
    special = read_special_ids(gguf)
    ends = special.ends[0] if len(special.ends) == 1 else list(special.ends)
    named = {"bos_token_id": special.bos, "eos_token_id": ends or None, "pad_token_id": special.padding}
    return {key: value for key, value in named.items() if value is not None}


def _manifest(source: Path, folder: Path) -> dict[str, object]:
    status = source.stat()
    with source.open("rb") as file:
        digest = hashlib.file_digest(file, "sha256").hexdigest()
    return {
        "importer": IMPORTER_VERSION,
        "source": {"name": source.name, "bytes": status.st_size, "mtime_ns": status.st_mtime_ns, "sha256": digest},
        "files_bytes": {path.name: path.stat().st_size for path in sorted(folder.iterdir())},
    }


def _is_current(folder: Path, source: Path, trust_time: bool) -> bool:
    """Whether `folder` is a whole import of `source`.

    With `trust_time` the source's size and time must agree, which takes microseconds. Without, a source of another
    time is hashed, and if it is the same the manifest learns the new time (the caller holds the lock).
    """
    if not (folder / MANIFEST).is_file():
        return False
    try:
        manifest: dict[str, Any] = read_json_object(folder / MANIFEST)
        sizes = {name: (folder / name).stat().st_size for name in manifest["files_bytes"]}
        if manifest["importer"] != IMPORTER_VERSION or sizes != manifest["files_bytes"]:
            return False
        was, status = manifest["source"], source.stat()
        if (was["bytes"], was["mtime_ns"]) == (status.st_size, status.st_mtime_ns):
            return True
        if trust_time or was["bytes"] != status.st_size:
            return False
        with source.open("rb") as file:
            same: bool = was["sha256"] == hashlib.file_digest(file, "sha256").hexdigest()
    except (ModelError, OSError, KeyError, TypeError):  # a manifest that is not whole proves nothing
        return False
    if same:
        was["mtime_ns"] = status.st_mtime_ns
        replace_json(folder / MANIFEST, manifest)
    return same


def _unfinished(folder: Path) -> tuple[Path, Path]:
    """Where a folder in the making and a replaced one lie while an import runs."""
    return folder.with_name(f".{folder.name}.partial"), folder.with_name(f".{folder.name}.old")


def _sweep(folder: Path) -> None:
    for leftover in _unfinished(folder):
        if leftover.exists():
            shutil.rmtree(leftover)


@contextmanager
def _alone(folder: Path) -> Iterator[None]:
    folder.parent.mkdir(parents=True, exist_ok=True)
    lock = FileLock(folder.with_name(f".{folder.name}.lock"), timeout=_LOCK_WAIT_S)
    try:
        lock.acquire()
    except Timeout as error:
        what = f"{folder}: another process has been importing it for {_LOCK_WAIT_S:.0f} s"
        raise ModelError(f"{what}; end that process, then try again") from error
    try:
        yield
    finally:
        lock.release()


@contextmanager
def _disk_errors(folder: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        reason = error.strerror or str(error)
        to_do = "free some disk space, or choose a folder that can be written"
        raise ModelError(f"{folder}: the model could not be imported ({reason}); {to_do}") from error
