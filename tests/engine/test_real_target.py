"""The built-in target itself: coupled sampling keeps its text, exact-verify its bits."""

import subprocess
import sys
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


_EXACT_REPLIES = """
from engine.audit.fingerprints import first_other_bits
from engine.audit.identical_width import identical_width
from engine.policy.fixed import FixedLength
from engine.session import Prompt, Session
from engine.settings import SamplingSettings
from models.builtin import builtin_folder
from models.loader import load
from tests.engine.conversations import read
from tests.engine.replies import Scripted
from tests.programs.sweep import mistakes

target = load(builtin_folder())
prompt = target.tokenizer.chat([{"role": "user", "content": "List three fruits, then repeat the list three times."}])
settings = SamplingSettings(max_tokens=24, exact=True)

def ask(*drafts):
    session = Session(target.model, target.tokenizer, 900)
    return read(list(session.continue_tokens(Prompt(prompt), settings, *drafts)))

plain = ask()
drafted = ask(Scripted(len(prompt), plain.ids, mistakes(len(plain.ids)), target.model.vocabulary), FixedLength(8))
assert sum(round_.accepted for round_ in drafted.rounds) > 10
assert first_other_bits(plain.rounds, drafted.rounds) is None
print(identical_width(target.model).tokens, max(round_.width for round_ in drafted.rounds))
"""


@pytest.mark.slow
@pytest.mark.parametrize("before", ["", "import mlx.core"], ids=["as loaded", "MLX's own products"])
def test_exact_replies_have_the_bits_of_plain_decoding_as_wide_as_this_machine_allows(before: str) -> None:
    done = subprocess.run([sys.executable, "-c", f"{before}\n{_EXACT_REPLIES}"], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    identical, widest = map(int, done.stdout.split())
    assert widest <= (identical if identical > 1 else BLOCK_WIDTH)
    if before and sys.platform == "linux":
        assert (identical, widest) == (9, 9)


@pytest.mark.real_model
@pytest.mark.parametrize("kind", ["lookup", pytest.param("draft model", marks=pytest.mark.slow)])
def test_greedy_and_coupled_texts_are_plains(target: Loaded, shallow: Loaded, kind: str) -> None:
    drafter = PromptLookup() if kind == "lookup" else DraftModel(shallow.model, target.model.vocabulary)
    for number, words in enumerate(PROMPTS):
        prompt = target.tokenizer.chat([{"role": "user", "content": words}])
        for sampling in (SamplingSettings(), SamplingSettings(temperature=0.7, top_p=0.9, seed=number)):
            plain, _, _ = reply(target.model, sampling=sampling, tokens=12, prompt=prompt)
            assert reply(target.model, drafter, 4, sampling, tokens=12, prompt=prompt)[0] == plain
