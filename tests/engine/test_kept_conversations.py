"""Conversations that are kept while another one is in the caches: the text is that of an unswitched chat, and little of
it is read again."""

from functools import cache
from typing import Any

import mlx.core as mx
import numpy as np
import pytest

from engine.events import PromptProgress
from engine.kept_conversations import LEAST_TOKENS, MOST, KeptConversation, KeptConversations, Request
from engine.policy.fixed import FixedLength
from engine.session import Prompt, Session
from engine.settings import SamplingSettings
from engine.target.cached_model import CachedModel
from tests.engine.cache.test_model_cache import wide_llama
from tests.engine.conversations import CONTEXT, MODELS, SHAPED, TURN, Reply, answer, drafter, read, same
from tests.engine.fakes import ByteTokenizer
from tests.engine.replies import attach
from tests.toys.architectures import build

ROOM = 1 << 30  # bytes, for every conversation of a toy


def text(seed: int, length: int = 150) -> list[int]:
    return [int(token) for token in np.random.default_rng(seed).integers(0, 52, length)]


@cache
def network(name: str) -> Any:
    return MODELS[name] if name in MODELS else wide_llama() if name == "wide llama" else build(name)


def session_with_room(name: str, limit_bytes: int = ROOM, kv_bits: int | None = None) -> Session:
    made = Session(CachedModel(network(name), kv_bits, 32), ByteTokenizer(), CONTEXT)
    made.kept.limit_bytes = limit_bytes
    return made


def chat(switches: bool, name: str, kind: str, settings: SamplingSettings) -> list[Reply]:
    """Three turns of each of two conversations: alternating in one session, or each in a session of its own."""
    replies: list[Reply] = []
    sessions = [session_with_room(name)] * 2 if switches else [session_with_room(name, 0), session_with_room(name, 0)]
    drafters = [drafter(kind, name)] * 2 if switches else [drafter(kind, name), drafter(kind, name)]
    prompts = [text(1), text(2, 90)]
    for _ in range(3):
        for number, (session, own) in enumerate(zip(sessions, drafters, strict=True)):
            attach(own, session.target)
            replies.append(answer(session, prompts[number], settings, own))
            prompts[number] += [*replies[-1].ids, *TURN]
    return replies


@pytest.mark.parametrize(("name", "kind"), [("llama", "lookup"), ("mamba2", "draft model"), ("qwen3_next", "none")])
def test_two_alternating_conversations_say_what_each_says_alone(name: str, kind: str) -> None:
    """The texts, and draft by draft what was proposed; and no more is read than without a switch."""
    for mine, theirs in zip(chat(True, name, kind, SHAPED), chat(False, name, kind, SHAPED), strict=True):
        same(mine, theirs)
        assert mine.reused == theirs.reused


@pytest.mark.parametrize(("name", "kv_bits", "exact"), [("wide llama", 8, False), ("llama", None, True)])
def test_quantized_keys_and_exact_verify_survive_a_switch(name: str, kv_bits: int | None, exact: bool) -> None:
    settings = SamplingSettings(max_tokens=10, exact=exact)
    switched, own = session_with_room(name, kv_bits=kv_bits), session_with_room(name, 0, kv_bits)
    first = answer(switched, text(1), settings)
    answer(switched, text(2), settings)
    follow = [*text(1), *first.ids, *TURN]
    again = answer(switched, follow, settings)
    answer(own, text(1), settings)
    alone = answer(own, follow, settings)
    same(again, alone)
    assert again.reused == alone.reused > len(text(1))


def test_a_long_common_beginning_stays_and_both_continue() -> None:
    """Two conversations that begin alike: the second goes on from what it shares, the first is kept whole."""
    session, shared = session_with_room("qwen3"), text(1)
    first, second = [*shared, *text(3, 300)], [*shared, *text(4, 80)]
    answer(session, first, SHAPED)
    branch = answer(session, second, SHAPED)
    assert branch.reused == len(shared)
    same(branch, answer(session_with_room("qwen3", 0), second, SHAPED))
    again = answer(session, [*first, 5], SHAPED)
    assert again.reused == len(first)
    same(again, answer(session_with_room("qwen3", 0), [*first, 5], SHAPED))


def ask(session: Session, prompt: list[int]) -> int:
    """Returns how many tokens were reused for a reply to a prompt whose last two tokens open it."""
    settings = SamplingSettings(max_tokens=4)
    return read(list(session.continue_tokens(Prompt(prompt, (len(prompt) - 2,)), settings))).reused


