"""The parameters of a network, by name, and what they weigh."""

from __future__ import annotations

from typing import Any

import mlx.core as mx
from mlx.utils import tree_flatten


def flat_parameters(network: Any) -> dict[str, mx.array]:
    """Returns every parameter of an MLX module by its dotted name."""
    return dict(tree_flatten(network.parameters()))


def weights_bytes(network: Any) -> int:
    """Returns the bytes of all parameters, as they will be held in memory."""
    return sum(array.nbytes for array in flat_parameters(network).values())
