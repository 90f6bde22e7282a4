"""The networks of heads compute what their reference does, and trees of ranks are nested."""

from __future__ import annotations

import mlx.core as mx
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.drafters.eagle3 import Eagle3Head
from engine.drafters.medusa import MedusaHeads, default_tree, parents_of
from tests.engine.drafters.eagle3_reference import Reference
from tests.toys.heads import VARIANTS, random_eagle3, random_medusa, weights_of


class Seen:
    """Attention over everything shown so far, as a drafter of chains has it."""

    def __init__(self, head: Eagle3Head, first: int) -> None:
        self._head, self._position = head, first
        self._keys: list[mx.array] = []
        self._values: list[mx.array] = []

    def __call__(self, queries: mx.array, keys: mx.array, values: mx.array) -> mx.array:
        rope, scale = self._head.rope, self._head.scale
        self._keys.append(rope(keys, offset=self._position))
        self._values.append(values)
        queries = rope(queries, offset=self._position)
        self._position += queries.shape[2]
        keys, values = mx.concatenate(self._keys, 2), mx.concatenate(self._values, 2)
        return mx.fast.scaled_dot_product_attention(queries, keys, values, scale=scale, mask="causal")


def noise(*shape: int, seed: int = 1) -> np.ndarray:
    return np.random.default_rng(seed).normal(size=shape).astype(np.float32)


@pytest.mark.parametrize("variant", VARIANTS)
def test_an_eagle3_head_computes_what_the_reference_does_step_after_step(variant: str) -> None:
    """Seven rows at once on the target's features, then four one by one on the head's own output."""
    head = random_eagle3(**VARIANTS[variant])
    c, reference, attend = head.config, Reference(head.config, weights_of(head)), Seen(head, 3)
    features, embedded = noise(7, c.feature_size) * 3, noise(11, c.hidden_size, seed=2)
    hidden, expected = head.fuse(mx.array(features)), reference.fuse(features.astype(np.float64))
    assert np.allclose(np.array(hidden), expected, atol=1e-4)
    first = 0
    for count in (7, 1, 1, 1, 1):
        rows, first = embedded[first : first + count], first + count
        hidden = head(hidden[None], mx.array(rows)[None], attend)[0]
        expected = reference.step(expected, rows.astype(np.float64), range(first - count + 3, first + 3))
        assert np.allclose(np.array(hidden), expected, atol=1e-4)
        logits = reference.logits(expected)
        assert np.abs(logits).max() > 0.5
        assert np.allclose(np.array(head.logits(hidden)), logits, atol=1e-4)
        hidden, expected = hidden[-1:], expected[-1:]


def medusa_reference(heads: MedusaHeads, x: np.ndarray, output: np.ndarray | None) -> np.ndarray:
    """From FasterDecoding/Medusa, `medusa/model/medusa_model.py`: ResBlock, and the linear layer after the blocks."""
    weights, c = weights_of(heads), heads.config
    logits = []
    for head in range(c.num_heads):
        y = x.astype(np.float64)
        for layer in range(c.num_layers):
            z = y @ weights[f"heads.{head}.{layer}.linear.weight"].T + weights[f"heads.{head}.{layer}.linear.bias"]
            y = y + z / (1 + np.exp(-z))
        logits.append(y @ (weights[f"heads.{head}.{c.num_layers}.weight"] if output is None else output).T)
    return np.stack(logits)


@pytest.mark.parametrize("own_output", [True, False])
def test_medusa_heads_compute_what_the_reference_does(own_output: bool) -> None:
    heads = random_medusa(own_output=own_output)
    output, x = noise(24, 32), noise(5, 32)
    if not own_output:
        heads.tie_lm_head(mx.array(output))
    logits = np.array(heads(mx.array(x)))
    assert logits.shape == (3, 5, 24)
    assert np.allclose(logits, medusa_reference(heads, x, None if own_output else output), atol=1e-4)
    assert np.allclose(np.array(heads(mx.array(x), 2)), logits[:2], atol=1e-6)
    if not own_output:
        heads.tie_lm_head(lambda states: states @ mx.array(output).T)
        assert np.allclose(np.array(heads(mx.array(x))), logits, atol=1e-6)


# --- trees of ranks -------------------------------------------------------------------------------


def test_parents_are_places_in_the_list() -> None:
    assert parents_of([(0,), (1,), (0, 0), (0, 1), (0, 0, 0), (1, 0)], 3) == [-1, -1, 0, 0, 2, 1]
    assert parents_of([], 3) == []


@pytest.mark.parametrize(
    ("paths", "reason"),
    [
        ([()], "1 to 3 long"),
        ([(0,), (0, 0), (0, 0, 0), (0, 0, 0, 0)], "1 to 3 long"),
        ([(0,), (0,)], "occurs twice"),
        ([(0, 0), (0,)], "precedes its parent"),
        ([(1,), (0,)], "before a likelier sibling"),
        ([(0,), (0, 1)], "before a likelier sibling"),
    ],
)
def test_a_list_of_paths_that_is_no_nested_tree_is_refused(paths: list[tuple[int, ...]], reason: str) -> None:
    with pytest.raises(ValueError, match=reason):
        parents_of(paths, 3)


@given(depth=st.integers(1, 8), size=st.integers(1, 80))
def test_a_plain_tree_is_nested_of_its_size_and_grows_from_the_likeliest(depth: int, size: int) -> None:
    tree = default_tree(depth, size)
    assert len(tree) == size or (depth == 1 and len(tree) == 10)
    parents_of(tree, depth)
    assert tree[0] == (0,)
    assert default_tree(depth, size + 1)[:size] == tree
