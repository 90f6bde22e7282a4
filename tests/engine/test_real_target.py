"""The built-in target itself: coupled sampling keeps its text, exact-verify its bits."""

from pathlib import Path

import numpy as np
import pytest

from engine.audit.verify_blocks import BLOCK_WIDTH
from engine.drafters.draft_model import DraftModel
from engine.drafters.prompt_lookup import PromptLookup
from engine.policy.fixed import FixedLength
from engine.settings import SamplingSettings
from engine.target.cached_model import CachedModel
from models.builtin import builtin_folder
from models.loader import Loaded, load
from tests.engine.bits import RowLogModel, reply_bits
from tests.engine.replies import reply

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
@pytest.mark.parametrize("kind", ["lookup", pytest.param("draft model", marks=pytest.mark.slow)])
def test_greedy_and_coupled_texts_are_plains(target: Loaded, shallow: Loaded, kind: str) -> None:
    drafter = PromptLookup() if kind == "lookup" else DraftModel(shallow.model, target.model.vocabulary)
    for number, words in enumerate(PROMPTS):
        prompt = target.tokenizer.chat([{"role": "user", "content": words}])
        for sampling in (SamplingSettings(), SamplingSettings(temperature=0.7, top_p=0.9, seed=number)):
            plain, _, _ = reply(target.model, sampling=sampling, tokens=12, prompt=prompt)
            assert reply(target.model, drafter, 4, sampling, tokens=12, prompt=prompt)[0] == plain
