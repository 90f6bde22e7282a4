"""Replies at once on every architecture that can be built: each equal to the reply alone, or a near-tie by the receipt.
Where passes are not joined there is a reason, and the replies take turns."""

import random
from typing import Any

import mlx.core as mx
import pytest
from mlx.utils import tree_flatten

from engine.audit.reply_check import compare_replies
from engine.drafters.prompt_lookup import PromptLookup
from engine.errors import ModelError
from engine.events import Round
from engine.sampling import Sampler
from engine.target.cached_model import CachedModel
from engine.target.tree_trial import why_no_trees
from tests.engine.fakes import nearby
from tests.engine.replies import draft_model
from tests.engine.test_architectures import LISTED
from tests.engine.test_together import COUPLED, GRAMMAR, GREEDY, PENALIZED, REJECTION, SIZE, Wanted, alone, write
from tests.programs.sweep import names
from tests.toys.architectures import NOT_BUILT, build

REPLIES = 8
# With what a model keeps its conversation: sliding windows, latent attention, experts, and the caches of recurrences.
EVERY_TIME = ["gpt_oss", "minicpm3", "deepseek_v3", "gemma3n", "qwen3_moe", "qwen3_next"]
IN_TURNS = {"afm7", "gpt2", "gpt_bigcode", "ministral3", "mistral3", "mistral4"}  # positions, or keys, by code
QUANTIZED = ["llama", "qwen3_moe"]


def some(model: Any, trees: bool, seed: int) -> list[Wanted]:
    """Replies that differ in all that a reply may differ in, and come and go at random."""
    packed = any(part.dtype == mx.uint32 for _, part in tree_flatten(model.parameters()))
    draw, drafts = random.Random(seed), draft_model(model if packed else nearby(model, 0.05), SIZE)
    makers = [
        lambda target: None,
        lambda target: PromptLookup(1),
        lambda target: PromptLookup(1, trees=trees),
        drafts.for_another_reply,
    ]
    return [
        Wanted(
            [draw.randrange(52) for _ in range(draw.randrange(2, 90))],
            draw.choice([GREEDY, COUPLED, REJECTION, PENALIZED, GRAMMAR]),
            draw.choice(makers),
            draw.randrange(1, 7),
            delay=draw.randrange(6),
            most_rounds=draw.choice([5, 1000, 1000]),
        )
        for _ in range(REPLIES)
    ]


def hold(model: Any, target: CachedModel, replies: list[Wanted], kv_bits: int | None = None) -> None:
    """Asserts that each reply is the one alone, or that the first token which differs was a near-tie."""
    write(target, replies)
    for one in replies:
        other = alone(model, one, kv_bits)
        if one.told != other.told:
            plain = [token for event in other.events if isinstance(event, Round) for token in event.tokens]
            rounds = [event for event in one.events if isinstance(event, Round)]
            checked = CachedModel(model, kv_bits, 32)
            receipt = compare_replies(checked, Sampler(one.settings, checked.vocabulary), one.prompt, plain, rounds)
            assert receipt is not None and receipt.near_tie, (receipt, one.settings)


@pytest.mark.parametrize(
    "name", [*EVERY_TIME, *(pytest.param(name, marks=pytest.mark.slow) for name in names() if name not in EVERY_TIME)]
)
def test_replies_at_once_are_those_alone(name: str) -> None:
    if name in NOT_BUILT:
        pytest.skip(NOT_BUILT[name])
    model = build(name)
    try:
        target = CachedModel(model)
    except ModelError:
        return  # refused whoever asks
    hold(model, target, some(model, why_no_trees(target) is None, seed=len(name)))
    if not set(target.cache.classes) - {"KVCache", "SlidingKVCache"} and name not in LISTED:
        assert target.shares_passes == (name not in IN_TURNS), target.why_alone
    else:
        assert "follows one text at a time" in str(target.why_alone)


@pytest.mark.parametrize("name", QUANTIZED)
def test_quantized_caches_are_joined(name: str) -> None:
    model = build(name, head_dim=32)
    target = CachedModel(model, 8, 32)
    hold(model, target, some(model, False, seed=3), 8)
    assert target.shares_passes
