"""A model folder is made of other files, once, and all at once.

Invariants:
1. The folder appears by a rename, after everything in it is on the disk. Whoever sees it sees all of it.
2. Unfinished work lies beside it under a name with a leading dot, its config.json written last.
3. One process works at a time (a lock file beside the folder); a killed one leaves the lock free and its
   unfinished work to be swept by the next, or to be gone on with if it was made of the same source (`resume`).
4. The manifest names the source, how it was made and every file's size; a folder that does not match it is made anew.
   A folder without a manifest is not ours and is never touched.
"""

import hashlib
import shutil
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from filelock import FileLock, Timeout

from engine.errors import ModelError
from models.disk import read_json_object, replace_json, sync_folder, write_json

MAKER_VERSION = 2  # raise it whenever the same source would give other files
MANIFEST = "redline-import.json"
_WORK = "redline-work.json"  # in unfinished work that can be gone on with: what it is made of
_LOCK_WAIT_S = 300.0
_SPARE_DISK_BYTES = 100 * 1024**2


@dataclass(frozen=True)
class Source:
    """What a folder is made of. name: for people. options: what else decides its content, JSON-ready.

    hashed: whether a file of another time is known again by its content; else by name, size and time alone.
    """

    name: str
    files: tuple[Path, ...]
    options: Mapping[str, object] = field(default_factory=dict)
    hashed: bool = True


def make_folder(
    folder: Path, source: Source, fill: Callable[[Path], None], replace: bool = True, resume: bool = False
) -> bool:
    """Make the model folder `folder` by letting `fill` write into an empty one, unless it is there and whole.

    replace: whether a folder that was made of something else may go. resume: after a kill or Ctrl-C, `fill` finds what
    an earlier one wrote of the same source. Returns whether anything was made. Raises ModelError: a source is missing;
    `folder` is something else's; another import does not end; the disk refuses.
    """
    with _disk_errors(folder):
        for path in source.files:
            if not path.is_file():
                raise ModelError(f"{path}: no such file; check the path")
        if _is_current(folder, source, trust_time=True) and not any(map(Path.exists, _unfinished(folder))):
            return False
        with _alone(folder):
            _refuse_what_is_not_ours(folder)
            if _is_current(folder, source, trust_time=False):
                _sweep(folder)
                return False
            if not replace and folder.exists():
                raise ModelError(f"{folder}: is there already, made of something else; give another name, or remove it")
            _sweep(folder, but_work_of=source if resume else None)
            _make(folder, source, fill, resume)
    return True


def check_space(folder: Path, needed_bytes: int) -> None:
    """Raises ModelError unless the disk of `folder`, which need not exist yet, has room for so much."""
    free_bytes = shutil.disk_usage(folder.parent).free
    if needed_bytes + _SPARE_DISK_BYTES > free_bytes:
        needs = f"needs {needed_bytes / 1e9:.1f} GB of disk and {free_bytes / 1e9:.1f} GB are free"
        raise ModelError(f"{folder.parent}: the model {needs}; make room, or choose another place")


def _refuse_what_is_not_ours(folder: Path) -> None:
    if folder.is_symlink():
        raise ModelError(f"{folder}: is a link to another folder; give another name, or remove it")
    if folder.exists() and not (folder / MANIFEST).is_file():
        to_do = "move it away or choose another folder"
        raise ModelError(f"{folder}: exists and was not made by an import; {to_do}")


def _make(folder: Path, source: Source, fill: Callable[[Path], None], resume: bool) -> None:
    work, old = _unfinished(folder)
    try:
        work.mkdir(exist_ok=resume)
        if resume:
            write_json(work / _WORK, _described(source))
        fill(work)
        (work / _WORK).unlink(missing_ok=True)
        for path in (*sorted(work.iterdir()), work):
            sync_folder(path)  # whatever wrote them
        write_json(work / MANIFEST, _manifest(source, work))
        sync_folder(work)
        if folder.exists():
            folder.rename(old)
        work.rename(folder)
        sync_folder(folder.parent)
    except KeyboardInterrupt:
        _sweep(folder, but_work_of=source if resume else None)
        raise
    except BaseException:
        _sweep(folder)
        raise
    _sweep(folder)


def _manifest(source: Source, folder: Path) -> dict[str, object]:
    sizes_bytes = {path.name: path.stat().st_size for path in sorted(folder.iterdir())}
    return {**_described(source), "files_bytes": sizes_bytes}


def _described(source: Source) -> dict[str, object]:
    files = [_described_file(path, source.hashed) for path in source.files]
    return {
        "importer": MAKER_VERSION,
        "source": {"name": source.name, "options": dict(source.options), "files": files},
    }


def _described_file(path: Path, hashed: bool) -> dict[str, object]:
    status = path.stat()
    digest = {"sha256": _sha256(path)} if hashed else {}
    return {"name": path.name, "bytes": status.st_size, "mtime_ns": status.st_mtime_ns, **digest}


def _sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _is_current(folder: Path, source: Source, trust_time: bool) -> bool:
    """Whether `folder` is whole and was made of `source`.

    With `trust_time` the files' sizes and times must agree, which takes microseconds. Without, a file of another time
    is hashed, and if it is the same the manifest learns the new time (the caller holds the lock).
    """
    if not (folder / MANIFEST).is_file():
        return False
    try:
        manifest: dict[str, Any] = read_json_object(folder / MANIFEST)
        sizes = {name: (folder / name).stat().st_size for name in manifest["files_bytes"]}
        was = manifest["source"]
        if (manifest["importer"], sizes) != (MAKER_VERSION, manifest["files_bytes"]):
            return False
        if was["options"] != source.options or len(was["files"]) != len(source.files):
            return False
        pairs = list(zip(was["files"], source.files, strict=True))
        if all(_same_time(file, path) for file, path in pairs):
            return True
        if trust_time or not all(_same_time(file, path) or _same_content(file, path) for file, path in pairs):
            return False
    except (ModelError, OSError, KeyError, TypeError):  # a manifest that is not whole proves nothing
        return False
    for file, path in pairs:
        file["mtime_ns"] = path.stat().st_mtime_ns
    replace_json(folder / MANIFEST, manifest)
    return True


def _same_time(was: Mapping[str, object], path: Path) -> bool:
    status = path.stat()
    return (was["bytes"], was["mtime_ns"]) == (status.st_size, status.st_mtime_ns)


def _same_content(was: Mapping[str, object], path: Path) -> bool:
    return was["bytes"] == path.stat().st_size and was.get("sha256") == _sha256(path)


def _unfinished(folder: Path) -> tuple[Path, Path]:
    """Where a folder in the making and a replaced one lie while an import runs."""
    return folder.with_name(f".{folder.name}.partial"), folder.with_name(f".{folder.name}.old")


def _sweep(folder: Path, but_work_of: Source | None = None) -> None:
    """Delete what earlier imports left unfinished, save work on this very source."""
    work, old = _unfinished(folder)
    if work.exists() and (but_work_of is None or not _is_work_of(work, but_work_of)):
        shutil.rmtree(work)
    if old.exists():
        shutil.rmtree(old)


def _is_work_of(work: Path, source: Source) -> bool:
    try:
        return read_json_object(work / _WORK) == _described(source)
    except ModelError:  # it was killed before it could say, or by a power cut while it did
        return False


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
