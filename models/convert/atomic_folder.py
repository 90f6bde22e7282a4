"""Builds a model folder from other files: once, and whole or not at all.

Invariants:
1. The folder appears by a rename, after everything in it is on the disk.
2. Unfinished work lies beside it under a name with a leading dot. A killed process leaves it there, and the next
   import of that name deletes it and starts again.
3. One process works at a time (a lock file beside the folder); a killed process frees the lock.
4. The manifest names the files of the source with size and time, the options, and the size of every file of the
   folder. A folder that does not match its manifest is built again, and so is one whose source has another time.
5. A folder without a manifest belongs to somebody else and is never touched.
"""

import shutil
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

from engine.errors import ModelError
from models.durable_files import disk_errors, free_disk_bytes, locked, read_json_object, sync_folder, write_json

IMPORTER_VERSION = 4  # raise it whenever the same source would give other files
MANIFEST = "redline-import.json"
_LOCK_WAIT_S = 300.0
_SPARE_DISK_BYTES = 100 * 1024**2


@dataclass(frozen=True)
class ImportProgress:
    """`done_bytes` of the `total_bytes` of weights are written; step: what is being done, in a word or two."""

    step: str
    done_bytes: int
    total_bytes: int


OnProgress = Callable[[ImportProgress], None]


def ignore_progress(progress: ImportProgress) -> None:
    """For callers that do not show progress."""


@dataclass(frozen=True)
class FolderSource:
    """What a folder is built from. name: for people. options: what else decides its content, as JSON values."""

    name: str
    files: tuple[Path, ...]
    options: Mapping[str, object] = field(default_factory=dict)


def build_folder(folder: Path, source: FolderSource, fill: Callable[[Path], None], replace: bool = True) -> bool:
    """Builds the model folder `folder` by letting `fill` write into an empty one, unless it is there and current.

    replace: whether a folder that was built from something else may be replaced. Returns whether anything was built.
    Raises ModelError: a source is missing; `folder` was not made by an import; another import does not end; the disk
    refuses.
    """
    with disk_errors(partial(_not_imported, folder)):
        for path in source.files:
            if not path.is_file():
                raise ModelError(f"{path}: no such file; check the path")
        if _is_current(folder, source) and not any(map(Path.exists, _unfinished(folder))):
            return False
        waited = f"{folder}: another process has been importing this model for {_LOCK_WAIT_S:.0f} s"
        busy = ModelError(f"{waited}; quit it, then try again")
        with locked(folder.with_name(f".{folder.name}.lock"), _LOCK_WAIT_S, busy):
            _check_replaceable(folder)
            _delete_unfinished(folder)
            if _is_current(folder, source):
                return False
            if not replace and folder.exists():
                raise ModelError(f"{folder}: another model has this name; give a new name, or remove that model first")
            _build(folder, source, fill)
    return True


def check_space(folder: Path, needed_bytes: int) -> None:
    """Raises ModelError unless the disk of `folder`, which need not exist yet, has this much space left."""
    free_bytes = free_disk_bytes(folder)
    if needed_bytes + _SPARE_DISK_BYTES > free_bytes:
        needs = f"needs {needed_bytes / 1e9:.1f} GB of disk space and {_SPARE_DISK_BYTES / 1e9:.1f} GB to spare"
        there = f"only {free_bytes / 1e9:.1f} GB is free"
        raise ModelError(f"{folder.parent}: the model {needs}, but {there}; free some space, or choose another folder")


def _check_replaceable(folder: Path) -> None:
    if folder.is_symlink():
        raise ModelError(f"{folder}: is a link to another folder; give another name, or remove the link")
    if folder.exists() and not (folder / MANIFEST).is_file():
        raise ModelError(f"{folder}: was not made by an import; move it away, or choose another folder")


def _build(folder: Path, source: FolderSource, fill: Callable[[Path], None]) -> None:
    work, old = _unfinished(folder)
    try:
        work.mkdir()
        fill(work)
        for path in (*sorted(work.iterdir()), work):
            sync_folder(path)  # the files too, whoever wrote them
        write_json(
            work / MANIFEST, _manifest(source, {path.name: path.stat().st_size for path in sorted(work.iterdir())})
        )
        sync_folder(work)
        if folder.exists():
            folder.rename(old)
        work.rename(folder)
        sync_folder(folder.parent)
    finally:
        _delete_unfinished(folder)


def _manifest(source: FolderSource, sizes_bytes: Mapping[str, int]) -> dict[str, object]:
    """Returns the manifest of a folder whose files have these sizes."""
    stats = [(path.name, path.stat()) for path in source.files]
    files = [{"name": name, "bytes": stat.st_size, "mtime_ns": stat.st_mtime_ns} for name, stat in stats]
    made_from = {"name": source.name, "options": dict(source.options), "files": files}
    return {"importer": IMPORTER_VERSION, "source": made_from, "files_bytes": dict(sizes_bytes)}


def _is_current(folder: Path, source: FolderSource) -> bool:
    """Whether `folder` is whole and was built from `source` as it is now, which takes microseconds to check."""
    try:
        manifest: dict[str, Any] = read_json_object(folder / MANIFEST)
        sizes_bytes = {name: (folder / name).stat().st_size for name in manifest["files_bytes"]}
        return bool(manifest == _manifest(source, sizes_bytes))
    except (ModelError, OSError, KeyError, TypeError):  # a damaged manifest proves nothing
        return False


def _unfinished(folder: Path) -> tuple[Path, Path]:
    """Returns where the unfinished folder and a replaced one stand while an import runs."""
    return folder.with_name(f".{folder.name}.partial"), folder.with_name(f".{folder.name}.old")


def _delete_unfinished(folder: Path) -> None:
    """Deletes what an earlier import left unfinished, or what this one replaced."""
    for path in _unfinished(folder):
        if path.exists():
            shutil.rmtree(path)


def _not_imported(folder: Path, reason: str) -> ModelError:
    to_do = "free some disk space, or choose a folder that you can write to"
    return ModelError(f"{folder}: the model could not be imported ({reason}); {to_do}")
