"""Two replies that alternate round by round, with two drafters of the same weights: each drafts what it would alone."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from itertools import zip_longest
from typing import Any

import mlx.core as mx
import pytest

from engine import drafters
from engine.drafters import Drafter
from engine.drafters.draft_model import DraftModel
from engine.drafters.drafter_group import DrafterGroup
from engine.drafters.eagle3 import Eagle3
from engine.drafters.mlp_speculator import MlpSpeculator
from engine.drafters.mtp import Mtp
from engine.drafters.prompt_lookup import PromptLookup
from engine.events import Event
from engine.policy.fixed import FixedLength
from engine.session import Prompt, Session
from engine.target.cached_model import CachedModel
from tests.engine.conversations import CONTEXT, NEARBY, SHAPED, TURN, read, same
from tests.engine.drafters.test_cross_tokenizer import drafter_of
from tests.engine.drafters.test_medusa import medusa
from tests.engine.fakes import ByteTokenizer
from tests.engine.replies import PROMPT, earlier_replies
from tests.engine.test_kept_conversations import ROOM, network, text
from tests.toys.block_heads import random_assistant, random_block, random_mtp
from tests.toys.heads import random_eagle3, random_mlp_speculator

SETTINGS = replace(SHAPED, max_tokens=16)
GROWING, LONG = (
    PROMPT[:16],
    text(1, 60),
)  # the first grows past the length at which LongRoPE changes, the second begins so
LONGROPE = {
    "type": "longrope",
    "original_max_position_embeddings": 24,
    "short_factor": [1.0] * 3,
    "long_factor": [1.0, 2.0, 3.0],
}


def speculator(target: CachedModel) -> MlpSpeculator:
    return MlpSpeculator(random_mlp_speculator(), target)


def some_mtp(target: CachedModel) -> Mtp:
    """A head with a draft vocabulary."""
    head = random_mtp(target.model, "deepseek_v3").head
    return Mtp(head, target, ids=mx.arange(0, target.vocabulary, 2, mx.int32))


def parallel(target: CachedModel) -> DraftModel:
    return DraftModel(CachedModel(NEARBY["qwen3"]), 64, mask_id=5)


KINDS: dict[str, tuple[str, Callable[[CachedModel], Drafter]]] = {
    "lookup": ("qwen3", lambda _: PromptLookup(1, earlier_replies(64))),
    "lookup, trees": ("qwen3", lambda _: PromptLookup(1, trees=True)),
    "draft model": ("qwen3", lambda _: DraftModel(CachedModel(NEARBY["qwen3"]), 64)),
    "recurrent draft model": ("mamba2", lambda _: DraftModel(CachedModel(NEARBY["mamba2"]), 64)),
    "PARD": ("qwen3", parallel),
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


def reply(session: Session, drafter: Drafter, prompt: list[int]) -> Iterator[Event]:
    return session.continue_tokens(Prompt(prompt), SETTINGS, drafter, FixedLength(3))


def session_of(kind: str) -> Session:
    session = Session(CachedModel(network(KINDS[kind][0])), ByteTokenizer(), CONTEXT)
    session.kept.limit_bytes = ROOM
    return session


def made(kind: str, session: Session) -> Drafter:
    """A drafter of this kind that reads the target of `session`."""
    return KINDS[kind][1](session.target).for_another_reply(session.target)


@pytest.mark.parametrize("kind", KINDS)
def test_replies_that_alternate_draft_what_each_would_alone(kind: str) -> None:
    """And each can go on from the other's conversation, which it finds kept, as if it had been its own."""
    first = session_of(kind)
    second = first.for_another_reply()
    one = made(kind, first)
    other = one.for_another_reply(second.target)
    replies = [reply(first, one, GROWING), reply(second, other, LONG)]
    events: list[list[Any]] = [[], []]
    for pair in zip_longest(*replies):
        for found, event in zip(events, pair, strict=True):
            found += [] if event is None else [event]
    found = [read(each) for each in events]
    alone = session_of(kind)
    drafter = made(kind, alone)
    assert any(map(any, [each.drafts for each in found]))
    for mine, prompt in zip(found, (GROWING, LONG), strict=True):
        same(mine, read(list(reply(alone, drafter, prompt))))
        alone.forget()
    follow = [*LONG, *found[1].ids, *TURN]
    alone.kept.clear()
    unswitched = [read(list(reply(alone, drafter, prompt))) for prompt in (LONG, follow)][1]
    assert second.put_aside()
    again = read(list(reply(first, one, follow)))
    same(again, unswitched)
    assert again.reused == unswitched.reused


def test_every_kind_of_drafter_is_here() -> None:
    made_here = {type(made(kind, session_of(kind))) for kind in KINDS}

    def concrete(kind: type) -> Iterator[type]:
        for each in kind.__subclasses__():
            yield from concrete(each)
            if each.__module__.startswith(drafters.__name__) and not getattr(each, "__abstractmethods__", ()):
                yield each

    assert set(concrete(Drafter)) == made_here
