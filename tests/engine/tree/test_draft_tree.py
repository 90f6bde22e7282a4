"""The shape of a draft, its masks and its positions, against plain Python."""

import mlx.core as mx
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from engine.cache.tree_cache import TreeRows
from engine.tree.draft_tree import DraftTree, tree_mask
from tests.engine.trees import forests, way

SOME = settings(max_examples=60, deadline=None)


@given(forests())
@SOME
def test_a_node_reaches_itself_and_its_ancestors(parents: list[int]) -> None:
    shape = DraftTree.of(parents)
    wanted = [[other in way(parents, node) for other in range(len(parents))] for node in range(len(parents))]
    depths = [len(way(parents, node)) for node in range(len(parents))]
    assert shape.reach.tolist() == wanted
    assert shape.depths.tolist() == depths
    assert shape.row_depths.tolist() == [0, *depths]
    assert (shape.size, shape.depth) == (len(parents), max(depths, default=0))


@given(forests(least=1), st.integers(0, 3))
@SOME
def test_parents_still_to_be_computed_and_a_depth_that_is_a_bound_give_the_same(parents: list[int], spare: int) -> None:
    known = DraftTree.of(parents)
    lazy = DraftTree(mx.array(parents, mx.int32) + mx.zeros(1, mx.int32), known.depth + spare, known.breadth)
    for name in ("reach", "depths", "row_depths"):
        assert getattr(lazy, name).tolist() == getattr(known, name).tolist()


@pytest.mark.parametrize("parents", [[0], [-1, 1], [-1, 0, 3], [-2], [-1, 0, 1, 3, 4, 0, 6, 9]])
def test_parents_that_do_not_come_before_their_children_are_refused(parents: list[int]) -> None:
    with pytest.raises(ValueError, match="parents come before"):
        DraftTree.of(parents)


def sees(parents: list[int], seen: int, lacking: int, row: int) -> set[int]:
    """The keys that a row may look at: all tokens before it, or all of them and the nodes on its way."""
    if row < lacking:
        return set(range(seen + row + 1))
    return set(range(seen + lacking)) | {seen + lacking + node for node in way(parents, row - lacking)}


def looked_at(mask: mx.array) -> list[set[int]]:
    return [{key for key, open_ in enumerate(row) if open_} for row in mask.tolist()]


@given(forests(least=1), st.integers(0, 9), st.integers(1, 4))
@SOME
def test_a_row_sees_what_is_committed_and_its_own_way(parents: list[int], seen: int, lacking: int) -> None:
    shape = DraftTree.of(parents)
    mask = tree_mask(shape.reach, seen, lacking)
    rows = range(lacking + len(parents))
    assert mask.shape == (len(rows), seen + len(rows))
    assert looked_at(mask) == [sees(parents, seen, lacking, row) for row in rows]
    branches = TreeRows.of(shape, seen, lacking)
    depths = [len(way(parents, node)) for node in range(len(parents))]
    root = seen + lacking - 1
    assert branches.positions.tolist() == [*range(seen, root + 1), *(root + depth for depth in depths)]
    assert branches.mask.tolist() == mask.tolist()


@given(forests(least=1), st.integers(0, 12), st.integers(1, 4), st.integers(1, 9), st.integers(0, 12))
@SOME
def test_a_window_counts_positions_and_not_rows(
    parents: list[int], seen: int, lacking: int, size: int, shown: int
) -> None:
    """Two siblings stand at one position, so the window of a node is not shorter for its siblings."""
    shown = min(shown, seen)
    branches = TreeRows.of(DraftTree.of(parents), seen, lacking)
    rows = range(lacking + len(parents))
    stands = [*range(seen), *branches.positions.tolist()]
    first = seen - shown
    wanted = [
        {
            key - first
            for key in sees(parents, seen, lacking, row)
            if key >= first and stands[seen + row] - stands[key] < size
        }
        for row in rows
    ]
    mask = branches.window(size, shown)
    assert mask.shape == (len(rows), shown + len(rows))
    assert looked_at(mask) == wanted
