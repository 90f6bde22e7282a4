"""A conversation: what one turn leaves behind never changes what the next one says."""

import itertools

import pytest

from engine.cache.sliding_window import SlidingKVCache
from engine.drafters.draft_model import DraftModel
from engine.errors import ContextError, SupersededError, UsageError
from engine.events import Finished, PromptProgress
from engine.policy.fixed import FixedLength
from engine.session import Prompt, Session
from engine.settings import SamplingSettings
from engine.target.cached_model import PREFILL_CHUNK, CachedModel
from tests.engine.conversations import (
    CONTEXT,
    DRAFTERS,
    LONG,
    MODELS,
    SHAPED,
    SHORT,
    TURN,
    answer,
    chat_reply,
    drafter,
    events_of,
    fresh,
    read,
    same,
    session,
)
from tests.engine.fakes import ByteTokenizer, Counting
from tests.engine.replies import PROMPT, draft_model

# --- turns ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(("name", "kind"), [("qwen3", "eagle trees"), ("llama", "lookup"), ("mamba2", "draft model")])
def test_turns_and_edits_answer_like_a_fresh_session(name: str, kind: str) -> None:
    """Three turns, an edit of the last one, an edit of the first, and a conversation with nothing in common."""
    s, d = session(name), drafter(kind, name)
    first = [*PROMPT, 11]
    second = [*first, *answer(s, first, SHAPED, d).ids, *TURN]
    for prompt in (second, [*second[:-2], 40, 41, 42], [*PROMPT, 12, 13], [50, *PROMPT], PROMPT[:3]):
        same(answer(s, prompt, SHAPED, d), fresh(name, prompt, SHAPED, kind))


@pytest.mark.parametrize(("name", "kind"), [("qwen3", "lookup"), ("llama", "draft model"), ("llama", "none")])
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
    progress = [e for e in s.continue_tokens(Prompt(LONG), SHORT) if isinstance(e, PromptProgress)]
    assert [(p.done, p.total, p.reused) for p in progress] == [
        (0, len(LONG), 0),
        (PREFILL_CHUNK, len(LONG), 0),
        (len(LONG) - 1, len(LONG), 0),
    ]
    assert sum(network.rows) == len(LONG) - 1 + SHORT.max_tokens


def test_progress_tells_how_far_the_drafter_has_read_too() -> None:
    """A draft model reads along with the target, and where the target knows a prompt already, by itself."""
    s, prompt = Session(CachedModel(MODELS["qwen3"]), ByteTokenizer(), 4 * len(LONG)), LONG[:-1] + LONG
    first, second = PREFILL_CHUNK, 2 * PREFILL_CHUNK
    for expected in ([0, first, second, len(prompt) - 1], [0, first, len(prompt) - 1]):
        d, told = draft_model(MODELS["llama"], 64), list[int]()
        for event in s.continue_tokens(Prompt(prompt), SHORT, d, FixedLength(2)):
            if isinstance(event, PromptProgress):
                told.append(event.done)
                assert d.model.length >= event.done
        assert told == expected


@pytest.mark.parametrize(
    ("name", "kind"), [("qwen3", "none"), ("llama", "lookup"), ("mamba2", "none"), ("qwen3_next", "draft model")]
)
def test_an_edit_of_the_last_message_keeps_everything_before_it(name: str, kind: str) -> None:
    """Recurrent states cannot drop tokens; the place before each reply is kept for this."""
    s, d = session(name), drafter(kind, name)
    answer(s, PROMPT, SHORT, d)
    edited = [*PROMPT[:-1], 33, 34]
    again = answer(s, edited, SHORT, d)
    assert again.reused == len(PROMPT) - 1
    same(again, fresh(name, edited, SHORT, kind))


def test_a_pinned_place_outlives_the_slack_of_a_window() -> None:
    """After a reply so long that the window has moved on, an edit still goes back to where the reply began."""
    s = session("llama")
    answer(s, LONG, SamplingSettings(max_tokens=200))
    windows = [leaf for leaf in s.target.cache.entries if isinstance(leaf, SlidingKVCache)]
    assert all(leaf.least_length > len(LONG) for leaf in windows)
    edited = [*LONG[:-1], 33]
    again = answer(s, edited, SHORT)
    assert again.reused == len(LONG) - 1
    same(again, fresh("llama", edited, SHORT))


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
    first = read(list(chat_reply(s, messages, SHORT)))
    prompt = ByteTokenizer().chat(messages)
    same(first, fresh("qwen3", prompt, SHORT))
    messages.append({"role": "assistant", "content": "no"})
    second = read(list(chat_reply(s, [*messages, {"role": "user", "content": "why"}], SHORT)))
    assert second.reused >= len(prompt)


# --- drafters -------------------------------------------------------------------------------------


@pytest.mark.slow_for("llama-kinds1")
@pytest.mark.parametrize(
    ("name", "kinds"),
    [
        ("mamba2", ["draft model", "lookup", "draft model", "none", "lookup"]),
        ("llama", ["none", "eagle", "lookup", "eagle trees", "eagle", "none", "none", "eagle trees"]),
    ],
)
def test_drafters_may_change_between_replies(name: str, kinds: list[str]) -> None:
    """One that comes back has not seen what was said meanwhile, and must not mistake old text for new."""
    s, drafters, prompt = session(name), {kind: drafter(kind, name) for kind in kinds}, list(PROMPT)
    for turn, kind in enumerate(kinds):
        prompt = [*prompt[: len(prompt) - 8 * (turn % 3)], 20 + turn, 30 + turn, 4]
        reply = answer(s, prompt, SHORT, drafters[kind])
        same(reply, fresh(name, prompt, SHORT, kind))
        prompt = [*prompt, *reply.ids]


# --- replies that are abandoned --------------------------------------------------------------------

LEFT = SamplingSettings(max_tokens=7)


@pytest.mark.parametrize(
    ("name", "kind", "then"),
    [("llama", "eagle trees", "turn"), ("mamba2", "lookup", "turn"), ("qwen3_next", "draft model", "same prompt")],
)
def test_a_reply_left_at_any_event_can_be_gone_on_from(name: str, kind: str, then: str) -> None:
    """The reply is closed after each of its events in turn; then another turn follows, or the same prompt again."""
    for leave_at in itertools.count():
        s, d = session(name), drafter(kind, name)
        events = events_of(s, PROMPT, LEFT, d)
        seen = list(itertools.islice(events, leave_at))
        events.close()
        if seen and isinstance(seen[-1], Finished):
            return
        assert s.target.length <= len(s.tokens)
        after = [*(s.tokens or PROMPT), *TURN] if then == "turn" else PROMPT
        same(answer(s, after, LEFT, d), fresh(name, after, LEFT, kind))


@pytest.mark.slow_for("qwen3")
@pytest.mark.parametrize("name", ["qwen3", "llama", "mamba2"])
def test_a_long_prompt_left_half_way_can_be_asked_again(name: str) -> None:
    for leave_at in range(4):
        s = session(name)
        events = s.continue_tokens(Prompt(LONG), SHORT)
        list(itertools.islice(events, leave_at))
        events.close()
        edited = [*LONG[:300], 5, 6]
        same(answer(s, edited, SHORT), fresh(name, edited, SHORT))


# --- how replies end ---


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
        next(chat_reply(s, [], SHORT))
    assert (s.tokens, s.target.length) == (kept, length)


def test_a_session_that_forgets_starts_from_nothing() -> None:
    for name in ("llama", "mamba2"):
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
