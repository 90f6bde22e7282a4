"""Which modules a bundle offers, and whether those that Redline needs are among them: all that a recorded run imported,
and all that Redline's source names, in whatever function.

The record (`packaging/imports.txt`, written by `packaging/try.py --record`) is a list of module names, one a line, of a
run of the bundle for Linux. Redline's own are left out, as they are compared file by file, and those that only Linux
has.
"""

import ast
import re
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

from bundling.layout import LIBPYTHON, OWN_PACKAGES, ROOT, Layout
from bundling.machos import arm64_slice, symbols

RECORD = ROOT / "packaging" / "imports.txt"
# In every Python, without an initialiser of the usual name.
INHERENT = frozenset(
    {"builtins", "sys", "marshal", "_warnings", "_frozen_importlib", "_frozen_importlib_external", "gc", "os.path"}
)
_PROGRAM = ("__main__", "__mp_main__")  # the file that runs, by the names that Python and multiprocessing give it
_LIBRARY_SUFFIXES = (".so", ".dylib")
# What a run on Linux imports and a bundle for macOS has no file for: why.
UNRECORDED: Mapping[str, str] = {
    r"_sysconfigdata_.*": "one for each platform, by its name",
    r"psutil\._ps(util_)?linux": "one for each platform, by its name",
    r"(PySide6\.support|shibokensupport|signature_bootstrap|__feature__)(\..*)?": "in an archive inside libshiboken",
}
# What Redline's source names and the bundle leaves out: why it does without.
OPTIONAL: Mapping[str, str] = {
    r"matplotlib(\..*)?": "only `redline fit` draws with it, and refuses to begin where it is not there",
}
# What the recorded modules import on macOS alone, so that no record made on Linux names it.
ON_MACOS = (
    "_scproxy",  # urllib.request: the system's proxies
    "ctypes.macholib.dyld",  # ctypes.util
    "keyring.backends.macOS",  # keyring finds its backends by entry points
    "keyring.backends.macOS.api",
    "platformdirs.macos",
    "psutil._psosx",
    "psutil._psutil_osx",
    "truststore._macos",
)
# What pypdf imports for encrypted PDF files, in a process that is not recorded.
ELSEWHERE = ("Crypto.Cipher.AES", "Crypto.Cipher.ARC4", "pypdf._crypt_providers._pycryptodome")
_HEADER = "# Modules that a run of the app imported. Written by `uv run packaging/try.py --record`.\n"


def recorded(record: Path = RECORD) -> list[str]:
    """The names in a record."""
    return [line for line in record.read_text().splitlines() if line and not line.startswith("#")]


def imported_on_macos(source: str) -> set[str]:
    """Returns the modules that a module's source imports by name where a condition names macOS."""
    conditions = [node for node in ast.walk(ast.parse(source)) if isinstance(node, ast.If)]
    bodies = [node.body for node in conditions if re.search("darwin|macos", ast.unparse(node.test), re.IGNORECASE)]
    return {name for body in bodies for statement in body for name in _imported(statement)}


def write_record(modules: Iterable[str], record: Path = RECORD) -> None:
    """Keep what a run imported."""
    record.write_text(_HEADER + "".join(f"{name}\n" for name in worth_recording(modules)))


def worth_recording(modules: Iterable[str]) -> list[str]:
    """Without Redline's own, and without what only Linux has."""
    foreign = {name for name in modules if name.split(".")[0] not in OWN_PACKAGES}
    return sorted(name for name in foreign if not _matches(name, UNRECORDED) and not name.startswith(_PROGRAM))


def wanted_by_source(layout: Layout) -> Iterator[tuple[Path, str]]:
    """(file, module) of each import in Redline's own source that the bundle cannot serve."""
    there: dict[str, bool] = {}
    for package in OWN_PACKAGES:
        for source in sorted((layout.site_packages / package).rglob("*.py")):
            for name in sorted(_imported(ast.parse(source.read_bytes()))):
                if name not in there:
                    there[name] = _matches(name, OPTIONAL) or not list(missing(layout, [name]))
                if not there[name]:
                    yield source, name


def missing(layout: Layout, names: list[str]) -> Iterator[str]:
    """Those of `names` that the bundle does not have."""
    built_in = _built_in(layout)
    folders = (layout.stdlib, layout.stdlib / "lib-dynload", layout.site_packages)
    for name in names:
        if name in INHERENT or f"_PyInit_{name}".encode() in built_in:
            continue
        if not any(_is_there(folder.joinpath(*name.split("."))) for folder in folders):
            yield name


def uncompiled(layout: Layout) -> Iterator[str]:
    """Source files without bytecode beside them: they would be compiled at every start, as nothing is ever written."""
    for source in layout.python.rglob("*.py"):
        compiled = source.parent / "__pycache__" / f"{source.stem}.cpython-{''.join(_minor(layout))}.pyc"
        if not compiled.is_file():
            yield layout.name_of(source)
        elif compiled.read_bytes()[4:8] != b"\x01\0\0\0":
            yield f"{layout.name_of(compiled)}, whose source is looked at"


def _imported(tree: ast.AST) -> set[str]:
    """Modules by name, wherever in the code they are imported."""
    found: set[str] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            found.add(node.module)
    return found


def _matches(name: str, table: Mapping[str, str]) -> bool:
    return any(re.fullmatch(pattern, name) for pattern in table)


def _minor(layout: Layout) -> list[str]:
    return layout.stdlib.name.removeprefix("python").split(".")


def _is_there(path: Path) -> bool:
    """A package, a module, a library, or a folder of a package without a file of its own."""
    if path.is_dir() or any(path.with_name(path.name + suffix).is_file() for suffix in (".py", ".pyc")):
        return True
    if not path.parent.is_dir():
        return False
    return any(
        file.name.split(".")[0] == path.name and file.suffix in _LIBRARY_SUFFIXES
        for file in path.parent.glob(f"{path.name}.*")
    )


def _built_in(layout: Layout) -> frozenset[bytes]:
    """Names in the Python library's symbol table."""
    library = layout.frameworks / LIBPYTHON["darwin"]
    part = arm64_slice(library) if library.is_file() else None
    return symbols(library, part) if part else frozenset()
