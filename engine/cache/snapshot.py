"""What caches hold, as plain values that outlive them: dicts, lists and tuples of arrays, numbers and None.

A snapshot shares its arrays with the caches and costs no memory until those change: MLX writes out of place while
another handle is held.
"""

from collections.abc import Sequence
from typing import Any

import mlx.core as mx

Snapshot = Any


def capture(caches: Sequence[Any]) -> Snapshot:
    """Returns what these caches hold."""
    return [new_handles(vars(cache)) for cache in caches]


def restore(caches: Sequence[Any], snapshot: Snapshot) -> None:
    """Has the caches hold what `capture` returned of as many caches of the same kinds. It can be restored again."""
    for cache, state in zip(caches, snapshot, strict=True):
        vars(cache).update(new_handles(state))


def new_handles(value: Snapshot) -> Snapshot:
    """Returns the same values with new handles: an in-place write through the old ones leaves these alone."""
    if isinstance(value, mx.array):
        return mx.array(value)
    if isinstance(value, dict):
        return {k: new_handles(v) for k, v in value.items()}
    if isinstance(value, list | tuple):
        return type(value)(new_handles(v) for v in value)
    return value


def arrays_in(value: Snapshot) -> list[mx.array]:
    """Returns every array in it."""
    if isinstance(value, mx.array):
        return [value]
    if isinstance(value, dict):
        value = list(value.values())
    return [a for v in value for a in arrays_in(v)] if isinstance(value, list | tuple) else []
