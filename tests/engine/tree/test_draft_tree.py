"""The shape of a draft, its masks and its positions, against plain Python."""

import mlx.core as mx
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from engine.tree.draft_tree import DraftTree
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
