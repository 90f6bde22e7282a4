"""LongRoPE as transformers has it: one rotation for texts of up to 24 tokens, another for all of a longer text."""

from pathlib import Path
from typing import Any

import mlx.core as mx
import numpy as np
import pytest

from engine.drafters import Drafter
from engine.drafters.draft_model import DraftModel
from engine.drafters.eagle3 import Eagle3
from engine.drafters.prompt_lookup import PromptLookup
from engine.events import Finished, Round
from engine.loop import Limits
from engine.policy import Policy
from engine.policy.fixed import FixedLength
from engine.session import Prompt, Session
from engine.settings import SamplingSettings
from engine.target.cached_model import CachedModel
from models import loader
from tests.engine.fakes import ByteTokenizer
from tests.engine.fewer import fewer, paired
from tests.engine.replies import Scripted, reply
from tests.models.references.comparison import FOLDER, folder_of
from tests.programs.sweep import EveryLength, mistakes
from tests.toys.block_heads import random_block
from tests.toys.heads import random_eagle3

NAMES = ("phi3_longrope", "phi3_partial")
ORIGINAL = 24  # tokens, where the rotation changes
PROMPT = 16
KINDS = ["perfect", "scripted", "lookup", "lookup trees", "draft model", "eagle", "block"]
WARM = SamplingSettings(temperature=0.8, seed=7)


def load(name: str, path: Path) -> CachedModel:
    path.mkdir(exist_ok=True)
    return loader.load(folder_of(name, path / name)).model


def scaling(frequencies: int) -> dict[str, Any]:
    """LongRoPE for a head of so many frequencies."""
    factors = {"short_factor": [1.0] * frequencies, "long_factor": [1.0 + place for place in range(frequencies)]}
    return {"type": "longrope", "original_max_position_embeddings": ORIGINAL, **factors}


def generated(name: str) -> tuple[list[int], list[int]]:
    """A prompt, and what transformers generates after it."""
    with np.load(FOLDER / name / "expected.npz") as expected:
        tokens = expected["generated"].tolist()
    return tokens[:PROMPT], tokens[PROMPT:]


def in_session(session: Session, prompt: list[int], drafter: Drafter | None = None, exact: bool = False) -> list[int]:
    """The tokens of a reply that crosses the place where the rotation changes."""
    settings = SamplingSettings(max_tokens=20, exact=exact)
    policy: Policy = FixedLength(0) if drafter is None else EveryLength()
    events = list(session.continue_tokens(Prompt(prompt), settings, drafter, policy))
    return [token for event in events if isinstance(event, Round) for token in event.tokens]


@pytest.mark.parametrize("name", NAMES)
def test_a_reply_that_grows_long_is_that_of_transformers(name: str, tmp_path: Path) -> None:
    prompt, expected = generated(name)
    assert reply(load(name, tmp_path), prompt=prompt, tokens=len(expected))[0] == expected


@pytest.mark.parametrize(("kind", "sampling"), paired(KINDS, [SamplingSettings(), WARM]))
def test_drafts_leave_the_text_as_it_is_where_the_rotation_changes(
    kind: str, sampling: SamplingSettings, tmp_path: Path
) -> None:
    target = load("phi3_longrope", tmp_path)
    prompt, tokens = generated("phi3_longrope")[0], 40
    expected = reply(target, prompt=prompt, tokens=tokens, sampling=sampling)[0]
    wrong = frozenset() if kind == "perfect" else mistakes(tokens)
    drafter: Drafter = Scripted(len(prompt), expected, wrong, target.vocabulary)
    if "lookup" in kind:
        drafter = PromptLookup(1, trees="trees" in kind)
    elif kind == "draft model":
        drafter = DraftModel(load("phi3_longrope", tmp_path / "twin"), target.vocabulary)
    elif kind == "eagle":
        drafter = Eagle3(random_eagle3(taps=(0, 1, 2), rope_scaling=scaling(3)), target, trees=True)
    elif kind == "block":
        drafter = random_block(target.model, "dflash", rope_scaling=scaling(4))
    policy: Policy = FixedLength(12) if kind == "perfect" else EveryLength()
    found, rounds, _ = reply(target, drafter, policy, sampling, tokens=tokens, prompt=prompt)
    assert found == expected
    assert any(round_.drafted for round_ in rounds)


@pytest.mark.parametrize("chunk", fewer([1, 7, 512], [7]))
@pytest.mark.parametrize("length", [ORIGINAL - 1, ORIGINAL, ORIGINAL + 1, 40])
def test_logits_do_not_depend_on_how_a_prompt_is_cut(length: int, chunk: int, tmp_path: Path) -> None:
    target = load("phi3_longrope", tmp_path)
    tokens = generated("phi3_longrope")[1][:length]
    target.read_as(length)
    whole = np.array(target.forward(mx.array(tokens))[-1])
    target.reset()
    for _ in target.prefill(tokens[:-1], chunk):
        pass
    logits, _ = target.continue_from(tokens, mx.zeros(0, mx.int32))
    assert np.abs(np.array(logits[-1]) - whole).max() < 1e-4


@pytest.mark.parametrize("exact", fewer([False, True], [True]))
def test_turns_that_cross_the_length_either_way_are_read_as_from_the_start(exact: bool, tmp_path: Path) -> None:
    target = load("phi3_longrope", tmp_path)
    session = Session(target, ByteTokenizer(), 90)
    text = generated("phi3_longrope")[0]
    drafter = PromptLookup(1)
    for prompt in (text, [*text, *text], text[:12], [*text[:12], 9], [*text, *text, 5], text):
        fresh = Session(load("phi3_longrope", tmp_path / str(len(list(tmp_path.iterdir())))), ByteTokenizer(), 90)
        assert in_session(session, prompt, drafter, exact) == in_session(fresh, prompt, exact=exact)


def test_a_conversation_that_was_kept_is_rotated_as_it_was(tmp_path: Path) -> None:
    target = load("phi3_longrope", tmp_path)
    text = generated("phi3_longrope")[1]
    target.read_as(len(text))
    for _ in target.prefill(text[:-1]):
        pass
    kept = target.snapshot()
    expected = np.array(target.continue_from(text, mx.zeros(0, mx.int32))[0])
    target.read_as(3)
    target.feed(text[:2])
    target.restore(kept)
    assert np.array_equal(np.array(target.continue_from(text, mx.zeros(0, mx.int32))[0]), expected)


def test_reading_again_can_be_stopped(tmp_path: Path) -> None:
    target = load("phi3_longrope", tmp_path)
    prompt, tokens = generated("phi3_longrope")
    looked = 0

    def cancelled() -> bool:
        nonlocal looked
        looked += 1
        return target.rotation.is_long

    found, _, end = reply(target, prompt=prompt, tokens=Limits(40, 90, cancelled=cancelled))
    assert end == Finished("cancelled", len(found), end.time_s)
    assert found == tokens[: ORIGINAL + 1 - PROMPT]
