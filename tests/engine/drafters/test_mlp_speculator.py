"""MLP speculators: the recurrence against the published formula in double precision, two rounds with a refusal between
them, and texts that stay the target's."""

import math
from collections.abc import Sequence

import mlx.core as mx
import numpy as np
import pytest

from engine.drafters.mlp_speculator import MlpSpeculator, MlpSpeculatorNetwork
from engine.settings import SamplingSettings
from engine.target.cached_model import CachedModel
from tests.engine.replies import PROMPT, draft_context
from tests.toys.architectures import build
from tests.toys.heads import random_mlp_speculator, weights_of

NETWORKS = {name: build(name) for name in ("llama", "gemma3_text", "qwen3_next")}
FORMS = [{}, {"tied": True}, {"scale_input": True}, {"tied": True, "scale_input": True, "stages": 5}]


def reference(network: MlpSpeculatorNetwork, hidden: np.ndarray, tokens: Sequence[int]) -> np.ndarray:
    """Logits of the stages after `tokens`, the first of which is the last committed one: (len(tokens), vocabulary).
    As fms-extras writes it, `fms_extras/models/speculator.py`, in double precision."""
    weights, config = weights_of(network), network.config
    n, inner = config.stages, config.inner_size
    state_weight = 0.5 ** (0.5 / n)
    emb_weight = math.sqrt((1 - state_weight**2) * (inner / 2))
    state, rows = np.array(hidden, np.float64), []

    def unit(x: np.ndarray) -> np.ndarray:
        return np.asarray(x / np.sqrt((x**2).mean(-1, keepdims=True) + 1e-6))

    if config.scale_input:
        state = unit(state) / 2**0.5
    for stage, token in enumerate(tokens):
        own = 0 if config.tied else stage
        proj = min(stage, 1) if config.tied else stage
        state = weights[f"proj.{proj}.weight"] @ state
        state = state + emb_weight / state_weight * weights[f"emb.{own}.weight"][token]
        state = unit(state) * weights[f"ln.{own}.weight"] + weights[f"ln.{own}.bias"]
        state = 0.5 * state * (1 + np.vectorize(math.erf)(state / 2**0.5))
        rows.append(weights[f"head.{own}.weight"] @ state)
    return np.array(rows)


def speculator_after(tokens: Sequence[int], **changes: object) -> MlpSpeculator:
    """A drafter whose target, the toy llama, has seen all but the last of `tokens`."""
    target = CachedModel(NETWORKS["llama"])
    drafter = MlpSpeculator(random_mlp_speculator(**changes), target)
    target.record(drafter.needs.taps, latest_only=True)
    if tokens[:-1]:
        target.feed(tokens[:-1])
    drafter.rewind(len(tokens) - 1)
    return drafter


def state_at(tokens: Sequence[int]) -> np.ndarray:
    """The target's last normed state at the last but one of `tokens`, from a pass of its own."""
    return np.array(NETWORKS["llama"].model(mx.array(list(tokens[:-1]))[None])[0, -1], np.float64)


@pytest.mark.parametrize("form", FORMS)
def test_each_stage_is_the_published_formula(form: dict[str, object]) -> None:
    network = random_mlp_speculator(**form)
    hidden, tokens = mx.random.normal((1, 32), key=mx.random.key(3)), [7, 12, 63]
    state, rows = network.scaled(hidden), []
    for stage, token in enumerate(tokens):
        state = network.advance(state, mx.array([token]), stage)
        rows.append(np.array(network.logits(state, stage)[0]))
    assert np.abs(np.array(rows) - reference(network, np.array(hidden[0]), tokens)).max() < 1e-5


@pytest.mark.parametrize("form", FORMS)
def test_two_rounds_draft_what_the_formula_says_with_a_refusal_between_them(form: dict[str, object]) -> None:
    tokens = list(PROMPT)
    drafter = speculator_after(tokens, **form)
    for corrected in (None, 11):
        if corrected is not None:  # one drafted token was kept, the target wrote another in place of the second
            kept = drafter.propose(draft_context(tokens), 3).tokens.tolist()[0]
            drafter.target.model.feed([tokens[-1], kept])
            tokens += [kept, corrected]
            drafter.rewind(len(tokens) - 1)
        drafted: list[int] = []
        for _ in range(3):
            rows = reference(drafter.network, state_at(tokens), [tokens[-1], *drafted])
            drafted.append(int(rows[-1].argmax()))
        assert drafter.propose(draft_context(tokens), 3).tokens.tolist() == drafted


def test_what_is_drawn_is_drawn_from_the_q_that_is_declared() -> None:
    drafter = speculator_after(PROMPT)
    warm = SamplingSettings(temperature=0.7, seed=5)
    draft = drafter.propose(draft_context(PROMPT, warm), 3)
    rows = reference(drafter.network, state_at(PROMPT), [PROMPT[-1], *draft.tokens.tolist()[:2]]) / 0.7
    q = np.exp(rows - rows.max(-1, keepdims=True))
    assert draft.logq is not None
    assert np.abs(np.exp(np.array(draft.logq)) - q / q.sum(-1, keepdims=True)).max() < 1e-5


def test_it_drafts_no_further_than_its_stages() -> None:
    assert speculator_after(PROMPT).propose(draft_context(PROMPT), 9).tokens.size == 3
