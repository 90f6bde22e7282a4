"""The built-in target itself: rejection keeps its distribution, coupled sampling its text, exact-verify its bits."""

import math
import time
from collections import Counter
from dataclasses import replace
from pathlib import Path

import mlx.core as mx
import numpy as np
import pytest

from engine.audit.verify_blocks import BLOCK_WIDTH
from engine.drafters import Drafter
from engine.drafters.draft_model import DraftModel
from engine.drafters.prompt_lookup import PromptLookup
from engine.events import Round
from engine.loop import Limits, decode
from engine.policy.fixed import FixedLength
from engine.sampling import Sampler
from engine.settings import SamplingSettings
from engine.target.cached_model import CachedModel
from models.builtin import builtin_folder, shipped_folder
from models.drafters import draft_model_kind
from models.loader import Loaded, load
from tests.engine.bits import RowLogModel, reply_bits

PROMPTS = [
    "Why is the sky blue?",
    "List three fruits, then repeat the list three times.",
]


@pytest.fixture(scope="module")
def target(tmp_path_factory: pytest.TempPathFactory) -> Loaded:
    return load(builtin_folder(Path(tmp_path_factory.mktemp("builtin"))))


@pytest.fixture(scope="module")
def shallow(target: Loaded) -> Loaded:
    """A draft model made of the target's first 6 layers."""
    other = load(target.folder.path)
    other.network.model.layers = other.network.model.layers[:6]
    return Loaded(other.folder, other.network, CachedModel(other.network), other.tokenizer)


def drafters(target: Loaded, shallow: Loaded) -> dict[str, Drafter]:
    width = target.model.vocabulary
    return {
        "lookup": PromptLookup(),
        "draft": DraftModel(shallow.model, width, name="draft"),
    }


def text(
    target: Loaded,
    prompt: list[int],
    drafter: Drafter | None,
    k: int,
    sampling: SamplingSettings,
    rule: str,
    tokens: int,
) -> tuple[list[int], list[Round]]:
    sequence = list(prompt)
    target.model.rewind(len(prompt) - 1)
    for _ in target.model.prefill(sequence[target.model.length : -1]):
        pass
    if drafter is not None:
        drafter.rewind(len(prompt) - 1)
        drafter.sync(sequence)
    sampler = Sampler(replace(sampling, acceptance=rule), target.model.vocabulary)
    events = list(
        decode(target.model, drafter, FixedLength(k), sampler, sequence, Limits(tokens, 2048), time.monotonic())
    )
    return sequence[len(prompt) :], [e for e in events if isinstance(e, Round)]


@pytest.mark.slow
def test_exact_verify_has_the_bits_of_plain_decoding(target: Loaded, shallow: Loaded) -> None:
    """Of every logit, where the usual passes do not agree."""
    model, width = RowLogModel(target.network), target.model.vocabulary
    prompt = target.tokenizer.chat([{"role": "user", "content": PROMPTS[1]}])
    draft = DraftModel(shallow.model, width, name="draft")
    for sampling in (SamplingSettings(), SamplingSettings(temperature=1, seed=3)):
        plain, bits, _ = reply_bits(model, None, None, BLOCK_WIDTH, 10, prompt, sampling)
        assert len(plain) > 4
        for drafter in (PromptLookup(), draft):
            drafter.rewind(0)
            other, theirs, rounds = reply_bits(model, drafter, FixedLength(3), BLOCK_WIDTH, 10, prompt, sampling)
            assert other == plain
            assert np.array_equal(theirs, bits)
            assert drafter is not draft or any(round_.drafted for round_ in rounds)
    _, usual, _ = reply_bits(model, None, None, None, 10, prompt, SamplingSettings(temperature=1, seed=3))
    assert not np.array_equal(usual[: len(bits)], bits[: len(usual)])


