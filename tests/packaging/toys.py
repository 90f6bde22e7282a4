"""A small bundle that passes every check: each part of a real one, in a few files."""

import shutil
import sys
from pathlib import Path

from bundling import bytecode, checks, code_signing, plists
from bundling.layout import LIBPYTHON, OWN_PACKAGES, Layout
from bundling.runtime import Python

from tests.packaging.machofiles import DYLIB, EXECUTE, Recipe, macho

RECORD = ["json", "email.message", "time", "mlx.core", "some.plain"]
MACHINE = "/builds/of/somebody"
LIBRARY = Recipe(DYLIB, identity=f"@rpath/{LIBPYTHON['darwin']}", symbols=("_PyInit_time", "_Py_RunMain"))
LAUNCHER = Recipe(
    EXECUTE, needs=(LIBRARY.identity,), rpaths=("@executable_path/../Frameworks",), code=b"jump " * 40, minimum=(14, 0)
)
CORE = Recipe(DYLIB, needs=("@rpath/libmlx.dylib",), rpaths=("@loader_path/lib",))
MLX = Recipe(DYLIB, identity="@rpath/libmlx.dylib")
_SOURCES = {
    "json/__init__.py": "import json.decoder\n",
    "json/decoder.py": "SPACES = ' '\n",
    "email/message.py": "class Message:\n    text = ''\n",
    "site-packages/some/__init__.py": "",
    "site-packages/some/plain.py": "def add(a, b):\n    return a + b\n",
}


def make_source(folder: Path) -> Path:
    """A repository's packages, a module each."""
    for package in OWN_PACKAGES:
        (folder / package).mkdir(parents=True)
        (folder / package / "__init__.py").write_text(f'"""Of {package}."""\n\nimport json\n')
    return folder


def make_bundle(folder: Path, source: Path) -> Layout:
    """folder/Redline.app, signed."""
    layout = Layout(folder / "Redline.app")
    for name, text in _SOURCES.items():
        _write(layout.stdlib / name, text.encode())
    for package in OWN_PACKAGES:
        shutil.copytree(source / package, layout.site_packages / package)
    _write(layout.site_packages / "mlx" / "core.cpython-312-darwin.so", macho(CORE))
    _write(layout.site_packages / "mlx" / "lib" / "libmlx.dylib", macho(MLX))
    _write(layout.frameworks / LIBPYTHON["darwin"], macho(LIBRARY))
    _write(layout.launcher, macho(LAUNCHER))
    layout.launcher.chmod(0o755)
    _write(layout.resources / "Redline.icns", b"icns")
    layout.info.write_bytes(plists.written(plists.info("1.2.3")))
    compile_here(layout)
    sign(layout)
    return layout


def compile_here(layout: Layout) -> None:
    """With this Python, whatever its version: the files are then renamed to what the bundle's Python looks for."""
    here = Python(Path(sys.executable), Path(sys.base_prefix))
    bytecode.compile_all(here.executable, layout)
    tag = f"cpython-{''.join(layout.stdlib.name.removeprefix('python').split('.'))}"
    for file in layout.python.rglob("*.pyc"):
        if file.parent.name == "__pycache__":
            file.rename(file.with_name(f"{file.name.split('.')[0]}.{tag}.pyc"))


def sign(layout: Layout) -> None:
    """Ad hoc, as it is done off macOS."""
    shutil.rmtree(layout.contents / "_CodeSignature", ignore_errors=True)
    code_signing.sign_elsewhere(layout)


def bundle(layout: Layout, source: Path | None = None, record: list[str] | None = None) -> checks.Bundle:
    """As the checks take it."""
    return checks.Bundle(layout.app, RECORD if record is None else record, [MACHINE], source)


def _write(path: Path, data: bytes) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data)
