"""A reply is checked from its tokens alone: whatever is wrong with it is found, and nothing else."""

from __future__ import annotations

import mlx.nn as nn
import pytest

from engine.audit.receipt import Difference, Receipt
from engine.cache.model_cache import ModelCache
from engine.events import PromptProgress, Round
from engine.settings import SamplingSettings
from engine.target.cached_model import CachedModel
from tests.engine.audit.rechecks import LENGTH, WARM, plain_choices, receipt_of, rounds_of, with_forged_token
from tests.engine.audit.test_rounding import Altered, ulp_apart
from tests.engine.replies import PROMPT, Scripted, ids_of, reply
from tests.toys.architectures import build

SHAPED = SamplingSettings(temperature=1, top_p=0.9, repetition_penalty=1.3, seed=7)


@pytest.fixture(scope="module")
def network() -> nn.Module:
    return build("llama")


@pytest.fixture(scope="module")
def warm(network: nn.Module) -> list[Round]:
    return rounds_of(network, WARM)


@pytest.mark.slow_for("gemma3_text-*", "mamba2-*")
@pytest.mark.parametrize(
    ("name", "sampling"),
    [("gemma3_text", WARM), ("mamba2", SamplingSettings()), ("qwen3_next", WARM), ("llama", SHAPED)],
)
def test_a_sound_reply_is_identical(name: str, sampling: SamplingSettings) -> None:
    network = build(name)
    receipt, seen = receipt_of(network, rounds_of(network, sampling), sampling)
    assert receipt == Receipt(LENGTH)
    assert receipt.identical and receipt.summary == f"identical over {LENGTH} tokens"
    assert [step for step in seen if isinstance(step, int)] == [0, 8, 16, 24]
    assert [step.done for step in seen if isinstance(step, PromptProgress)] == [0, len(PROMPT) - 1]


@pytest.mark.slow_for("greedy")
@pytest.mark.parametrize("sampling", [SamplingSettings(), SHAPED], ids=["greedy", "shaped"])
def test_every_difference_is_told_as_plain_decoding_has_it_after_the_same_tokens(
    network: nn.Module, sampling: SamplingSettings
) -> None:
    rounds = rounds_of(network, sampling)
    wrong = (ids_of(rounds)[7] + 1) % 64
    rounds = with_forged_token(rounds, 7, wrong)
    receipt, _ = receipt_of(network, rounds, sampling)
    tokens = ids_of(rounds)
    truth = plain_choices(network, tokens, sampling)
    expected = [(i, truth[i], tokens[i]) for i in range(LENGTH) if truth[i] != tokens[i]]
    assert [(d.position, d.plain_token, d.other_token) for d in receipt.differences] == expected
    assert expected[0][0] == 7 and receipt.tokens == LENGTH
    first = receipt.differences[0]
    assert not first.near_tie and first.gap_ulps is not None and first.noise_ulps is not None
    assert first.gap_ulps > 100 * first.noise_ulps
    assert receipt.verdict == "failure" and "at token 7" in receipt.summary


def test_a_flip_of_twins_is_a_near_tie_and_never_identical(network: nn.Module) -> None:
    twins = Altered(network, ulp_apart)
    target = CachedModel(twins)
    drafts = Scripted(len(PROMPT), [11] * 3, frozenset(), target.vocabulary)
    rounds = reply(target, drafts, 3, tokens=6)[1]
    assert ids_of(rounds)[0] == 11
    receipt, _ = receipt_of(twins, rounds, SamplingSettings())
    assert receipt.near_tie and not receipt.identical and not receipt.failures
    assert receipt.differences[0] == Difference(0, 10, 11, 1.0, receipt.differences[0].noise_ulps, near_tie=True)
    assert receipt.verdict == "near-tie" and "near-tie" in receipt.summary


def test_what_a_wrong_rewind_left_behind_is_found(network: nn.Module, monkeypatch: pytest.MonkeyPatch) -> None:
    """The rewind lies while the reply is written, and goes on lying while it is checked."""

    def lie(cache: ModelCache, length: int) -> int:
        cache.length = min(length, cache.length)
        return cache.length

    truth, _, _ = reply(network)
    target = CachedModel(network)
    monkeypatch.setattr(ModelCache, "rewind", lie)
    target.cache.reset()
    rounds = reply(target, Scripted(len(PROMPT), truth, frozenset({2, 8, 14})), 4)[1]
    assert ids_of(rounds) != truth
    receipt, _ = receipt_of(network, rounds, SamplingSettings(), target=target)
    at = next(i for i, (a, b) in enumerate(zip(truth, ids_of(rounds), strict=True)) if a != b)
    assert receipt.failures[0].position == at == receipt.differences[0].position
    assert receipt.failures[0].plain_token == truth[at]


def test_a_reply_in_parts_is_checked_as_one(network: nn.Module) -> None:
    """Gone on with twice: the same text as without a break, in other rounds."""
    whole = ids_of(rounds_of(network, SHAPED))
    parts: list[Round] = []
    for start, tokens in ((0, 11), (11, 2), (13, LENGTH - 13)):
        drafter = Scripted(len(PROMPT) + start, whole[start:], frozenset({3}))
        parts += reply(network, drafter, 3, SHAPED, tokens=tokens, prompt=[*PROMPT, *whole[:start]])[1]
    assert receipt_of(network, parts, SHAPED)[0] == Receipt(LENGTH)
