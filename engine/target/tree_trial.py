"""Whether a target can verify a tree of drafts in one pass: found out by trying."""

import mlx.core as mx
import numpy as np

from engine.backend import raise_if_machine_lost, to_numpy
from engine.errors import RedlineError
from engine.target.cached_model import CachedModel
from engine.target.joint_pass import equal_logits
from engine.target.sharded_target import check_present
from engine.tree.draft_tree import DraftTree

_PREFIX = (5, 2, 7)
_NODES, _PARENTS = (3, 6, 4, 1, 2), (-1, -1, 0, 1, 2)


def why_no_trees(target: CachedModel) -> str | None:
    """Returns why this target cannot verify a tree in one pass, None if it can. Empties its cache.

    The caches must be able to drop rows from their middle; and a small tree must give the logits that its paths give
    one by one, which finds models that compute positions or masks in their own way.
    """
    if not target.cache.supports_trees:
        kinds = sorted({type(entry).__name__ for entry in target.cache.entries})
        return f"its memory ({', '.join(kinds)}) cannot drop refused branches"
    try:
        return _compare(target)
    except (RedlineError, AttributeError, TypeError, ValueError, RuntimeError) as error:  # from a hundred models' code
        raise_if_machine_lost(error)
        return f"mlx-lm's code for it handles only one position per pass ({type(error).__name__})"
    finally:
        target.rewind(0)


def _compare(target: CachedModel) -> str | None:
    """Compares a pass over the tree with a pass over each of its paths."""
    tree = DraftTree.of(_PARENTS)
    together = _rows(target, _NODES, tree)
    for reach in to_numpy(tree.reach):
        path = np.flatnonzero(reach).tolist()
        alone = _rows(target, [_NODES[i] for i in path], None)
        if not equal_logits(together[mx.array([0, *(i + 1 for i in path)])], alone):
            return "a pass over a tree gives different logits from its paths one by one"
    return None


def _rows(target: CachedModel, tokens: tuple[int, ...] | list[int], tree: DraftTree | None) -> mx.array:
    """Returns the logits of the last token of the prefix and of each of `tokens`, evaluated."""
    target.rewind(0)
    small = [token % target.vocabulary for token in tokens]
    target.feed([token % target.vocabulary for token in _PREFIX[:-1]])
    logits, _ = target.continue_from([t % target.vocabulary for t in _PREFIX], mx.array(small, mx.int32), tree)
    mx.eval(logits)
    check_present(target.absent)
    return logits
