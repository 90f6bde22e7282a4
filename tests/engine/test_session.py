"""A conversation: what one turn leaves behind never changes what the next one says.

The yardstick everywhere is a fresh session with a fresh drafter: the same ids, the same text and, round by
round, the same drafts, so that a drafter's memory is checked as closely as the target's.
"""

import itertools
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
import pytest

from engine.drafters import Drafter
from engine.drafters.draft_model import DraftModel
from engine.drafters.prompt_lookup import PromptLookup
from engine.errors import ContextError, UsageError
from engine.events import Event, Finished, PromptProgress, Round
from engine.policy import FixedLength
from engine.sampling import Sampling
from engine.session import Session
from engine.settings import Settings
from engine.target import PREFILL_CHUNK, CachedModel
from tests.engine.fakes import ByteTokenizer, Counting, nearby
from tests.engine.replies import PROMPT
from tests.toys.architectures import build

CONTEXT = 2000
TURN = [7, 8, 9, 10]
LONG = [int(t) for t in np.random.default_rng(1).integers(0, 52, PREFILL_CHUNK + 90)]
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
    return PromptLookup(longest=2, shortest=1) if kind == "lookup" else None


def events_of(s: Session, prompt: Sequence[int], settings: Settings, d: Drafter | None, **more: Any) -> Any:
    return s.continue_tokens(prompt, settings, d, FixedLength(3 if d else 0), **more)


def answer(s: Session, prompt: Sequence[int], settings: Settings, d: Drafter | None = None, **more: Any) -> Reply:
    return read(list(events_of(s, prompt, settings, d, **more)))


FRESH: dict[tuple[object, ...], Reply] = {}


def fresh(name: str, prompt: Sequence[int], settings: Settings, kind: str = "none") -> Reply:
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


# --- turns ----------------------------------------------------------------------------------------

SHORT = Settings(max_tokens=10)
SHAPED = Settings(Sampling(temperature=0.8, top_p=0.95, repetition_penalty=1.3, seed=5), "coupled", max_tokens=10)


@pytest.mark.parametrize("kind", DRAFTERS)
@pytest.mark.parametrize("name", MODELS)
def test_turns_and_edits_answer_like_a_fresh_session(name: str, kind: str) -> None:
    """Three turns, an edit of the last one, an edit of the first, and a conversation with nothing in common."""
    s, d = session(name), drafter(kind, name)
    first = [*PROMPT, 11]
    second = [*first, *answer(s, first, SHAPED, d).ids, *TURN]
    for prompt in (second, [*second[:-2], 40, 41, 42], [*PROMPT, 12, 13], [50, *PROMPT]):
        same(answer(s, prompt, SHAPED, d), fresh(name, prompt, SHAPED, kind))


@pytest.mark.parametrize("kind", DRAFTERS)
@pytest.mark.parametrize("name", ["qwen3", "llama"])
def test_the_next_turn_feeds_only_what_is_new(name: str, kind: str) -> None:
    network = Counting(MODELS[name])
    s, d = Session(CachedModel(network), ByteTokenizer(), CONTEXT), drafter(kind, name)
    first = answer(s, PROMPT, SHORT, d)
    said = [*PROMPT, *first.ids]
    network.rows.clear()
    second = answer(s, [*said, *TURN], SHORT, d)
    assert second.reused == len(said) - 1  # the last token was told, not yet fed
    assert sum(network.rows) == len(TURN) + sum(r.width for r in second.rounds)


def test_a_full_prompt_is_fed_once() -> None:
    network = Counting(MODELS["qwen3"])
    s = Session(CachedModel(network), ByteTokenizer(), CONTEXT)
    network.rows.clear()
    progress = [e for e in s.continue_tokens(LONG, SHORT) if isinstance(e, PromptProgress)]
    assert [(p.done, p.total, p.reused) for p in progress] == [
        (0, len(LONG), 0),
        (PREFILL_CHUNK, len(LONG), 0),
        (len(LONG) - 1, len(LONG), 0),
    ]
    assert sum(network.rows) == len(LONG) - 1 + SHORT.max_tokens


@pytest.mark.parametrize("kind", DRAFTERS)
@pytest.mark.parametrize("name", MODELS)
def test_an_edit_of_the_last_message_keeps_everything_before_it(name: str, kind: str) -> None:
    """Recurrent states cannot drop tokens; the place before each reply is kept for this."""
    s, d = session(name), drafter(kind, name)
    answer(s, PROMPT, SHORT, d)
    edited = [*PROMPT[:-1], 33, 34]
    again = answer(s, edited, SHORT, d)
    assert again.reused == len(PROMPT) - 1
    same(again, fresh(name, edited, SHORT, kind))


