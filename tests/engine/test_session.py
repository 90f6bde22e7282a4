"""A conversation: what one turn leaves behind never changes what the next one says."""

import itertools

import pytest

from engine.cache.sliding_window import SlidingKVCache
from engine.events import Finished, PromptProgress
from engine.policy.fixed import FixedLength
from engine.session import Prompt, Session
from engine.settings import SamplingSettings
from engine.target.cached_model import PREFILL_CHUNK, CachedModel
from tests.engine.conversations import (
    CONTEXT,
    LONG,
    MODELS,
    SHAPED,
    SHORT,
    TURN,
    answer,
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
    first = read(list(s.reply(messages, SHORT)))
    prompt = ByteTokenizer().chat(messages)
    same(first, fresh("qwen3", prompt, SHORT))
    messages.append({"role": "assistant", "content": "no"})
    second = read(list(s.reply([*messages, {"role": "user", "content": "why"}], SHORT)))
    assert second.reused >= len(prompt)


# --- drafters -------------------------------------------------------------------------------------


ALL_KINDS = ["none", "eagle", "lookup", "eagle", "eagle trees", "eagle", "none", "none", "eagle trees", "medusa trees"]


@pytest.mark.slow_for("llama-kinds1")
@pytest.mark.parametrize(
    ("name", "kinds"),
    [
        ("mamba2", ["draft model", "lookup", "draft model", "none", "lookup"]),
        ("llama", [*ALL_KINDS, "none", "medusa trees"]),
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


@pytest.mark.slow_for("llama-lookup trees-turn", "llama-eagle-turn", "mamba2-none-turn", "qwen3_next-none-same prompt")
@pytest.mark.parametrize(
    ("name", "kind", "then"),
    [
        *(("llama", kind, "turn") for kind in ("draft model", "lookup trees", "eagle", "eagle trees")),
        *(("mamba2", kind, "turn") for kind in ("none", "lookup")),
        *(("qwen3_next", kind, "same prompt") for kind in ("none", "draft model")),
    ],
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
