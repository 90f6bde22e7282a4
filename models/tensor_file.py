"""Tensors of MLX as a file of safetensors."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

import mlx.core as mx


def write_tensors(path: Path, tensors: Mapping[str, mx.array], form: str = "mlx") -> None:
    """Write `tensors` and wait until the disk has them. form: the "format" of their metadata, which readers ask for.

    Raises OSError, also for a disk that is full: MLX, when it opens the file itself, has errors of its own for that.
    """
    with path.open("wb") as file:
        mx.save_safetensors(file, dict(tensors), {"format": form})
        file.flush()
        os.fsync(file.fileno())
