"""Python itself: the library, the standard library, and what that needs.

on a Mac                the CPython that uv manages (relocatable: python-build-standalone)
for a Mac, on Linux     for checks only: libpython and the native modules out of a panda3d wheel, which carries them
                        for macOS, with the standard library's Python files of this machine's CPython of the same
                        minor version
for Linux, on Linux     this machine's, for the tests that start the app here
"""

import os
import shutil
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

from bundling.layout import LIBPYTHON, PYTHON, Layout
from bundling.tools import BuildError, run, uv
from bundling.wheels import FOR_MACOS

# The wheel whose macOS libraries stand in for a runtime where there is no Mac, and where in it they are.
STAND_IN = "panda3d==1.10.16"
_STAND_IN_FOLDER = "deploy_libs"
_KEPT_OF_STAND_IN = ("libcrypto", "libssl", "libncurses", "libpanel")
_SYSCONFIG = "_sysconfigdata_"
_ANYWHERE = "/install"  # what python-build-standalone has for the folder that it is going to be unpacked in


@dataclass(frozen=True)
class Python:
    """A CPython of this machine. home: the folder of bin, include and lib."""

    executable: Path
    home: Path

    @property
    def headers(self) -> Path:
        return self.home / "include" / f"python{PYTHON}"

    @property
    def stdlib(self) -> Path:
        return self.home / "lib" / f"python{PYTHON}"

    @property
    def library(self) -> Path:
        return self.home / "lib" / LIBPYTHON[sys.platform]


def find_python() -> Python:
    """The CPython that this build takes things from. On a Mac it is uv's own, as any other is tied to its place."""
    try:
        found = _installed() or _fetched()
    except BuildError as error:
        raise BuildError(f"there is no Python {PYTHON}, and uv cannot fetch it ({error}): install it") from error
    home = Path(run(found, "-I", "-c", "import sys; print(sys.base_prefix)").strip())
    python = Python(found, home)
    if not python.library.is_file():
        raise BuildError(f"the Python at {home} has no {python.library.name}: `uv python install {PYTHON}` brings one")
    return python


def _installed() -> Path | None:
    """One that is on this machine and will do."""
    managed = ["--managed-python"] if sys.platform == "darwin" else []
    try:
        return Path(run(uv(), "python", "find", "--no-project", *managed, PYTHON, environment=_paths()).strip())
    except BuildError:
        return None


def _fetched() -> Path:
    """uv's own, downloaded. Raises BuildError."""
    run(uv(), "python", "install", PYTHON)
    return Path(run(uv(), "python", "find", "--no-project", "--managed-python", PYTHON).strip())


def _paths() -> dict[str, str]:
    """Where to look: also among the Pythons of pyenv, which shows uv only those that it is set to."""
    pyenv = shutil.which("pyenv")
    folders = sorted(Path(run(pyenv, "root").strip(), "versions").glob(f"{PYTHON}.*/bin")) if pyenv else []
    return {"PATH": os.pathsep.join([*map(str, folders), os.environ.get("PATH", "")])}


def install(python: Python, layout: Layout, platform: str) -> None:
    """Put a runtime for `platform` ("darwin", "linux") into the bundle."""
    stand_in = platform != sys.platform
    left_out = {"__pycache__", "site-packages"} | ({"lib-dynload"} if stand_in else set())
    shutil.copytree(python.stdlib, layout.stdlib, ignore=lambda _, names: left_out & set(names), symlinks=True)
    layout.site_packages.mkdir()
    layout.frameworks.mkdir(parents=True)
    if stand_in:
        _install_stand_in(layout)
    else:
        shutil.copy(python.library, layout.frameworks / LIBPYTHON[platform])
    _forget_where_built(python, layout, platform)


def _install_stand_in(layout: Layout) -> None:
    """The macOS libraries of the wheel."""
    dynamic = layout.stdlib / "lib-dynload"
    dynamic.mkdir()
    with tempfile.TemporaryDirectory() as folder:
        run(uv(), "pip", "install", "--quiet", "--no-deps", *FOR_MACOS, "--target", folder, STAND_IN)
        for file in Path(folder, _STAND_IN_FOLDER).iterdir():
            if file.name == LIBPYTHON["darwin"]:
                shutil.copy(file, layout.frameworks)
            elif file.name.startswith(_SYSCONFIG):
                shutil.copy(file, layout.stdlib)
            elif file.name.endswith("-darwin.so") or file.name.startswith(_KEPT_OF_STAND_IN):
                shutil.copy(file, dynamic)


def _forget_where_built(python: Python, layout: Layout, platform: str) -> None:
    """What the standard library knows of its own making: for this platform only, without folders of this machine."""
    for file in layout.stdlib.glob(f"{_SYSCONFIG}*.py"):
        if not file.name.startswith(f"{_SYSCONFIG}_{platform}_"):
            file.unlink()
            continue
        text = file.read_text()
        for form in {str(python.home), str(python.home.resolve())}:
            text = text.replace(form, _ANYWHERE)
        file.write_text(text)