def test_four_agents_with_short_questions_reuse_all_that_they_could() -> None:
    """However little a question adds to the system prompt, in every order in which they take turns."""
    session, shared = session_with_room("qwen3"), text(1)
    prompts = [[*shared, number, 40, 41] for number in range(4)]
    possible = [0, *[len(shared)] * 3]
    for _ in range(3):
        for number, prompt in enumerate(prompts):
            assert ask(session, prompt) == possible[number]
            possible[number] = len(session.tokens) - 1  # the last token has been through no cache
            prompt[:] = [*session.tokens, 50, number, 40, 41]


def test_a_branch_takes_the_memory_of_its_own_tokens() -> None:
    session = session_with_room("qwen3")
    answer(session, text(1, 1500), SHAPED)
    long = sum(array.nbytes for array in session.target.cache.arrays())
    assert answer(session, [*text(1, 1500)[:100], *text(2, 20)], SHAPED).reused == 100
    assert sum(array.nbytes for array in session.target.cache.arrays()) < long / 3


@pytest.mark.parametrize("name", ["mamba2", "qwen3_next", "llama"])
def test_the_conversation_of_which_the_most_can_be_reused_is_continued(name: str) -> None:
    """Though another one shares more tokens: its caches cannot go back to where the two part."""
    session, first = session_with_room(name), text(1, 600)
    ask(session, [*first[:500], *text(2, 300)])
    pinned = Prompt(first[:480], (400,))
    read(list(session.continue_tokens(pinned, SamplingSettings(max_tokens=4))))
    ask(session, text(3))
    assert ask(session, first) >= 400


@pytest.mark.parametrize("name", ["mamba2", "qwen3_next"])
def test_an_edit_after_a_switch_goes_back_to_a_mark(name: str) -> None:
    """Recurrent states cannot drop tokens: the place before the reply is kept with the conversation."""
    session = session_with_room(name)
    answer(session, text(1), SHAPED)
    answer(session, text(2), SHAPED)
    edited = [*text(1)[:-1], 33, 34]
    again = answer(session, edited, SHAPED)
    assert again.reused == len(text(1)) - 1
    same(again, answer(session_with_room(name, 0), edited, SHAPED))


def test_a_reply_that_was_abandoned_is_kept_as_far_as_it_came() -> None:
    session = session_with_room("qwen3")
    events = session.continue_tokens(Prompt(text(1)), SHAPED, None, FixedLength(0))
    started = [next(events) for _ in range(4)]
    events.close()
    told = [token for event in started if not isinstance(event, PromptProgress) for token in event.tokens]
    answer(session, text(2), SHAPED)
    again = answer(session, [*text(1), *told, 3], SHAPED)
    assert told and again.reused >= len(text(1))


def test_putting_aside_keeps_the_conversation_and_empties_the_caches() -> None:
    session = session_with_room("qwen3")
    first = answer(session, text(1), SHAPED)
    assert session.put_aside()
    assert session.target.length == 0 and not session.tokens and len(session.kept) == 1
    assert answer(session, [*text(1), *first.ids, 4], SHAPED).reused == len(text(1)) + len(first.ids) - 1
    assert len(session.kept) == 0
    session.kept.limit_bytes = 0
    assert not session.put_aside() and session.tokens


def kept(seed: int, rows: int) -> KeptConversation:
    cache = {"keys": mx.zeros((rows, 256), mx.uint8), "length": 150, "reach": (0, [])}
    return KeptConversation(tuple(text(seed)), {"cache": cache}, next_question=140)


def test_what_was_used_longest_ago_goes_first_and_the_limit_holds() -> None:
    pool = KeptConversations(1024)
    assert all(pool.add(kept(seed, 1)) for seed in range(4))
    assert pool.use(Request(text(0)), LEAST_TOKENS) is not None  # used last now
    assert pool.add(kept(0, 1)) and pool.add(kept(9, 1))
    assert pool.use(Request(text(1)), LEAST_TOKENS) is None and pool.use(Request(text(0)), LEAST_TOKENS) is not None
    assert pool.nbytes <= 1024
    assert not pool.add(kept(7, 5)) and len(pool) == 3
    pool.limit_bytes = 256
    assert len(pool) == 1 and pool.use(Request(text(9)), LEAST_TOKENS) is not None


def test_no_more_than_so_many_are_kept_whatever_the_memory() -> None:
    pool = KeptConversations(ROOM)
    assert all(pool.add(kept(seed, 1)) for seed in range(MOST + 3))
    assert len(pool) == MOST
    assert pool.find(text(2)) is None and pool.find(text(3)) is not None


def test_a_conversation_that_shares_too_little_is_left_where_it_is() -> None:
    pool = KeptConversations(1024)
    pool.add(kept(1, 1))
    assert pool.use(Request([*text(1)[: LEAST_TOKENS - 1], 60]), LEAST_TOKENS) is None
    assert len(pool) == 1
