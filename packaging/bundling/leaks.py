"""Paths of the machine that built the bundle, in any of its files, compiled ones too.

They tell who built it and where, and whatever reads them finds nothing on the user's machine, or something else. Paths
of the machines that built the wheels are in the wheels as they are published: no secret of ours, and not looked for.
"""

import os
import re
import sys
import tempfile
from collections.abc import Iterable, Iterator
from pathlib import Path

from bundling.layout import ROOT, Layout

_SHORTEST = 5  # of a path that says something by itself; of a shorter one, something must follow
_SHARED_NAMES = {"runner"}  # the user of a public CI machine: the wheels name the same one


def machine_paths(*more: Path) -> list[str]:
    """The folders of this machine that a build could leave behind: of this repository, of the user, of temporary files,
    of the Python that runs; and `more`. Both as they are named and as they are."""
    folders = [ROOT, Path(sys.prefix), Path(sys.base_prefix), Path(tempfile.gettempdir()), *more]
    if Path.home().name not in _SHARED_NAMES:
        folders.append(Path.home())
    found = {str(form) for folder in folders for form in (folder, folder.resolve())}
    return sorted(found - {os.sep, "/usr", "/usr/local", "/tmp", "/private/tmp"})  # those that every machine has


def leaks(layout: Layout, paths: Iterable[str]) -> Iterator[tuple[str, str]]:
    """(place, what) of each file that names one of `paths`, and each link that leads out of the bundle."""
    patterns = {path.encode(): re.compile(_pattern(path)) for path in paths}
    for file in layout.files():
        if file.is_symlink():
            if file.readlink().is_absolute():
                yield layout.name_of(file), f"is a link to {file.readlink()}, out of the bundle"
            continue
        data = file.read_bytes()
        for path, pattern in patterns.items():
            # `in` first: it is a hundred times as fast as the pattern, and nearly always says no.
            if path in data and (found := pattern.search(data)):
                named = found.group().decode(errors="replace")
                yield layout.name_of(file), f"names {named}, a folder of the building machine"
                break


def _pattern(path: str) -> bytes:
    """A short path counts only as the beginning of a longer one."""
    follows = rb"/\.?\w" if len(path) <= _SHORTEST else rb"(?![\w-])"
    return rb"(?<![\w.:/-])" + re.escape(path.encode()) + follows
