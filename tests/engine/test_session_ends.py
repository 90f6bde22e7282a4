"""How replies end, and that the conversation goes on from there: cancelled, stopped, full, forgotten."""

import pytest

from engine.drafters.draft_model import DraftModel
from engine.errors import ContextError, SupersededError, UsageError
from engine.events import Finished, PromptProgress
from engine.session import Prompt, Session
from engine.settings import SamplingSettings
from engine.target.cached_model import PREFILL_CHUNK, CachedModel
from tests.engine.conversations import (
    CONTEXT,
    DRAFTERS,
    LONG,
    MODELS,
    SHORT,
    TURN,
    answer,
    drafter,
    fresh,
    same,
    session,
)
from tests.engine.fakes import ByteTokenizer, Counting
from tests.engine.replies import PROMPT


def test_cancelling_during_the_prompt_ends_the_reply_and_keeps_what_was_fed() -> None:
    s = session("qwen3")
    cut = list(s.continue_tokens(Prompt(LONG), SHORT, cancelled=lambda: True))
    assert [type(e) for e in cut] == [PromptProgress, PromptProgress, Finished]
    assert (cut[-1].reason, cut[-1].tokens) == ("cancelled", 0)
    again = answer(s, LONG, SHORT)
    assert again.reused == PREFILL_CHUNK
    same(again, fresh("qwen3", LONG, SHORT))


def test_cancelling_while_the_drafter_reads_the_prompt_ends_the_reply() -> None:
    """And nothing is read after it."""
    counting = Counting(MODELS["qwen3"])
    d, s = DraftModel(CachedModel(counting), 64), session("qwen3")
    cut = answer(s, LONG, SHORT, d, cancelled=lambda: len(counting.rows) > 1)
    assert (cut.end.reason, cut.end.tokens) == ("cancelled", 0)
    assert counting.rows == [1, PREFILL_CHUNK]  # the first to learn its width
    assert answer(s, LONG, SHORT, d).ids == fresh("qwen3", LONG, SHORT).ids


@pytest.mark.parametrize(("name", "kind"), [("llama", "none"), ("llama", "draft model"), ("mamba2", "lookup")])
def test_cancelling_a_reply_keeps_what_was_said(name: str, kind: str) -> None:
    whole = fresh(name, PROMPT, SHORT, kind)
    s, d = session(name), drafter(kind, name)
    cut = answer(s, PROMPT, SHORT, d, cancelled=lambda: len(s.tokens) > len(PROMPT) + 2)
    assert cut.end.reason == "cancelled"
    assert cut.ids == whole.ids[: len(cut.ids)]
    assert 0 < len(cut.ids) == cut.end.tokens < len(whole.ids)
    assert s.tokens == [*PROMPT, *cut.ids]
    after = [*s.tokens, *TURN]
    same(answer(s, after, SHORT, d), fresh(name, after, SHORT, kind))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "kind"), [("qwen3", "eagle trees"), ("llama", "lookup"), ("mamba2", "none"), ("qwen3_next", "draft model")]
)
def test_a_stop_string_cuts_text_tokens_and_caches_alike(name: str, kind: str) -> None:
    """The reply ends with the token that completed the stop, and the conversation goes on from there."""
    whole = fresh(name, PROMPT, SamplingSettings(max_tokens=24))
    texts = [t for r in whole.rounds for t in r.texts]
    for at in (4, 9, 12):
        stop = "".join(texts[at : at + 2])
        text = whole.text[: whole.text.index(stop)]
        count = next(n for n in range(1, 25) if stop in "".join(texts[:n]))
        s, d = session(name), drafter(kind, name)
        cut = answer(s, PROMPT, SamplingSettings(max_tokens=24, stop=(stop,)), d)
        assert (cut.text, cut.ids, cut.end.reason, cut.end.tokens) == (text, whole.ids[:count], "stop", count)
        assert s.tokens == [*PROMPT, *cut.ids]
        assert s.target.length < len(s.tokens)
        after = [*s.tokens, *TURN]
        same(answer(s, after, SHORT, d), fresh(name, after, SHORT, kind))


