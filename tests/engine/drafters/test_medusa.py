"""Medusa as a drafter: its tree over the heads' guesses, the state it reads, and texts that stay the target's."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import mlx.core as mx
import numpy as np
import pytest

from engine.drafters import DraftContext
from engine.drafters.medusa import Medusa, default_tree
from engine.metrics import Metrics
from engine.policy.fixed import FixedLength
from engine.sampling import Sampler, TokenCounts
from engine.session import Session
from engine.settings import AcceptanceRule, SamplingSettings
from engine.target.cached_model import CachedModel
from engine.target.layer_taps import NORMED
from tests.engine.fakes import ByteTokenizer
from tests.engine.replies import PROMPT, plain_reply, reply
from tests.toys.architectures import build
from tests.toys.heads import Remembering, random_medusa

NETWORKS = {name: build(name) for name in ("llama", "gemma3_text", "qwen3_next")}
BRANCHES = ("llama", "gemma3_text")
TREE = default_tree(3, 12)
WARM = SamplingSettings(temperature=0.9, seed=3)
PENALIZED = SamplingSettings(temperature=0.8, seed=4, presence_penalty=0.7, frequency_penalty=0.3)


def medusa(target: CachedModel, heads: Any = None, tree: Sequence[Sequence[int]] = TREE, trees: bool = True) -> Medusa:
    if heads is None:
        heads = random_medusa()
        heads.tie_lm_head(mx.random.normal((24, 32), key=mx.random.key(7)))
    return Medusa(heads, tree, target, trees)


def standing(
    tokens: Sequence[int], sampling: SamplingSettings | None = None, rule: AcceptanceRule = "rejection"
) -> DraftContext:
    sampler = Sampler(replace(sampling or SamplingSettings(), acceptance=rule), 64)
    return DraftContext(tokens, TokenCounts(sampler.distribution, tokens), sampler)


def fed(network: Any, tokens: Sequence[int], **how: Any) -> Medusa:
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
    drafter = fed(NETWORKS["llama"], PROMPT)
    draft = drafter.propose(standing(PROMPT), length)
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
    drafter = fed(NETWORKS["llama"], PROMPT, trees=False)
    best = np.argmax(distributions(PROMPT), -1)
    for length in (1, 2, 3, 9):
        draft = drafter.propose(standing(PROMPT), length)
        assert draft.tree is None and draft.logq is None
        assert draft.tokens.tolist() == [drafter.heads.ids.tolist()[i] for i in best[:length]]


def test_siblings_are_different_tokens_however_they_are_chosen() -> None:
    drafter = fed(NETWORKS["llama"], PROMPT)
    for sampling in (SamplingSettings(), WARM, PENALIZED):
        for rule in ("rejection", "coupled"):
            draft = drafter.propose(standing(PROMPT, sampling, rule), 12)  # type: ignore[arg-type]
            assert draft.tree is not None
            family = list(zip(draft.tree.parents.tolist(), draft.tokens.tolist(), strict=True))
            assert len(set(family)) == 12


def test_coupled_children_are_the_best_under_the_targets_noise_at_their_depth() -> None:
    drafter, log = fed(NETWORKS["llama"], PROMPT), np.log(distributions(PROMPT)) / 4
    place = standing(PROMPT, SamplingSettings(temperature=4, seed=5), "coupled")
    draft = drafter.propose(place, 12)
    ids = drafter.heads.ids
    noise = place.sampler.noise.gumbel(0, len(PROMPT) + mx.arange(3), 64)[:, ids]  # type: ignore[arg-type]
    order = np.argsort(-(log + np.array(noise)), -1)
    wanted = [ids.tolist()[order[len(path) - 1, path[-1]]] for path in TREE]
    assert draft.tokens.tolist() == wanted
    assert wanted != [ids.tolist()[np.argsort(-log, -1)[len(path) - 1, path[-1]]] for path in TREE]


def test_penalties_shape_what_is_proposed() -> None:
    drafter = fed(NETWORKS["llama"], PROMPT)
    banned = SamplingSettings(temperature=1, presence_penalty=50.0)
    assert not set(drafter.propose(standing(PROMPT, banned), 12).tokens.tolist()) & set(PROMPT)
    assert set(drafter.propose(standing(PROMPT), 12).tokens.tolist()) & set(PROMPT)


def test_nothing_is_proposed_for_no_length_and_before_there_is_a_state() -> None:
    drafter = fed(NETWORKS["llama"], PROMPT)
    assert drafter.propose(standing(PROMPT), 0).tokens.size == 0
    assert fed(NETWORKS["llama"], [5]).propose(standing([5]), 4).tokens.size == 0


def test_nothing_waits_for_the_device(monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither state nor guesses are computed while a draft is proposed."""
    drafter = fed(NETWORKS["llama"], PROMPT)
    for name in ("eval", "async_eval"):
        monkeypatch.setattr(mx, name, lambda *_: pytest.fail("an evaluation"))
    drafter.propose(standing(PROMPT), 12)