@pytest.mark.parametrize("name", MODELS)
def test_an_early_edit_of_a_long_conversation_is_exact(name: str) -> None:
    """Past the slack of every window: what cannot be rewound to starts anew, and says so."""
    s = session(name)
    answer(s, LONG, SHORT)
    edited = [*LONG[:100], 33, *LONG[101:120]]
    again = answer(s, edited, SHORT)
    assert again.reused == (100 if name == "qwen3" else 0)
    same(again, fresh(name, edited, SHORT))
    later = [*edited, *again.ids, *TURN]
    same(answer(s, later, SHORT), fresh(name, later, SHORT))


def test_a_prompt_that_is_a_prefix_of_the_last_one_is_answered() -> None:
    s = session("qwen3")
    answer(s, PROMPT, SHORT)
    for prompt in (PROMPT[:9], PROMPT[:9], PROMPT[:1]):
        shorter = answer(s, prompt, SHORT)
        assert shorter.reused == len(prompt) - 1
        same(shorter, fresh("qwen3", prompt, SHORT))


def test_messages_go_through_the_template_and_reuse_the_turns_before() -> None:
    s = session("qwen3")
    messages = [{"role": "user", "content": "hello"}]
    first = read(list(s.reply(messages, SHORT)))
    prompt = ByteTokenizer().chat(messages)
    same(first, fresh("qwen3", prompt, SHORT))
    messages.append({"role": "assistant", "content": "no"})
    second = read(list(s.reply([*messages, {"role": "user", "content": "why"}], SHORT)))
    assert second.reused >= len(prompt)


# --- drafters -------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["llama", "mamba2"])
def test_drafters_may_change_between_replies(name: str) -> None:
    """One that comes back has not seen what was said meanwhile, and must not mistake old text for new."""
    s = session(name)
    model, lookup = drafter("draft model", name), drafter("lookup", name)
    prompt = list(PROMPT)
    turns = [("draft model", model), ("lookup", lookup), ("draft model", model), ("none", None), ("lookup", lookup)]
    for turn, (kind, d) in enumerate(turns):
        prompt = [*prompt[:-2], 20 + turn, 30 + turn, 4]
        reply = answer(s, prompt, SHORT, d)
        same(reply, fresh(name, prompt, SHORT, kind))
        prompt = [*prompt, *reply.ids]


# --- walking away ---------------------------------------------------------------------------------


def walk_away_everywhere(name: str, kind: str, prompt: list[int], follow: Callable[[list[int]], list[int]]) -> None:
    """Close the reply after each of its events in turn, then ask `follow(tokens so far)`."""
    for leave_at in itertools.count():
        s, d = session(name), drafter(kind, name)
        events = events_of(s, prompt, SHORT, d)
        seen = list(itertools.islice(events, leave_at))
        events.close()
        if seen and isinstance(seen[-1], Finished):
            return
        assert s.target.length <= len(s.tokens)
        after = follow(s.tokens or prompt)
        same(answer(s, after, SHORT, d), fresh(name, after, SHORT, kind))


@pytest.mark.parametrize(
    ("name", "kind"),
    [("qwen3", "draft model"), ("llama", "lookup"), ("llama", "draft model"), ("mamba2", "none"), ("mamba2", "lookup")],
)
def test_a_reply_left_at_any_event_can_be_gone_on_from(name: str, kind: str) -> None:
    walk_away_everywhere(name, kind, PROMPT, lambda tokens: [*tokens, *TURN])


@pytest.mark.parametrize("kind", ["none", "draft model"])
def test_a_reply_left_at_any_event_can_be_asked_again(kind: str) -> None:
    walk_away_everywhere("qwen3_next", kind, PROMPT, lambda tokens: PROMPT)


@pytest.mark.parametrize("name", ["qwen3", "llama", "mamba2"])
def test_a_long_prompt_left_half_way_can_be_asked_again(name: str) -> None:
    for leave_at in range(4):
        s = session(name)
        events = s.continue_tokens(LONG, SHORT)
        for _ in itertools.islice(events, leave_at):
            pass
        events.close()
        edited = [*LONG[:300], 5, 6]
        same(answer(s, edited, SHORT), fresh(name, edited, SHORT))


def test_cancelling_during_the_prompt_ends_the_reply_and_keeps_what_was_fed() -> None:
    s = session("qwen3")
    cut = list(s.continue_tokens(LONG, SHORT, cancelled=lambda: True))
    assert [type(e) for e in cut] == [PromptProgress, PromptProgress, Finished]
    assert (cut[-1].reason, cut[-1].tokens) == ("cancelled", 0)
    again = answer(s, LONG, SHORT)
    assert again.reused == PREFILL_CHUNK
    same(again, fresh("qwen3", LONG, SHORT))


