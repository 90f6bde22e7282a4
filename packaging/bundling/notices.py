"""The notices of what is compiled into the libraries of the bundle, and is no package of its own.

`packaging/notices/notices.toml` says which library has what in it; the texts lie beside it, as their authors wrote
them.
"""

import tomllib
from collections.abc import Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from importlib.metadata import PathDistribution
from pathlib import Path

from bundling.layout import ROOT, Layout
from bundling.machos import is_macho

FOLDER = ROOT / "packaging/notices"
TABLE = FOLDER / "notices.toml"
_ELF = b"\x7fELF"
_QT = "PySide6/Qt/"  # of which the wheel says nothing but that it is Qt
_LINUX_ONLY = "*/PySide6/Qt/lib/libicu*"  # in the bundle that only tests start


@dataclass(frozen=True)
class Notice:
    """Somebody's code inside of libraries. inside: patterns of their names under Contents. texts: files of FOLDER."""

    name: str
    licence: str
    homepage: str
    inside: tuple[str, ...]
    texts: tuple[Path, ...]

    def covers(self, library: str) -> bool:
        """Returns whether this is in the library of this name."""
        return any(fnmatchcase(library, pattern) for pattern in self.inside)


def read() -> list[Notice]:
    """Returns all notices. Raises FileNotFoundError for a text that is not there."""
    rows = tomllib.loads(TABLE.read_text(encoding="utf-8"))["notice"]
    return [
        Notice(
            row["name"],
            row["licence"],
            row["homepage"],
            tuple(row["inside"]),
            tuple((FOLDER / text).resolve(strict=True) for text in row["texts"]),
        )
        for row in rows
    ]


def native_libraries(layout: Layout) -> list[str]:
    """Returns the names of all libraries of machine code in a bundle, relative to its contents."""
    files = [path for path in layout.files() if path.is_file() and not path.is_symlink()]
    return [path.relative_to(layout.contents).as_posix() for path in files if _is_native(path)]


def unnoticed(layout: Layout, libraries: Sequence[str]) -> list[str]:
    """Returns those of the libraries that neither a notice nor a package with a licence of its own covers.

    Python's extension modules are Python's own where no notice is of them; a library that they load is not.
    """
    notices, packaged = read(), _packaged(layout)
    return [
        name
        for name in libraries
        if name not in packaged
        and not any(notice.covers(name) for notice in notices)
        and not ("/lib-dynload/" in name and not Path(name).name.startswith("lib"))
        and not fnmatchcase(name, _LINUX_ONLY)
    ]


def _packaged(layout: Layout) -> set[str]:
    """The files of all packages whose own licences cover everything that is in them."""
    found: set[str] = set()
    for info in layout.site_packages.glob("*.dist-info"):
        for file in PathDistribution(info).files or ():
            if not file.as_posix().startswith((_QT, "../")):
                found.add((layout.site_packages / file).relative_to(layout.contents).as_posix())
    return found


def _is_native(path: Path) -> bool:
    with path.open("rb") as stream:
        return stream.read(4) == _ELF or is_macho(path)
