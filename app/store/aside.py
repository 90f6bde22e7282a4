"""A damaged file is set aside under a name that says when, with its log; nothing is ever overwritten or deleted."""

from __future__ import annotations

import shutil
import time
from pathlib import Path

from app.store.wal import log_of

_BESIDE = ("", "-wal", "-shm")


def free_name(path: Path) -> Path:
    """Beside `path`, and neither it nor a file of its company is there."""
    stamp = time.strftime("%Y%m%d-%H%M%S")
    number = 1
    while True:
        again = f"-{number}" if number > 1 else ""
        name = path.with_name(f"{path.stem}.damaged-{stamp}{again}{path.suffix}")
        if not any(_with(name, beside).exists() for beside in _BESIDE):
            return name
        number += 1


def set_aside(path: Path) -> Path:
    """Rename whatever is at `path`, its log and its shared memory with it. Raises OSError."""
    name = free_name(path)
    for beside in _BESIDE:
        source = _with(path, beside)
        if source.exists() or source.is_symlink():
            source.rename(_with(name, beside))
    return name


def copy_log_aside(path: Path) -> Path:
    """A copy of the log alone, which the store is about to write over. Raises OSError."""
    name = log_of(free_name(path))
    shutil.copy2(log_of(path), name)
    return name


def copy_with_log(path: Path, folder: Path) -> Path:
    """The database and its log, in another folder. Raises OSError."""
    copy = folder / path.name
    shutil.copyfile(path, copy)
    if log_of(path).is_file():
        shutil.copyfile(log_of(path), log_of(copy))
    return copy


def _with(path: Path, beside: str) -> Path:
    return path.with_name(path.name + beside)