@pytest.mark.parametrize("kind", DRAFTERS)
@pytest.mark.parametrize("name", ["llama", "mamba2"])
def test_cancelling_a_reply_keeps_what_was_said(name: str, kind: str) -> None:
    whole = fresh(name, PROMPT, SHORT, kind)
    s, d, calls = session(name), drafter(kind, name), itertools.count()
    cut = answer(s, PROMPT, SHORT, d, cancelled=lambda: next(calls) == 3)
    assert cut.end.reason == "cancelled"
    assert cut.ids == whole.ids[: len(cut.ids)]
    assert 0 < len(cut.ids) == cut.end.tokens < len(whole.ids)
    assert s.tokens == [*PROMPT, *cut.ids]
    after = [*s.tokens, *TURN]
    same(answer(s, after, SHORT, d), fresh(name, after, SHORT, kind))


# --- ends -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", DRAFTERS)
@pytest.mark.parametrize("name", MODELS)
def test_a_stop_string_cuts_text_tokens_and_caches_alike(name: str, kind: str) -> None:
    """The reply ends with the token that completed the stop, and the conversation goes on from there."""
    whole = fresh(name, PROMPT, Settings(max_tokens=24))
    texts = [t for r in whole.rounds for t in r.texts]
    for at in (4, 9, 12):
        stop = "".join(texts[at : at + 2])
        text = whole.text[: whole.text.index(stop)]
        count = next(n for n in range(1, 25) if stop in "".join(texts[:n]))
        s, d = session(name), drafter(kind, name)
        cut = answer(s, PROMPT, Settings(max_tokens=24, stop=(stop,)), d)
        assert (cut.text, cut.ids, cut.end.reason, cut.end.tokens) == (text, whole.ids[:count], "stop", count)
        assert s.tokens == [*PROMPT, *cut.ids]
        assert s.target.length < len(s.tokens)
        after = [*s.tokens, *TURN]
        same(answer(s, after, SHORT, d), fresh(name, after, SHORT, kind))


@pytest.mark.parametrize("kind", DRAFTERS)
def test_what_was_held_back_for_a_stop_is_told_when_the_reply_ends_without_it(kind: str) -> None:
    whole = fresh("qwen3", PROMPT, SHORT, kind)
    stop = whole.text[-3:] + "never said"
    held = answer(session("qwen3"), PROMPT, Settings(max_tokens=10, stop=(stop,)), drafter(kind, "qwen3"))
    same(held, whole)


@pytest.mark.parametrize("kind", DRAFTERS)
def test_eos_ends_the_reply_and_the_next_turn_goes_on_behind_it(kind: str) -> None:
    whole = fresh("qwen3", PROMPT, SHORT)
    at = next(i for i in range(3, 10) if whole.ids[i] not in whole.ids[:i])
    s, d = session("qwen3", frozenset([whole.ids[at]])), drafter(kind, "qwen3")
    cut = answer(s, PROMPT, SHORT, d)
    assert (cut.ids, cut.end.reason) == (whole.ids[: at + 1], "eos")
    said = len(s.tokens)
    after = [*s.tokens, *TURN]
    again = answer(s, after, Settings(max_tokens=4), d)
    assert said - 1 <= again.reused <= said
    assert again.ids == fresh("qwen3", after, SHORT, kind).ids[:4]


def test_the_context_ends_a_reply_and_refuses_a_prompt_that_fills_it() -> None:
    s = session("qwen3", context=len(PROMPT) + 5)
    full = answer(s, PROMPT, SHORT, drafter("lookup", "qwen3"))
    assert (len(full.ids), full.end.reason) == (5, "context")
    kept, length = list(s.tokens), s.target.length
    with pytest.raises(ContextError, match=f"{len(s.tokens)} tokens"):
        next(s.continue_tokens(s.tokens, SHORT))
    assert (s.tokens, s.target.length) == (kept, length)


def test_an_empty_prompt_is_refused() -> None:
    with pytest.raises(UsageError, match="empty"):
        next(session("qwen3").reply([], SHORT))


def test_a_session_that_forgets_starts_from_nothing() -> None:
    for name in MODELS:
        s, d = session(name), drafter("draft model", name)
        answer(s, PROMPT, SHORT, d)
        s.forget()
        assert (s.target.length, s.tokens) == (0, [])
        again = answer(s, PROMPT, SHORT, d)
        assert again.reused == 0
        same(again, fresh(name, PROMPT, SHORT, "draft model"))