@pytest.mark.real_model
@pytest.mark.parametrize("name", ["lookup", pytest.param("draft", marks=pytest.mark.slow)])
def test_greedy_and_coupled_texts_are_plains(target: Loaded, shallow: Loaded, name: str) -> None:
    drafter = drafters(target, shallow)[name]
    for number, words in enumerate(PROMPTS):
        prompt = target.tokenizer.chat([{"role": "user", "content": words}])
        target.model.rewind(0)
        drafter.rewind(0)
        for sampling in (SamplingSettings(), SamplingSettings(temperature=0.7, top_p=0.9, seed=number)):
            plain, _ = text(target, prompt, None, 0, sampling, "coupled", 12)
            for k in (1, 4):
                assert text(target, prompt, drafter, k, sampling, "coupled", 12)[0] == plain


# --- the distribution of the first three tokens ----------------------------------------------------

SEEDS = 500
CELLS = 24


def exact_distribution(target: Loaded, prompt: list[int], sampling: SamplingSettings) -> dict[tuple[int, ...], float]:
    """The likeliest three-token openings and their exact probabilities, by beam over the target's distribution."""
    sampler = Sampler(replace(sampling, acceptance="rejection"), target.model.vocabulary)
    beam: dict[tuple[int, ...], float] = {(): 1.0}
    for _ in range(3):
        wider: dict[tuple[int, ...], float] = {}
        for opening, chance in beam.items():
            target.model.rewind(len(prompt) - 1)
            logits, _ = target.model.continue_from([*prompt, *opening], mx.zeros(0, mx.int32))
            distribution = np.exp(
                np.array(sampler.distribution.logprobs(sampler.distribution.adjust(logits))[0], dtype=np.float64)
            )
            for token in np.argsort(-distribution)[:CELLS]:
                if distribution[token] > 0:
                    wider[(*opening, int(token))] = chance * distribution[token]
        beam = dict(sorted(wider.items(), key=lambda item: -item[1])[:CELLS])
    return beam


@pytest.mark.slow
@pytest.mark.parametrize("name", ["lookup", "draft"])
def test_rejection_keeps_the_targets_distribution(target: Loaded, name: str) -> None:
    """Pearson's chi-square of the first three tokens over 500 seeds against the exact distribution.

    The cells are the likeliest openings and one for all others. Refused beyond the statistic's mean + 6
    standard deviations. Power: moving a share d of the mass from half of the cells to the others adds about
    500 * 4 d^2 to the statistic, ten standard deviations (51 on 13 degrees of freedom) at d = 0.16. Taking
    corrections from p instead of the residual moves refused share * overlap, 0.1 to 0.25 here; the enumerations on
    toys (tests/engine/test_acceptance.py) see far less. The draft model is the one that ships.
    """
    sampling = SamplingSettings(temperature=1.5, top_k=6)
    prompt = target.tokenizer.encode("Roses are red, violets are blue. Roses are red, violets are")
    target.model.rewind(0)
    distribution = exact_distribution(target, prompt, sampling)
    drafter = PromptLookup() if name == "lookup" else shipped_draft_model(target)
    seen: Counter[tuple[int, ...]] = Counter()
    kept = refused = 0
    for seed in range(SEEDS):
        settings = SamplingSettings(temperature=1.5, top_k=6, seed=seed)
        ids, rounds = text(target, prompt, drafter, 2, settings, "rejection", 3)
        seen[tuple(ids)] += 1
        kept += sum(r.accepted for r in rounds)
        refused += sum(r.accepted < len(r.drafted) for r in rounds)
    cells = [(seen[o], SEEDS * p) for o, p in distribution.items() if SEEDS * p >= 5]
    cells.append((SEEDS - sum(n for n, _ in cells), SEEDS - sum(e for _, e in cells)))
    statistic = sum((n - e) ** 2 / e for n, e in cells)
    freedom = len(cells) - 1
    print(f"{name}: chi-square {statistic:.1f} on {freedom} degrees of freedom; {kept} kept, {refused} corrected")
    assert freedom >= 8
    assert kept > SEEDS / 10
    assert refused > SEEDS / 10
    assert statistic < freedom + 6 * math.sqrt(2 * freedom)


def shipped_draft_model(target: Loaded) -> Drafter:
    """The small model of resources/drafters, as the app loads it."""
    return draft_model_kind.load(shipped_folder("draft"), target, False).drafter
