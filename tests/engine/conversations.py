"""Sessions of toy models, what they reply, and the yardstick: a fresh session with a fresh drafter.

Replies are the same when ids, text and, round by round, the drafts are, so that a drafter's memory is checked
as closely as the target's.
"""

from collections.abc import Generator, Sequence
from typing import Any, NamedTuple

import numpy as np

from engine.drafters import Drafter
from engine.drafters.draft_model import DraftModel
from engine.drafters.prompt_lookup import PromptLookup
from engine.events import Event, Finished, PromptProgress, Round
from engine.policy.fixed import FixedLength
from engine.reply_text import Message
from engine.session import Prompt, Session
from engine.settings import SamplingSettings
from engine.target.cached_model import PREFILL_CHUNK, CachedModel
from tests.engine.fakes import ByteTokenizer, nearby
from tests.engine.replies import attach, earlier_replies
from tests.toys.architectures import build

CONTEXT = 4 * PREFILL_CHUNK
TURN = [7, 8, 9, 10]
LONG = [int(t) for t in np.random.default_rng(1).integers(0, 52, PREFILL_CHUNK + 90)]
SHORT = SamplingSettings(max_tokens=10)
SHAPED = SamplingSettings(
    temperature=0.8, top_p=0.95, repetition_penalty=1.3, seed=5, acceptance="coupled", max_tokens=10
)
DRAFTERS = ["none", "lookup", "draft model"]
# KV caches; sliding windows among them; recurrent; hybrid.
MODELS = {name: build(name) for name in ("qwen3", "llama", "mamba2", "qwen3_next")}
NEARBY = {name: nearby(network, 0.05) for name, network in MODELS.items()}


class Reply(NamedTuple):
    """ids, text, and of each round what it drafted."""

    ids: list[int]
    text: str
    drafts: list[tuple[int, ...]]
    reused: int
    rounds: list[Round]
    end: Finished


def read(events: Sequence[Event]) -> Reply:
    rounds = [e for e in events if isinstance(e, Round)]
    first, end = events[0], events[-1]
    assert isinstance(first, PromptProgress)
    assert isinstance(end, Finished)
    ids = [t for r in rounds for t in r.tokens]
    text = "".join(t for r in rounds for t in r.texts) + end.text
    return Reply(ids, text, [r.drafted for r in rounds], first.reused, rounds, end)


def session(name: str, eos: frozenset[int] = frozenset(), context: int = CONTEXT) -> Session:
    return Session(CachedModel(MODELS[name]), ByteTokenizer(eos), context)


def drafter(kind: str, name: str) -> Drafter | None:
    if kind == "draft model":
        return DraftModel(CachedModel(NEARBY[name]), 64)
    if kind.startswith("eagle"):
        from tests.engine.drafters.eagles import eagle  # which has its networks from here

        return eagle(name, trees=kind == "eagle trees")
    if kind.startswith("lookup"):
        return PromptLookup(1, earlier_replies(64), trees=kind == "lookup trees")
    return None


def events_of(s: Session, prompt: Sequence[int], settings: SamplingSettings, d: Drafter | None, **more: Any) -> Any:
    attach(d, s.target)
    return s.continue_tokens(Prompt(prompt), settings, d, FixedLength(3 if d else 0), **more)


def chat_reply(s: Session, messages: Sequence[Message], *given: Any, **named: Any) -> Generator[Event]:
    return s.continue_tokens(Prompt(s.tokenizer.chat(messages)), *given, **named)


def answer(
    s: Session, prompt: Sequence[int], settings: SamplingSettings, d: Drafter | None = None, **more: Any
) -> Reply:
    return read(list(events_of(s, prompt, settings, d, **more)))


FRESH: dict[tuple[object, ...], Reply] = {}


def fresh(name: str, prompt: Sequence[int], settings: SamplingSettings, kind: str = "none") -> Reply:
    """The yardstick, worked out once for each question."""
    key = name, tuple(prompt), repr(settings), kind
    if key not in FRESH:
        FRESH[key] = answer(session(name), prompt, settings, drafter(kind, name))
    return FRESH[key]


def same(mine: Reply, theirs: Reply) -> None:
    assert mine.ids == theirs.ids
    assert mine.text == theirs.text
    assert mine.drafts == theirs.drafts
    assert mine.end.reason == theirs.end.reason
