"""Medusa as a drafter: its tree over the heads' guesses, the state it reads, and texts that stay the target's."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import mlx.core as mx
import numpy as np
import pytest

from engine.drafters.medusa import Medusa, default_tree
from engine.settings import SamplingSettings
from engine.target.cached_model import CachedModel
from engine.target.layer_taps import NORMED
from tests.engine.replies import PROMPT, draft_context
from tests.toys.architectures import build
from tests.toys.heads import random_medusa

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
    assert drafter.reusable_prefix() == 0
    target.record(drafter.needs.taps, latest_only=True)
    target.feed(PROMPT)
    for known, reach in ((len(PROMPT), len(PROMPT)), (5, 5), (1, 1), (0, 0)):
        drafter.rewind(known)
        assert drafter.reusable_prefix() == reach
    target.forward(mx.array([1, 2]))
    for known, reach in ((len(PROMPT) + 2, len(PROMPT) + 2), (len(PROMPT), len(PROMPT)), (5, 4), (1, 0)):
        drafter.rewind(known)
        assert drafter.reusable_prefix() == reach
