"""Every kind of drafter over a toy target: what the tests of all kinds share."""

from collections.abc import Callable
from typing import Any

import mlx.core as mx
import pytest

from engine.drafters import Drafter
from engine.drafters.draft_model import DraftModel
from engine.drafters.drafter_group import DrafterGroup
from engine.drafters.eagle3 import Eagle3
from engine.drafters.mlp_speculator import MlpSpeculator
from engine.drafters.mtp import Mtp
from engine.drafters.prompt_lookup import PromptLookup
from engine.target.cached_model import CachedModel
from tests.engine.conversations import NEARBY
from tests.engine.drafters.test_cross_tokenizer import drafter_of
from tests.engine.drafters.test_medusa import medusa
from tests.engine.replies import earlier_replies
from tests.engine.test_kept_conversations import network
from tests.toys.block_heads import BLOCKS, random_assistant, random_block, random_mtp
from tests.toys.heads import random_eagle3, random_mlp_speculator

LONGROPE_LENGTH = 24  # tokens, from which on texts are rotated otherwise
LONGROPE = {
    "type": "longrope",
    "original_max_position_embeddings": LONGROPE_LENGTH,
    "short_factor": [1.0] * 3,
    "long_factor": [1.0, 2.0, 3.0],
}


def speculator(target: CachedModel) -> MlpSpeculator:
    return MlpSpeculator(random_mlp_speculator(), target)


def some_mtp(target: CachedModel) -> Mtp:
    """A head with a draft vocabulary."""
    head = random_mtp(target.model, "deepseek_v3").head
    return Mtp(head, target, ids=mx.arange(0, target.vocabulary, 2, mx.int32))


def model(name: str, **changes: Any) -> DraftModel:
    return DraftModel(CachedModel(NEARBY[name]), 64, **changes)


# The architecture of the target, and what makes a drafter for one.
Kind = tuple[str, Callable[[CachedModel], Drafter]]
KINDS: dict[str, Kind] = {
    "lookup": ("qwen3", lambda _: PromptLookup(1, earlier_replies(64))),
    "lookup, trees": ("qwen3", lambda _: PromptLookup(1, earlier_replies(64), trees=True)),
    "draft model": ("qwen3", lambda _: model("qwen3")),
    "recurrent draft model": ("mamba2", lambda _: model("mamba2")),
    "PARD": ("qwen3", lambda _: model("qwen3", mask_id=5)),
    "TLI": ("qwen3", lambda _: drafter_of("qwen3")),
    "SLEM": ("qwen3", lambda _: drafter_of("qwen3", kind="SLEM")),
    "EAGLE-3": ("qwen3", lambda target: Eagle3(random_eagle3(), target)),
    "EAGLE-3, trees": ("qwen3", lambda target: Eagle3(random_eagle3(), target, trees=True)),
    "EAGLE-3, LongRoPE": ("qwen3", lambda target: Eagle3(random_eagle3(rope_scaling=LONGROPE), target)),
    "MTP": ("qwen3_5", lambda target: random_mtp(target.model, "qwen3_5")),
    "MTP, some tokens": ("deepseek_v3", some_mtp),
    "DFlash": ("gemma3_text", lambda target: random_block(target.model, "dflash")),
    "DFlash 2": ("qwen3", lambda target: random_block(target.model, "dflash2", candidates=3)),
    "DSpark, trees": ("qwen3", lambda target: random_block(target.model, "dspark", trees=True)),
    "Gemma 4": ("gemma4_text", lambda target: random_assistant(target.model)),
    "Medusa": ("qwen3", medusa),
    "MLP speculator": ("qwen3", speculator),
    "group": ("qwen3", lambda target: DrafterGroup([PromptLookup(2), speculator(target)])),
}


def _block(kind: str, architecture: str, trees: bool) -> Kind:
    return architecture, lambda target: random_block(target.model, kind, trees=trees)


# The same kinds over other targets, and other forms of them.
OTHERS: dict[str, Kind] = {
    "MTP for qwen3_next": ("qwen3_next", lambda target: random_mtp(target.model, "qwen3_next")),
    "nextn for glm4_moe": ("glm4_moe", lambda target: random_mtp(target.model, "glm4_moe")),
    "P-EAGLE": ("qwen3", lambda target: Eagle3(random_eagle3(mask_id=5, own_embedding=True), target)),
    **{f"{kind} for a hybrid target": _block(kind, "qwen3_5", False) for kind in BLOCKS},
    **{f"trees of {kind}": _block(kind, "qwen3", True) for kind in BLOCKS},
    "Gemma 4, ordered": ("gemma4_text", lambda target: random_assistant(target.model, ordered=True)),
}
EVERY_KIND = [*KINDS, *(pytest.param(kind, marks=pytest.mark.slow) for kind in OTHERS)]


def made(kind: str, target: CachedModel) -> Drafter:
    """Returns a new drafter of a kind that reads this target."""
    return (KINDS | OTHERS)[kind][1](target).for_another_reply(target)


def target_of(kind: str) -> CachedModel:
    """Returns a target for drafters of a kind, with nothing in its cache."""
    return CachedModel(network((KINDS | OTHERS)[kind][0]))