def test_what_was_held_back_for_a_stop_is_told_when_the_reply_ends_without_it() -> None:
    kind = "draft model"
    whole = fresh("qwen3", PROMPT, SHORT, kind)
    stop = whole.text[-3:] + "never said"
    held = answer(session("qwen3"), PROMPT, SamplingSettings(max_tokens=10, stop=(stop,)), drafter(kind, "qwen3"))
    same(held, whole)


@pytest.mark.parametrize("kind", DRAFTERS)
def test_eos_ends_the_reply_and_the_next_turn_goes_on_after_it(kind: str) -> None:
    whole = fresh("qwen3", PROMPT, SHORT)
    at = next(i for i in range(3, 10) if whole.ids[i] not in whole.ids[:i])
    s, d = session("qwen3", frozenset([whole.ids[at]])), drafter(kind, "qwen3")
    cut = answer(s, PROMPT, SHORT, d)
    assert (cut.ids, cut.end.reason) == (whole.ids[: at + 1], "eos")
    said = len(s.tokens)
    after = [*s.tokens, *TURN]
    again = answer(s, after, SamplingSettings(max_tokens=4), d)
    assert said - 1 <= again.reused <= said
    assert again.ids == fresh("qwen3", after, SHORT, kind).ids[:4]


def test_the_context_ends_a_reply_and_refuses_a_prompt_that_fills_it_or_is_empty() -> None:
    s = session("qwen3", context=len(PROMPT) + 5)
    full = answer(s, PROMPT, SHORT, drafter("lookup", "qwen3"))
    assert (len(full.ids), full.end.reason) == (5, "context")
    kept, length = list(s.tokens), s.target.length
    with pytest.raises(ContextError, match=f"{len(s.tokens)} tokens"):
        next(s.continue_tokens(Prompt(s.tokens), SHORT))
    with pytest.raises(UsageError, match="empty"):
        next(s.reply([], SHORT))
    assert (s.tokens, s.target.length) == (kept, length)


def test_a_session_that_forgets_starts_from_nothing() -> None:
    for name in MODELS:
        s, d = session(name), drafter("draft model", name)
        answer(s, PROMPT, SHORT, d)
        s.forget()
        assert (s.target.length, s.tokens) == (0, [])
        again = answer(s, PROMPT, SHORT, d)
        assert again.reused == 0
        same(again, fresh(name, PROMPT, SHORT, "draft model"))


@pytest.mark.parametrize("name", ["qwen3", "mamba2"])
def test_two_conversations_on_one_target_do_not_mix(name: str) -> None:
    target = CachedModel(MODELS[name])
    one, two = (Session(target, ByteTokenizer(), CONTEXT) for _ in range(2))
    mine = answer(one, PROMPT, SHORT).ids
    answer(two, [*PROMPT, 40, 41, 42, 43], SHORT)
    again = [*PROMPT, *mine, 7, 8]
    same(answer(one, again, SHORT), fresh(name, again, SHORT))


@pytest.mark.parametrize(("events", "same_session"), [(1, False), (4, True)])
def test_a_reply_cannot_go_on_after_another_has_begun(events: int, same_session: bool) -> None:
    target = CachedModel(MODELS["qwen3"])
    one = Session(target, ByteTokenizer(), CONTEXT)
    two = one if same_session else Session(target, ByteTokenizer(), CONTEXT)
    first = one.continue_tokens(Prompt(PROMPT), SHORT)
    for _ in range(events):
        next(first)
    answer(two, [*PROMPT, 40, 41], SHORT)
    with pytest.raises(SupersededError):
        next(first)
    same(answer(one, PROMPT, SHORT), fresh("qwen3", PROMPT, SHORT))


def test_a_recurrent_state_that_ran_ahead_is_taken_back_by_one_token() -> None:
    """Plain steps are launched one after the other; the last token still costs one to take back, not the reply."""
    s = session("mamba2")
    answer(s, PROMPT, SHORT)
    assert s.target.rewind(len(s.tokens) - 2) == len(s.tokens) - 2
