"""Rotary positions for each row, where mlx-lm's modules know one offset for all rows."""

from collections.abc import Callable
from functools import cache
from inspect import signature
from typing import Any

import mlx.core as mx


def rows_as_batch(rope: Any) -> Callable[..., mx.array]:
    """Returns `rope` for x (1, heads, n, width) whose rows travel as a batch: MLX knows one offset for each batch
    entry, so `offset` may be one position for all rows, or an array (n,) of one for each."""
    return lambda x, offset: rope(x.swapaxes(0, 2), offset=offset).swapaxes(0, 2)


def enable_row_positions(model: Any) -> None:
    """Makes the rotary modules of `model` accept one position for each row, as an array (n,) in place of the offset.

    They are known by how they are called, (x, offset), whatever their name. They get a subclass of their own
    class; what they do with one offset for all, or with one for each of several texts, stays as it was.
    """
    for module in model.modules():
        kind: Any = type(module)
        if _rotates(kind) and not hasattr(module, "rotates_rows"):
            module.__class__ = _rotating_rows(kind)


@cache
def _rotates(kind: type) -> bool:
    return list(signature(kind.__call__).parameters)[1:3] == ["x", "offset"]


@cache
def _rotating_rows(kind: type) -> type:
    class RotatingRows(kind):  # type: ignore[misc]
        rotates_rows = True

        def __call__(self, x: mx.array, offset: Any = 0, **named: Any) -> Any:
            call = super().__call__
            rows = isinstance(offset, mx.array) and offset.ndim > 0 and (len(x), x.shape[-2]) == (1, offset.size)
            if not rows:
                return call(x, offset=offset, **named)
            return rows_as_batch(lambda rows, offset: call(rows, offset=offset, **named))(x, offset)

    for name in ("__name__", "__qualname__", "__module__"):
        setattr(RotatingRows, name, getattr(kind, name))
    return RotatingRows
