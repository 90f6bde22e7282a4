"""A Redline.app from nothing, in order; see `bundling.layout` for what comes of it."""

import os
import shutil
import stat
import tomllib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from time import monotonic

from bundling import binary_patches, bytecode, code_signing, icons, launcher, licences, plists, runtime, trim, wheels
from bundling.layout import NAME, ROOT, Layout
from bundling.tools import BuildError, epoch_s, run


def version() -> str:
    """Redline's, from pyproject.toml."""
    return str(tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["version"])


def assemble(folder: Path, platform: str, identity: str = code_signing.ADHOC) -> Layout:
    """folder/Redline.app, for "darwin" or "linux", in place of one that is there. Raises BuildError.

    For Linux it has the same layout, and neither signature nor icon: only tests start it.
    """
    layout = Layout(folder / f"{NAME}.app")
    if layout.app.exists():
        shutil.rmtree(layout.app)
    layout.contents.mkdir(parents=True)
    with _timed("Python"):
        python = runtime.find_python()
        runtime.install(python, layout, platform)
    with _timed("packages"):
        wheels.install(layout.site_packages, platform)
    with _timed("trimming"):
        _tell(trim.trim(layout))
    with _timed("licences"):
        licences.collect(layout, _version_of(python), _text_of(python))
        _tell(trim.trim_metadata(layout))
    if platform == "darwin":
        with _timed("mending"):
            binary_patches.mend(layout)
    with _timed("bytecode"):
        bytecode.compile_all(python.executable, layout)
    with _timed("launcher"):
        launcher.compile_launcher(python, layout, platform)
    if platform == "darwin":
        with _timed("icon and Info.plist"):
            icons.write_icns(layout.resources / f"{NAME}.icns")
            layout.info.write_bytes(plists.written(plists.info(version())))
        _settle(layout)
        with _timed("signature"):
            code_signing.sign(layout, identity)
    _settle(layout)
    return layout


def _settle(layout: Layout) -> None:
    """One time and the plainest rights for everything, so that two builds differ in nothing."""
    when = epoch_s()
    for path in sorted([layout.app, *layout.app.rglob("*")], reverse=True):
        if not path.is_symlink():
            program = path.is_dir() or path == layout.launcher or path.stat().st_mode & stat.S_IXUSR
            path.chmod(0o755 if program else 0o644)
        os.utime(path, (when, when), follow_symlinks=False)


def _tell(taken: Mapping[str, int]) -> None:
    for why, size in taken.items():
        print(f"    {size / 1e6:7.1f} MB  {why}")


def _version_of(python: runtime.Python) -> str:
    return run(python.executable, "-I", "-c", "import platform; print(platform.python_version())").strip()


def _text_of(python: runtime.Python) -> Path:
    """Python's licence, where its builders put it."""
    places = [python.stdlib / "LICENSE.txt", python.home / "LICENSE", python.home / "licenses" / "LICENSE.cpython.txt"]
    found = next((place for place in places if place.is_file()), None)
    if found is None:
        raise BuildError(f"the Python at {python.home} has no text of its licence: take another")
    return found


@contextmanager
def _timed(what: str) -> Iterator[None]:
    began_s = monotonic()
    print(f"{what} …")
    yield
    print(f"{what}: {monotonic() - began_s:.1f} s")
