"""From rounds to text, spans and what is known of each token."""

from __future__ import annotations

import random
from dataclasses import replace

from msgspec.structs import replace as changed

from app.protocol import RoundDone
from app.window.transcript.reply_tokens import LONGEST_LAG_S, ReplyTokens
from engine.events import Round
from tests.app.window.transcript.samples import REPLY, rounds


def round_(index: int, texts: tuple[str, ...], drafted: tuple[str, ...], accepted: int, **tree: object) -> RoundDone:
    made = Round(
        index=index,
        tokens=tuple(range(len(texts))),
        drafted=tuple(range(len(drafted))),
        accepted=accepted,
        p=tuple(0.5 + i / 10 for i in range(len(texts))),
        q=tuple(0.1 + i / 10 for i in range(len(drafted))),
        width=len(drafted) + 1,
        time_s=float(index),
        texts=texts,
        **tree,  # type: ignore[arg-type]
    )
    return RoundDone(id=1, round=made, drafted_texts=drafted)


CHAIN = round_(0, ("The", " sky"), ("The", " sea", " is"), 1)


def test_text_and_spans_are_those_of_the_rounds() -> None:
    tokens = ReplyTokens([CHAIN, round_(1, (" is",), (), 0)])
    assert tokens.text == "The sky is"
    assert [(s.start, s.end, s.origin, s.token) for s in tokens.spans] == [
        (0, 3, "accepted", 0),
        (3, 7, "corrected", 1),
        (7, 10, None, 2),
    ]


def test_what_is_received_waits_to_be_shown_and_comes_in_order() -> None:
    tokens = ReplyTokens()
    tokens.receive(CHAIN, now_s=1.0)
    assert (tokens.text, tokens.spans, tokens.waiting) == ("", [], 2)
    assert tokens.show(1.2) == "The sky" == tokens.text
    assert not tokens.waiting


def test_a_token_knows_the_q_it_was_drafted_with_and_a_correction_what_was_proposed_instead() -> None:
    tokens = ReplyTokens([CHAIN])
    accepted, detail = tokens.detail(0), tokens.detail(1)
    assert accepted is not None and (accepted.q, accepted.instead) == (0.1, ())
    assert tokens.refused(0, 2) == {1: " sea is"}
    assert tokens.detail(2) is None and tokens.detail(-1) is None
    assert detail is not None
    assert (detail.round, detail.origin, detail.p, detail.q) == (1, "corrected", 0.6, None)
    assert detail.instead == ((" sea", 0.2),)


def test_in_a_tree_the_siblings_are_what_was_proposed_instead() -> None:
    # -1 -> a, b; b -> c, d: b is taken, then neither c nor d
    tree = round_(0, ("b", "x"), ("a", "b", "c", "d"), 1, parents=(-1, -1, 1, 1), path=(1,))
    tokens = ReplyTokens([tree])
    first, second = tokens.detail(0), tokens.detail(1)
    assert first is not None and second is not None
    assert (first.q, first.instead) == (0.2, (("a", 0.1),))
    assert [text for text, _ in second.instead] == ["c", "d"]
    assert tokens.refused(0, 2) == {0: "a", 1: "c / d"}


def test_a_round_received_twice_counts_once() -> None:
    told = list(rounds(REPLY))
    tokens = ReplyTokens(told)
    for one in told[-3:]:
        tokens.receive(one)
    assert not tokens.waiting and tokens.text == REPLY


def test_rounds_are_counted_through_a_reply_that_was_continued() -> None:
    again = round_(0, (" Again",), (), 0)
    tokens = ReplyTokens([CHAIN, again])
    detail = tokens.detail(2)
    assert tokens.text == "The sky Again"
    assert detail is not None and detail.round == 2


def test_the_end_adds_what_was_held_back_and_takes_back_what_was_cut() -> None:
    longer, shorter = ReplyTokens([CHAIN]), ReplyTokens([CHAIN])
    longer.finish("The sky!")
    assert (longer.text, longer.spans[-1].end) == ("The sky!", 7)
    shorter.finish("The s")
    assert (shorter.text, shorter.spans[-1].end) == ("The s", 5)


def test_text_that_ended_a_reply_is_gone_when_it_goes_on() -> None:
    tokens = ReplyTokens([CHAIN])
    tokens.finish("The sky\ufffd")
    tokens.resume()
    tokens.receive(round_(1, (" is",), (), 0))
    tokens.show()
    assert tokens.text == "The sky is"
    assert tokens.spans[-1].start == 7


def test_a_bonus_and_a_round_without_texts_of_its_draft_have_no_refused_text() -> None:
    bonus = ReplyTokens([round_(0, ("a", "b"), ("a",), 1)])
    assert bonus.refused(0, 2) == {} and bonus.spans[1].origin == "bonus"
    bare = RoundDone(id=1, round=CHAIN.round)
    tokens = ReplyTokens([bare])
    assert tokens.refused(0, 2) == {}
    detail = tokens.detail(1)
    assert detail is not None and detail.instead == (("", 0.2),)


# --- when tokens are shown ------------------------------------------------------------------------


def plain_round(index: int, count: int, time_s: float) -> RoundDone:
    """A round of `count` tokens of one letter each."""
    done = round_(index, ("a",) * count, (), 0)
    return changed(done, round=replace(done.round, time_s=time_s))


def test_a_round_is_spread_over_its_duration_and_the_next_follows_without_a_gap() -> None:
    tokens = ReplyTokens([plain_round(0, 1, 1.0)])
    tokens.receive(plain_round(1, 2, 1.1), now_s=10.0)
    tokens.receive(plain_round(2, 2, 1.2), now_s=10.01)
    assert [tokens.show(10.0 + t) for t in (0.0, 0.051, 0.101, 0.151)] == ["a"] * 4


def test_nothing_is_lost_whatever_comes_when() -> None:
    chance, tokens, now_s, received, shown = random.Random(1), ReplyTokens(), 0.0, 0, 0
    for index in range(2000):
        now_s += chance.expovariate(100)
        if chance.random() < 0.5:
            count = chance.randint(0, 9)
            tokens.receive(plain_round(index, count, chance.uniform(-1, 3)), now_s)
            received += count
        shown += len(tokens.show(now_s))
    assert shown + tokens.waiting == received
    assert shown + len(tokens.show(now_s + LONGEST_LAG_S)) == received


def test_what_is_shown_is_never_further_behind_than_the_longest_lag() -> None:
    tokens, shown, frame_s = ReplyTokens(), 0, 0.016
    frames_behind = int(LONGEST_LAG_S / frame_s) + 1
    for frame in range(400):  # 2,000 tokens a second, in rounds that claim to take long
        tokens.receive(plain_round(frame, 32, 0.5 * frame), frame * frame_s)
        shown += len(tokens.show(frame * frame_s))
        assert shown >= 32 * (frame + 1 - frames_behind)
    assert len(tokens.show(frame * frame_s + LONGEST_LAG_S)) == 32 * 400 - shown
