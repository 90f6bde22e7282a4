"""The parameters of a network as a flat dictionary, with types."""

from __future__ import annotations

from typing import Any

import mlx.core as mx
from mlx.utils import tree_flatten


def flat(network: Any) -> dict[str, mx.array]:
    """Every parameter by its dotted name."""
    found: Any = tree_flatten(network.parameters())
    return dict(found)


def flat_trainable(network: Any) -> dict[str, mx.array]:
    """Those that training changes."""
    found: Any = tree_flatten(network.trainable_parameters())
    return dict(found)


def rounded(network: Any, dtype: mx.Dtype) -> None:
    """Round every parameter as `dtype` would, and keep float32."""
    network.set_dtype(dtype)
    network.set_dtype(mx.float32)
    mx.eval(network.parameters())
