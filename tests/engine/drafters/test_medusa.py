"""Medusa as a drafter: its tree over the heads' guesses, the state it reads, and texts that stay the target's."""

from collections.abc import Sequence
from typing import Any

import mlx.core as mx
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.drafters.eagle3 import Eagle3Head
from engine.drafters.medusa import Medusa, MedusaHeads, default_tree, parents_of
from engine.settings import SamplingSettings
from engine.target.cached_model import CachedModel
from engine.target.layer_taps import NORMED
from tests.engine.drafters.eagle3_reference import Reference
from tests.engine.replies import PROMPT, draft_context
from tests.toys.architectures import build
from tests.toys.heads import VARIANTS, random_eagle3, random_medusa, weights_of

NETWORKS = {name: build(name) for name in ("llama", "gemma3_text", "qwen3_next")}
TREE = default_tree(3, 12)
WARM = SamplingSettings(temperature=0.9, seed=3)
PENALIZED = SamplingSettings(temperature=0.8, seed=4, presence_penalty=0.7, frequency_penalty=0.3)


def medusa(target: CachedModel, heads: Any = None, tree: Sequence[Sequence[int]] = TREE, trees: bool = True) -> Medusa:
    if heads is None:
        heads = random_medusa()
        heads.tie_lm_head(mx.random.normal((24, 32), key=mx.random.key(7)))
    return Medusa(heads, tree, target, trees)


def medusa_after(network: Any, tokens: Sequence[int], **how: Any) -> Medusa:
    """A drafter whose target has seen all but the last of `tokens`."""
    target = CachedModel(network)
    drafter = medusa(target, **how)
    target.record(drafter.needs.taps, latest_only=True)
    for _ in target.prefill(tokens[:-1]):
        pass
    drafter.rewind(len(tokens) - 1)
    drafter.sync(tokens)
    return drafter


def distributions(tokens: Sequence[int]) -> np.ndarray:
    """What the random heads make of the target's state at the last token but one: (3, 24), by numpy."""
    target = CachedModel(NETWORKS["llama"])
    target.record((NORMED,))
    features = target.taps
    assert features is not None
    target.feed(tokens[:-1])
    heads = medusa(target).heads
    logits = np.array(heads(features.take(len(tokens) - 2, len(tokens) - 1)), np.float64)[:, 0]
    chances = np.exp(logits - logits.max(-1, keepdims=True))
    return np.asarray(chances / chances.sum(-1, keepdims=True))


# --- what is proposed -----------------------------------------------------------------------------


@pytest.mark.parametrize("length", [1, 2, 3, 5, 12, 30])
def test_a_draft_of_n_nodes_is_the_first_n_paths_of_the_tree(length: int) -> None:
    drafter = medusa_after(NETWORKS["llama"], PROMPT)
    draft = drafter.propose(draft_context(PROMPT), length)
    paths, chances, ids = TREE[:length], distributions(PROMPT), drafter.heads.ids.tolist()
    order = np.argsort(-chances, -1)
    assert draft.tokens.tolist() == [ids[order[len(path) - 1, path[-1]]] for path in paths]
    assert draft.logq is None and draft.q is not None
    wanted = [chances[len(path) - 1, order[len(path) - 1, path[-1]]] for path in paths]
    assert np.allclose(np.array(draft.q), wanted, atol=1e-5)
    if length <= 2:
        assert draft.tree is None  # a chain, as far as that
    else:
        assert draft.tree is not None
        parents = draft.tree.parents.tolist()
        assert all(paths[i][:-1] == (paths[p] if p >= 0 else ()) for i, p in enumerate(parents))
        assert draft.tree.depth == max(map(len, paths))


def test_without_trees_it_drafts_every_heads_first_guess() -> None:
    drafter = medusa_after(NETWORKS["llama"], PROMPT, trees=False)
    best = np.argmax(distributions(PROMPT), -1)
    for length in (1, 2, 3, 9):
        draft = drafter.propose(draft_context(PROMPT), length)
        assert draft.tree is None and draft.logq is None
        assert draft.tokens.tolist() == [drafter.heads.ids.tolist()[i] for i in best[:length]]


def test_coupled_children_are_the_best_under_the_targets_noise_at_their_depth() -> None:
    drafter, log = medusa_after(NETWORKS["llama"], PROMPT), np.log(distributions(PROMPT)) / 4
    place = draft_context(PROMPT, SamplingSettings(temperature=4, seed=5), "coupled")
    draft = drafter.propose(place, 12)
    ids = drafter.heads.ids
    noise = place.sampler.noise.gumbel(0, len(PROMPT) + mx.arange(3), 64)[:, ids]  # type: ignore[arg-type]
    order = np.argsort(-(log + np.array(noise)), -1)
    wanted = [ids.tolist()[order[len(path) - 1, path[-1]]] for path in TREE]
    assert draft.tokens.tolist() == wanted
    assert wanted != [ids.tolist()[np.argsort(-log, -1)[len(path) - 1, path[-1]]] for path in TREE]


def test_ranks_beyond_the_draft_vocabulary_are_left_out() -> None:
    heads = random_medusa(draft_vocab_size=2)
    heads.tie_lm_head(mx.random.normal((2, 32)))
    draft = medusa_after(NETWORKS["llama"], PROMPT, heads=heads, tree=[(0,), (1,), (2,), (1, 0)]).propose(
        draft_context(PROMPT), 9
    )
    assert draft.tree is not None and draft.tree.parents.tolist() == [-1, -1, 1]


def test_what_is_reused_ends_where_a_state_is_held() -> None:
    target = CachedModel(NETWORKS["llama"])
    drafter = medusa(target)
    assert drafter.reusable(0) == 0 and drafter.reusable(5) == 4
    target.record(drafter.needs.taps, latest_only=True)
    target.feed(PROMPT)
    for known, reach in ((len(PROMPT), len(PROMPT)), (5, 5), (1, 1), (0, 0)):
        assert drafter.reusable(known) == reach
    target.forward(mx.array([1, 2]))
    for known, reach in ((len(PROMPT) + 2, len(PROMPT) + 2), (len(PROMPT), len(PROMPT)), (5, 4), (1, 0)):
        assert drafter.reusable(known) == reach


# --- networks ---


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
        ([(1,), (0,)], "or a likelier sibling"),
        ([(0,), (0, 1)], "or a likelier sibling"),
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
