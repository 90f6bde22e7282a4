"""Whether every library that a file wants is found: in the bundle, or in the system.

As dyld does it (`man dyld`): @loader_path is the folder of the file that wants, @executable_path the launcher's, and
@rpath each of the paths that the file and the launcher list, in turn.
"""

import os
from collections.abc import Iterator
from pathlib import Path

from bundling.machos import Slice, is_macho, slices

SYSTEM = ("/usr/lib/", "/System/Library/")


def unresolved(path: Path, part: Slice, app: Path, launcher: Path, launcher_rpaths: tuple[str, ...]) -> Iterator[str]:
    """What `path` wants and does not get, one sentence each."""
    for dependency in part.dependencies:
        name = dependency.name
        if name.startswith(SYSTEM) or dependency.weak:
            continue
        if not name.startswith("@"):
            yield f"wants {name}, which is neither in the bundle nor the system's"
            continue
        found = _places(name, path, part.rpaths, launcher, launcher_rpaths)
        if not any(_serves(place, app) for place in found):
            yield f"wants {name}, which is not in the bundle"


def foreign_rpaths(part: Slice) -> list[str]:
    """Search paths that lead out of the bundle: harmless where nobody can write there, and nobody can know that."""
    return [rpath for rpath in part.rpaths if not rpath.startswith("@") and not rpath.startswith(SYSTEM)]


def _places(
    name: str, path: Path, rpaths: tuple[str, ...], launcher: Path, launcher_rpaths: tuple[str, ...]
) -> Iterator[Path]:
    if not name.startswith("@rpath/"):
        yield _expanded(name, path, launcher)
        return
    rest = name.removeprefix("@rpath/")
    for owner, own in ((path, rpaths), (launcher, launcher_rpaths)):
        for rpath in own:
            yield _expanded(rpath, owner, launcher) / rest


def _expanded(text: str, loader: Path, launcher: Path) -> Path:
    head, _, rest = text.partition("/")
    start = {"@loader_path": loader.parent, "@executable_path": launcher.parent}.get(head)
    return Path(os.path.normpath(start / rest)) if start is not None else Path(text)


def _serves(place: Path, app: Path) -> bool:
    """Whether there is a Mach-O file for this processor, in the app."""
    real = place.resolve()
    return app.resolve() in real.parents and is_macho(real) and any(part.arm64 for part in slices(real))
