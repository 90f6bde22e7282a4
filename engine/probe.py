"""What a target can do, found out by trying."""

from __future__ import annotations

import mlx.core as mx

from engine.errors import RedlineError
from engine.target import CachedModel
from engine.tree import Tree

_PREFIX = (5, 2, 7)
_NODES, _PARENTS = (3, 6, 4, 1, 2), (-1, -1, 0, 1, 2)
_TOLERANCE = {mx.float32: 1e-3, mx.float16: 0.05, mx.bfloat16: 0.2}  # of the spread of the logits


def tree_trouble(target: CachedModel) -> str | None:
    """Why this target cannot verify a tree in one pass, or None when it can. Empties its cache.

    The caches must be able to leave rows out of the middle; and a small tree must give what its ways give one by one,
    which finds models that compute positions or masks in a manner of their own.
    """
    if not target.cache.branches:
        kinds = sorted({type(entry).__name__ for entry in target.cache.entries})
        return f"its memory ({', '.join(kinds)}) cannot leave refused branches out"
    try:
        return _compared(target)
    except (RedlineError, AttributeError, TypeError, ValueError, RuntimeError) as error:  # from a hundred models' code
        return f"mlx-lm's code for it takes one position a pass ({type(error).__name__})"
    finally:
        target.rewind(0)


def _compared(target: CachedModel) -> str | None:
    """A pass over the tree against a pass over each of its ways."""
    together = _rows(target, _NODES, Tree.of(_PARENTS))
    for node in range(len(_NODES)):
        way = _way(node)
        alone = _rows(target, [_NODES[i] for i in way], None)
        rows = together[mx.array([0, *(i + 1 for i in way)])]
        spread = mx.maximum(mx.std(alone.astype(mx.float32)), 1e-6)
        off = mx.max(mx.abs(rows.astype(mx.float32) - alone.astype(mx.float32))) / spread
        if not float(off) < _TOLERANCE.get(alone.dtype, 1e-3):
            return "a pass over a tree gives other logits than its ways one by one"
    return None


def _rows(target: CachedModel, tokens: tuple[int, ...] | list[int], shape: Tree | None) -> mx.array:
    """Logits of the last token of the prefix and of each of `tokens`, evaluated."""
    target.rewind(0)
    small = [token % target.vocabulary for token in tokens]
    target.feed([token % target.vocabulary for token in _PREFIX[:-1]])
    logits, _ = target.continue_from([t % target.vocabulary for t in _PREFIX], mx.array(small, mx.int32), shape)
    mx.eval(logits)
    return logits


def _way(node: int) -> list[int]:
    """The nodes from the root down to `node`."""
    way = [node]
    while _PARENTS[way[0]] >= 0:
        way.insert(0, _PARENTS[way[0]])
    return way
