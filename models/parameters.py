"""The parameters of a network, by name, and what they weigh."""

from typing import Any

import mlx.core as mx
from mlx.utils import tree_flatten


def flat_parameters(network: Any) -> dict[str, mx.array]:
    """Returns every parameter of an MLX module by its dotted name."""
    return dict(tree_flatten(network.parameters()))


def cast(network: Any, dtype: mx.Dtype) -> None:
    """Casts every parameter of floats to `dtype` but those that the network's `cast_predicate`, a function of their
    names as in mlx-lm, keeps: the biases by which experts are chosen, which 16 bits would round. Lazy."""
    may_cast = getattr(network, "cast_predicate", lambda _: True)
    changed = [
        (name, value.astype(dtype))
        for name, value in flat_parameters(network).items()
        if mx.issubdtype(value.dtype, mx.floating) and may_cast(name)
    ]
    network.load_weights(changed, strict=False)


def weights_bytes(network: Any) -> int:
    """Returns the bytes of all parameters, as they will be held in memory."""
    return sum(array.nbytes for array in flat_parameters(network).values())
