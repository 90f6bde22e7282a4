"""Device, dtype and BLAS: the only place that knows about them.

On Apple Silicon MLX runs on Metal and computes with the weights as they are. On Linux its CPU
backend gets a fast BLAS (see `blas`) and float32 weights, because its quantized and 16-bit
products are scalar code (1 to 2 GFLOP/s).
"""

from __future__ import annotations

import sys
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from engine.backend import blas
from engine.errors import MachineLostError

if TYPE_CHECKING:  # the window starts without numpy
    from numpy.typing import NDArray

_blas = ("reference", "not prepared")


@dataclass(frozen=True)
class Backend:
    """What this process computes with: device and library.

    device: "gpu" or "cpu". library: "metal", "cuda", "openblas" or "reference". dequantize: whether
    weights are turned into float32 at load. detail: a line for people.
    """

    device: str
    library: str
    dequantize: bool
    detail: str

    @property
    def dtype(self) -> str:
        return "float32" if self.dequantize else "as stored"


def prepare() -> None:
    """Loads a fast BLAS where one is needed. Must be called before MLX is imported."""
    global _blas
    if sys.platform != "linux" or _blas[0] == "openblas":
        return
    if "mlx.core" in sys.modules:
        _blas = ("reference", "mlx was imported before redline's engine, so the fast BLAS could not be put in front")
        return
    _blas = blas.load()


def describe() -> Backend:
    """Returns the backend of this process; imports MLX."""
    import mlx.core as mx

    if mx.default_device().type == mx.DeviceType.gpu:
        library = "metal" if mx.metal.is_available() else "cuda"
        return Backend("gpu", library, dequantize=False, detail=str(mx.device_info().get("device_name", library)))
    return Backend("cpu", _blas[0], dequantize=True, detail=_blas[1])


def queues() -> bool:
    """Whether what is submitted waits for the device in a queue. On the CPU `async_eval` returns only when all but the
    last hundred or so operations are done."""
    import mlx.core as mx

    return bool(mx.default_device().type == mx.DeviceType.gpu)


def prompt_chunk() -> int:
    """Returns how many tokens of a prompt are read in one pass. On a GPU as many as mlx-lm takes (`generate_step` of
    0.32): more rows make products quicker, those of experts most, by a fifth from 512 to 2,048 tokens on Apple Silicon
    (waybarrios/vllm-mlx pull request 174, lmstudio-ai/lmstudio-js issue 507). On the CPU more than 512 are no quicker
    (engine/NOTES.md, 2026-11-30) and take more memory."""
    return 2048 if queues() else 512


def raise_if_machine_lost(error: BaseException) -> None:
    """Raises MachineLostError where `error` says that a process of the same group is gone. MLX raises it from whatever
    is evaluated next, so whoever catches any error to go on without a drafter or a request asks here first. Often MLX
    raises nothing and waits for ever."""
    if isinstance(error, MachineLostError):
        raise error
    if isinstance(error, RuntimeError) and "[ring]" in str(error):
        raise MachineLostError from error


def to_numpy(array: Any) -> NDArray[Any]:
    """Returns an array of MLX, evaluated, as one of numpy's that shares no memory with it. Raises what MLX raises.

    `np.array` alone may return numbers that were never computed: MLX (0.32.4) tells of an error once, as numpy (2.x)
    asks for the buffer, and numpy then drops the error and asks in another way.
    """
    import mlx.core as mx
    import numpy as np

    mx.eval(array)
    return np.array(array)


def wired_bytes() -> int | None:
    """Returns the most bytes that macOS recommends for the GPU; None without Metal."""
    import mlx.core as mx

    return int(mx.device_info()["max_recommended_working_set_size"]) if mx.metal.is_available() else None
