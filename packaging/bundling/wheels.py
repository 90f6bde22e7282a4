"""The packages of site-packages: as they were published, for the bundle's platform, of the versions in the lock file.

`MACOSX_DEPLOYMENT_TARGET` tells uv which macOS to choose wheels for; without it, it silently takes older releases. The
lock file has hashes and names no registry; it is written anew by `uv run packaging/build.py --lock`.
"""

import shutil
import tempfile
from pathlib import Path

from bundling.layout import MINIMUM_SYSTEM, PYTHON, ROOT, dotted
from bundling.tools import run, uv

LOCK = ROOT / "packaging" / "requirements.txt"
FOR_MACOS = ("--python-platform", "aarch64-apple-darwin", "--python-version", PYTHON, "--only-binary", ":all:")
_FOR_LINUX = ("--python-platform", "x86_64-manylinux_2_35", "--python-version", PYTHON, "--only-binary", ":all:")
_PLATFORM = {"darwin": FOR_MACOS, "linux": _FOR_LINUX}
_TARGET = {"MACOSX_DEPLOYMENT_TARGET": dotted(MINIMUM_SYSTEM)}
_HEADER = (
    "# Every package in Redline.app, for macOS and, for tests, Linux. Written by `uv run packaging/build.py --lock`.\n"
)
_PLACES = (
    "direct_url.json",
    "uv_cache.json",
    "REQUESTED",
    "INSTALLER",
)  # tell where from and by whom, nothing of the package


def lock() -> None:
    """Choose versions anew, for both platforms at once."""
    wanted = ("--universal", "--python-version", PYTHON, "--only-binary", ":all:", "--generate-hashes")
    quiet = ("--quiet", "--no-header", "--no-annotate")
    pins = run(uv(), "pip", "compile", *wanted, *quiet, "--upgrade", "pyproject.toml", cwd=ROOT, environment=_TARGET)
    LOCK.write_text(_HEADER + pins)


def install(site_packages: Path, platform: str) -> None:
    """All packages, and Redline itself, built from this repository."""
    into = (
        "pip",
        "install",
        "--quiet",
        "--no-deps",
        "--target",
        site_packages,
        "--link-mode",
        "copy",
        *_PLATFORM[platform],
    )
    run(uv(), *into, "--require-hashes", "--requirement", LOCK, environment=_TARGET)
    with tempfile.TemporaryDirectory() as folder:
        run(uv(), "build", "--quiet", "--wheel", "--out-dir", folder, cwd=ROOT)
        run(uv(), *into, *Path(folder).glob("*.whl"), environment=_TARGET)
    for name in _PLACES:
        for file in site_packages.glob(f"*.dist-info/{name}"):
            file.unlink()
    for leftover in ("bin", ".lock"):  # commands for a terminal, which name the Python that installed them
        path = site_packages / leftover
        if path.is_dir():
            shutil.rmtree(path)
        else:
            path.unlink(missing_ok=True)
