"""What is put right in the files of wheels and runtimes before they are signed. Slices for other processors go; all
else keeps its place and its size.
"""

import shutil
from pathlib import Path

from macholib import mach_o
from macholib.MachO import MachO, MachOHeader
from macholib.ptypes import sizeof

from bundling.layout import LIBPYTHON, Layout
from bundling.links import SYSTEM
from bundling.machos import arm64_slice, is_macho, slices
from bundling.tools import BuildError

_NOWHERE = "@loader_path/-"  # short, as it must fit where another stood; a number follows


def mend(layout: Layout) -> None:
    """All of it, for a bundle for macOS."""
    for path in layout.files():
        if is_macho(path):
            thin(path)
            quiet_rpaths(path)
    rename(layout.frameworks / LIBPYTHON["darwin"], f"@rpath/{LIBPYTHON['darwin']}")
    for framework in sorted(layout.site_packages.rglob("*.framework")):
        link_up(framework)


def thin(path: Path) -> None:
    """Leave only the part for arm64 of a file that has several. Raises BuildError if there is none."""
    parts = slices(path)
    part = arm64_slice(path)
    if part is None:
        raise BuildError(f"{path.name} has nothing for arm64: choose another release of what it belongs to")
    if len(parts) > 1 or part.offset:
        data = path.read_bytes()
        path.write_bytes(data[part.offset : part.offset + part.size])


def quiet_rpaths(path: Path) -> None:
    """Search paths on the machine of whoever built a wheel, and those listed twice, lead nowhere."""
    seen: set[str] = set()
    for place, room, text in _strings(path, mach_o.LC_RPATH):
        if text in seen or not text.startswith(("@", *SYSTEM)):
            text = f"{_NOWHERE}{len(seen)}"
            _overwrite(path, place, room, text)
        seen.add(text)


def rename(library: Path, name: str) -> None:
    """Give a library another name for itself, no longer than the one it has."""
    for place, room, _ in _strings(library, mach_o.LC_ID_DYLIB):
        _overwrite(library, place, room, name)


def link_up(framework: Path) -> None:
    """A framework out of a wheel lacks its links, which wheels cannot hold, and has copies in their place: `codesign`
    takes it for a bundle of no known kind."""
    name = framework.stem
    (framework / "Versions" / "Current").symlink_to("A")
    for entry in (name, "Resources"):
        if (framework / entry).is_dir():
            shutil.rmtree(framework / entry)
        if (framework / "Versions" / "A" / entry).exists():
            (framework / entry).symlink_to(f"Versions/Current/{entry}")


def _strings(path: Path, kind: int) -> list[tuple[int, int, str]]:
    """(offset in the file, bytes of room, text) of load commands that end in a string."""
    return [found for header in MachO(str(path)).headers for found in _in_header(header, kind)]


def _in_header(header: MachOHeader, kind: int) -> list[tuple[int, int, str]]:
    found = []
    place = int(header.offset) + sizeof(header.mach_header)
    for load, _, data in header.commands:
        size = int(load.cmdsize)
        if load.cmd == kind:
            found.append((place + size - len(data), len(data), data.split(b"\0")[0].decode()))
        place += size
    return found


def _overwrite(path: Path, place: int, room: int, text: str) -> None:
    data = text.encode()
    if len(data) >= room:
        raise BuildError(f"{path.name} has no room for {text}: it must be built anew")
    with path.open("r+b") as file:
        file.seek(place)
        file.write(data.ljust(room, b"\0"))