def test_ranks_beyond_the_draft_vocabulary_are_left_out() -> None:
    heads = random_medusa(draft_vocab_size=2)
    heads.tie_lm_head(mx.random.normal((2, 32)))
    draft = fed(NETWORKS["llama"], PROMPT, heads=heads, tree=[(0,), (1,), (2,), (1, 0)]).propose(standing(PROMPT), 9)
    assert draft.tree is not None and draft.tree.parents.tolist() == [-1, -1, 1]


def test_a_tree_that_is_none_is_refused() -> None:
    with pytest.raises(ValueError, match="precedes its parent"):
        medusa(CachedModel(NETWORKS["llama"]), tree=[(0, 0)])


def test_a_state_that_is_not_there_is_an_error_and_no_silence() -> None:
    drafter = fed(NETWORKS["llama"], PROMPT)
    with pytest.raises(ValueError, match="are requested"):
        drafter.propose(standing([*PROMPT, 1, 2]), 4)


# --- texts ----------------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize("trees", [False, True])
@pytest.mark.parametrize("sampling", [SamplingSettings(), WARM, PENALIZED])
@pytest.mark.parametrize("name", NETWORKS)
def test_the_text_is_the_targets_whatever_the_heads_guess(name: str, sampling: SamplingSettings, trees: bool) -> None:
    """Heads that know nothing, and heads that know the text but for every fourth token."""
    if trees and name not in BRANCHES:
        pytest.skip("its cache holds no tree")
    network = NETWORKS[name]
    plain = plain_reply(network, sampling=sampling, tokens=60)
    lucky = Remembering(network, [*PROMPT, *plain], wrong=frozenset(range(0, 99, 4)))
    for heads, least in ((None, 1.0), (lucky, 1.9)):
        for length in (1, 4, 12):
            target = CachedModel(network)
            ids, rounds, _ = reply(target, medusa(target, heads, trees=trees), length, sampling, tokens=60)
            assert ids == plain
            if length > 1 and sampling.greedy:
                assert (Metrics.of(rounds).mean_acceptance_length or 0) >= least


@pytest.mark.slow_for("gemma3_text")
@pytest.mark.parametrize("name", BRANCHES)
def test_second_guesses_make_a_tree_longer_than_a_chain(name: str) -> None:
    network = NETWORKS[name]
    plain = plain_reply(network, tokens=60)
    heads = Remembering(network, [*PROMPT, *plain], wrong=frozenset(range(0, 99, 2)))
    taus = []
    for trees, length in ((False, 3), (True, 12)):
        target = CachedModel(network)
        _, rounds, _ = reply(target, medusa(target, heads, trees=trees), length, tokens=60)
        taus.append(Metrics.of(rounds).mean_acceptance_length or 0)
    assert taus[0] < 2.4 and taus[1] > 3


@pytest.mark.parametrize("name", NETWORKS)
@pytest.mark.slow
def test_turns_edits_and_other_drafters_between_leave_the_text_as_it_is(name: str) -> None:
    """Every way in which a reply may begin where the target's cache already holds all, some or none of its prompt."""
    target = CachedModel(NETWORKS[name])
    session = Session(target, ByteTokenizer(), 500)
    drafters = [medusa(target, trees=name in BRANCHES), None, medusa(target, trees=False)]
    plans = [
        (PROMPT, 0),
        (PROMPT, 0),
        ([*PROMPT, 8, 9], 0),
        (PROMPT[:9], 2),
        (PROMPT, 1),
        (PROMPT, 0),
        ([7], 0),
        ([7, 8], 0),
    ]
    settings = SamplingSettings(acceptance="coupled", max_tokens=12)
    for prompt, who in plans:
        expected = plain_reply(NETWORKS[name], tokens=12, prompt=list(prompt))
        list(session.continue_tokens(prompt, settings, drafters[who], FixedLength(5)))
        assert session.tokens[len(prompt) :] == expected
        whole = list(session.tokens)
        list(session.continue_tokens([*whole, 3], settings, drafters[who], FixedLength(5)))
        assert session.tokens[len(whole) + 1 :] == reply(NETWORKS[name], tokens=12, prompt=[*whole, 3])[0]


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
