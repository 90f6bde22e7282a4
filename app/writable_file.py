"""Whether a file can be written, checked before its contents take minutes to compute."""

from __future__ import annotations

import os
import stat
from pathlib import Path

from engine.errors import UsageError


def check_writable(path: Path, option: str) -> None:
    """Raises UsageError for a place where `option` can't write a file."""
    try:
        fits = _is_writable(path)
    except (OSError, ValueError):  # a name too long, or with a NUL in it
        fits = False
    if not fits:
        raise UsageError(f"{str(path)!r} cannot be written: give {option} a file in a folder of yours")


def _is_writable(path: Path) -> bool:
    """Whether the folder takes a new file, and what stands at `path`, if anything, is a file that may be replaced."""
    try:
        mode = path.stat().st_mode
    except FileNotFoundError:
        return os.access(path.parent, os.W_OK)
    return stat.S_ISREG(mode) and os.access(path, os.W_OK) and os.access(path.parent, os.W_OK)
