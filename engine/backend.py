"""Which device, which dtype, which BLAS: the only file that knows, and the only one below
`app/` that reads the environment.

On Apple Silicon MLX runs on Metal and nothing here applies. On Linux the `mlx-cpu` wheel
links the reference BLAS (1.4 GFLOP/s in float32); oneMKL, loaded with global symbols before
the first `import mlx.core`, takes its place (12 GFLOP/s at one row, 160 at 64 rows).
"""

from __future__ import annotations

import ctypes
import os
import sys
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path

THREAD_SETTINGS = {
    # A spinning OpenMP worker takes a core from the thread that builds the next graph.
    "KMP_BLOCKTIME": "1",
}


@dataclass(frozen=True)
class Backend:
    """What this process computes with.

    device: "gpu" or "cpu". blas: "metal", "mkl" or "reference". dequantize: whether quantized
    and 16-bit weights are turned into float32 at load, because their CPU kernels are scalar code.
    """

    device: str
    blas: str
    dequantize: bool
    detail: str


_blas = ("reference", "mkl was not looked for")


def prepare() -> None:
    """Load a fast BLAS where one is needed. Call before MLX is imported; later it is too late."""
    global _blas
    if sys.platform != "linux" or _blas[0] == "mkl":
        return
    if "mlx.core" in sys.modules:
        _blas = ("reference", "mlx was imported before redline, so the fast BLAS could not be put first")
        return
    for name, value in THREAD_SETTINGS.items():
        os.environ.setdefault(name, value)
    _blas = _load_mkl()


def _load_mkl() -> tuple[str, str]:
    path = mkl_library()
    if path is None:
        return "reference", "the package mkl is not installed: matrix products run about ten times slower"
    try:
        ctypes.CDLL(str(path), ctypes.RTLD_GLOBAL)
    except OSError as error:
        return "reference", f"{path.name} does not load ({error})"
    return "mkl", path.name


def mkl_library() -> Path | None:
    """The installed `libmkl_rt`, found through the package's own file list."""
    try:
        files = distribution("mkl").files or []
    except PackageNotFoundError:
        return None
    found = [Path(str(f.locate())) for f in files if f.name.startswith("libmkl_rt.so")]
    return next((p for p in found if p.exists()), None)


def describe() -> Backend:
    """The backend of this process; imports MLX."""
    import mlx.core as mx

    if mx.metal.is_available():
        return Backend("gpu", "metal", dequantize=False, detail=str(mx.device_info().get("device_name", "Metal")))
    if mx.default_device().type == mx.DeviceType.gpu:
        return Backend("gpu", "cuda", dequantize=False, detail=str(mx.device_info().get("device_name", "CUDA")))
    return Backend("cpu", _blas[0], dequantize=True, detail=_blas[1])
