"""Rotary positions row by row, where mlx-lm's modules know one offset for all rows."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from inspect import signature
from typing import Any

import mlx.core as mx


def rotate(rope: Any, x: mx.array, positions: int | mx.array) -> mx.array:
    """Apply `rope` to x (batch, heads, n, width): row i at `positions[i]` (n,), or at `positions + i` for an int.

    One offset a batch entry is what MLX knows, so with an array the rows travel as a batch; that needs batch 1.
    """
    if isinstance(positions, int):
        rotated: mx.array = rope(x, offset=positions)
    else:
        rotated = by_row(rope)(x, offset=positions)
    return rotated


def by_row(rope: Any) -> Callable[..., mx.array]:
    """`rope` for rows that all stand at the one `offset`, x (1, heads, n, width): they travel as a batch."""
    return lambda x, offset: rope(x.swapaxes(0, 2), offset=offset).swapaxes(0, 2)


def by_rows(model: Any) -> None:
    """Teach the rotary modules of `model` to take one position a row, as an array (n,) in place of the offset.

    They are known by how they are called, (x, offset), whatever their name. They get a subclass of their own
    class; what they do with one offset for all, or with one for each of several texts, stays as it was.
    """
    for module in model.modules():
        kind: Any = type(module)
        if _rotates(kind) and not hasattr(module, "rotates_rows"):
            module.__class__ = _by_rows(kind)


@cache
def _rotates(kind: type) -> bool:
    return list(signature(kind.__call__).parameters)[1:3] == ["x", "offset"]


@cache
def _by_rows(kind: type) -> type:
    class ByRows(kind):  # type: ignore[misc]
        rotates_rows = True

        def __call__(self, x: mx.array, offset: Any = 0, **named: Any) -> Any:
            call = super().__call__
            rows = isinstance(offset, mx.array) and offset.ndim > 0 and (len(x), x.shape[-2]) == (1, offset.size)
            if not rows:
                return call(x, offset=offset, **named)
            return rotate(lambda rows, offset: call(rows, offset=offset, **named), x, offset)

    ByRows.__name__, ByRows.__qualname__, ByRows.__module__ = kind.__name__, kind.__qualname__, kind.__module__
    return ByRows
