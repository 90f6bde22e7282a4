"""Checks the free disk space before a download."""

import shutil
from pathlib import Path

from engine.errors import HubError
from models.size_text import size_words

SPARE_BYTES = 64 * 1024 * 1024  # for the file system's own, and so that the machine is not left with nothing


def free_bytes(place: Path) -> int:
    """Returns the free bytes of the disk of `place`, which need not exist. Raises HubError if it cannot be read."""
    for folder in (place, *place.parents):
        try:
            return shutil.disk_usage(folder).free
        except OSError:
            continue
    raise HubError(f"{place}: the disk cannot be read; check HF_HOME", "disk")


def check_space(repo: str, needed_bytes: int, place: Path) -> int:
    """Returns the free bytes. Raises HubError if they are too few for `needed_bytes` more."""
    free = free_bytes(place)
    if needed_bytes and free < needed_bytes + SPARE_BYTES:
        needs = f"{repo} needs {size_words(needed_bytes)} more, and {size_words(free)} are free on the disk of {place}"
        lacking = size_words(needed_bytes + SPARE_BYTES - free)
        raise HubError(f"{needs}; free {lacking}, or point HF_HOME to another disk", "disk")
    return free
