"""Drafters of every kind: the text is plain decoding's, and each draft is what a new drafter would propose there."""

from collections.abc import Iterator
from dataclasses import replace
from itertools import zip_longest
from typing import Any

import pytest

from engine import drafters
from engine.drafters import Drafter
from engine.drafters.eagle3 import Eagle3
from engine.drafters.medusa import Medusa
from engine.events import Event
from engine.policy.fixed import FixedLength
from engine.session import Prompt, Session
from tests.engine.conversations import CONTEXT, SHAPED, TURN, read, same
from tests.engine.drafters.toy_drafters import EVERY_KIND, KINDS, LONGROPE_LENGTH, made, target_of
from tests.engine.fakes import ByteTokenizer
from tests.engine.replies import PROMPT, draft_context, plain_reply
from tests.engine.test_kept_conversations import ROOM, text
from tests.toys.heads import random_eagle3, random_medusa

SETTINGS = replace(SHAPED, max_tokens=12)
GROWING, LONG = PROMPT[:16], text(1, 60)  # texts of LongRoPE: one grows long, one is long from the start
assert len(GROWING) < LONGROPE_LENGTH < len(GROWING) + SETTINGS.max_tokens


def reply(session: Session, drafter: Drafter, prompt: list[int]) -> Iterator[Event]:
    return session.continue_tokens(Prompt(prompt), SETTINGS, drafter, FixedLength(3))


def session_of(kind: str) -> Session:
    session = Session(target_of(kind), ByteTokenizer(), CONTEXT)
    session.kept.limit_bytes = ROOM
    return session


@pytest.mark.parametrize("kind", EVERY_KIND)
def test_replies_that_alternate_and_edits_are_drafted_as_from_nothing(kind: str) -> None:
    """Two replies alternate round by round, with two drafters of the same weights. Then the first session goes on from
    the other's conversation, which it finds kept, but for its last tokens, which were edited."""
    first = session_of(kind)
    second = first.for_another_reply()
    one = made(kind, first.target)
    events: list[list[Any]] = [[], []]
    other = one.for_another_reply(second.target)
    for pair in zip_longest(reply(first, one, GROWING), reply(second, other, LONG)):
        for found, event in zip(events, pair, strict=True):
            found += [] if event is None else [event]
    replies = [read(each) for each in events]
    edited = [*LONG, *replies[1].ids[:-3], *TURN]
    assert second.put_aside()
    replies.append(read(list(reply(first, one, edited))))
    assert replies[2].reused >= len(LONG) - 2  # a head must see the last state again
    assert any(any(each.drafts) for each in replies)
    for mine, prompt in zip(replies, (GROWING, LONG, edited), strict=True):
        fresh = session_of(kind)
        same(mine, read(list(reply(fresh, made(kind, fresh.target), prompt))))
        assert mine.ids == plain_reply(fresh.target.model, SETTINGS, SETTINGS.max_tokens, prompt=prompt)


@pytest.mark.parametrize("kind", ["Gemma 4", "Medusa", "MLP speculator"])
def test_a_head_of_the_latest_state_joins_a_conversation_without_reading_it_again(kind: str) -> None:
    """After a reply without it, and where such a conversation is kept."""
    session = session_of(kind)
    first = read(list(session.continue_tokens(Prompt(LONG), SETTINGS)))
    further = [*LONG, *first.ids, *TURN]
    drafter = made(kind, session.target)
    joined = read(list(reply(session, drafter, further)))
    assert joined.reused >= len(LONG) + len(first.ids) - 2
    session.put_aside()
    read(list(session.continue_tokens(Prompt(LONG), SETTINGS)))
    session.put_aside()
    kept = read(list(reply(session, made(kind, session.target), further)))
    assert kept.reused >= len(LONG) + len(first.ids) - 2
    fresh = session_of(kind)
    alone = read(list(reply(fresh, made(kind, fresh.target), further)))
    assert any(alone.drafts)
    same(joined, alone)
    same(kept, alone)


def test_a_head_of_the_whole_vocabulary_has_no_map_of_tokens() -> None:
    """With one, the noise of every draw would be gathered, and its log q scattered, for nothing."""
    target = target_of("Medusa")
    assert Medusa(random_medusa(draft_vocab_size=64), [(0,)], target).needs.token_map is None
    for trees in (False, True):
        assert Eagle3(random_eagle3(draft_vocab_size=64), target, trees).needs.token_map is None
    assert Eagle3(random_eagle3(), target).needs.token_map is not None


def test_every_kind_of_drafter_is_here() -> None:
    made_here = {type(made(kind, target_of(kind))) for kind in KINDS}

    def concrete(kind: type) -> Iterator[type]:
        for each in kind.__subclasses__():
            yield from concrete(each)
            if each.__module__.startswith(drafters.__name__) and not getattr(each, "__abstractmethods__", ()):
                yield each

    assert set(concrete(Drafter)) == made_here


@pytest.mark.parametrize("kind", KINDS)
def test_no_token_is_drafted_before_there_is_a_state(kind: str) -> None:
    target = target_of(kind)
    drafter = made(kind, target)
    if drafter.needs.taps:
        assert drafter.propose(draft_context([3]), 3).tokens.size == 0
