"""From rounds to text, spans and what is known of each token."""

from __future__ import annotations

from app.protocol import RoundDone
from app.window.transcript.reply_tokens import ReplyTokens
from engine.events import Round
from tests.window.transcript.samples import REPLY, rounds


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


def test_what_is_heard_waits_to_be_shown_and_comes_in_order() -> None:
    tokens = ReplyTokens()
    assert tokens.receive(CHAIN) == 2
    assert (tokens.text, tokens.spans) == ("", [])
    assert tokens.show(1) == "The"
    assert tokens.show(5) == " sky"
    assert tokens.text == "The sky"


def test_a_correction_knows_what_was_proposed_instead() -> None:
    detail = ReplyTokens([CHAIN]).detail(1)
    assert detail is not None
    assert (detail.round, detail.origin, detail.p, detail.q) == (1, "corrected", 0.6, None)
    assert detail.instead == ((" sea", 0.2),)


def test_an_accepted_token_has_the_q_it_was_drafted_with() -> None:
    detail = ReplyTokens([CHAIN]).detail(0)
    assert detail is not None and (detail.q, detail.instead) == (0.1, ())


def test_in_a_tree_the_siblings_are_what_was_proposed_instead() -> None:
    # -1 -> a, b; b -> c, d: b is taken, then neither c nor d
    tree = round_(0, ("b", "x"), ("a", "b", "c", "d"), 1, parents=(-1, -1, 1, 1), path=(1,))
    tokens = ReplyTokens([tree])
    first, second = tokens.detail(0), tokens.detail(1)
    assert first is not None and second is not None
    assert (first.q, first.instead) == (0.2, (("a", 0.1),))
    assert [text for text, _ in second.instead] == ["c", "d"]
    assert tokens.refused(0, 2) == {0: "a", 1: "c / d"}


def test_all_that_a_chain_had_left_is_the_ghost_of_its_correction() -> None:
    assert ReplyTokens([CHAIN]).refused(0, 2) == {1: " sea is"}


def test_a_bonus_has_no_ghost() -> None:
    tokens = ReplyTokens([round_(0, ("a", "b"), ("a",), 1)])
    assert tokens.refused(0, 2) == {}
    assert tokens.spans[1].origin == "bonus"


def test_a_round_heard_twice_counts_once() -> None:
    told = list(rounds(REPLY))
    tokens = ReplyTokens(told)
    assert [tokens.receive(one) for one in told[-3:]] == [0, 0, 0]
    assert tokens.text == REPLY


def test_a_reply_that_goes_on_is_counted_through() -> None:
    again = round_(0, (" Again",), (), 0)
    tokens = ReplyTokens([CHAIN, again])
    detail = tokens.detail(2)
    assert tokens.text == "The sky Again"
    assert detail is not None and detail.round == 2


def test_a_controller_that_counts_through_is_understood_too() -> None:
    tokens = ReplyTokens([CHAIN, round_(1, (" is",), (), 0)])
    detail = tokens.detail(2)
    assert detail is not None and detail.round == 2


def test_the_end_adds_what_was_held_back_and_takes_back_what_was_cut() -> None:
    longer, shorter = ReplyTokens([CHAIN]), ReplyTokens([CHAIN])
    assert longer.finish("The sky!") == "!"
    assert longer.spans[-1].end == 7
    shorter.finish("The s")
    assert (shorter.text, shorter.spans[-1].end) == ("The s", 5)


def test_text_that_ended_a_reply_is_gone_when_it_goes_on() -> None:
    tokens = ReplyTokens([CHAIN])
    tokens.finish("The sky\ufffd")
    tokens.resume()
    tokens.receive(round_(1, (" is",), (), 0))
    tokens.show(1)
    assert tokens.text == "The sky is"
    assert tokens.spans[-1].start == 7


def test_there_is_no_detail_of_a_token_that_is_not() -> None:
    tokens = ReplyTokens([CHAIN])
    assert tokens.detail(2) is None and tokens.detail(-1) is None


def test_a_round_without_texts_of_its_draft_breaks_nothing() -> None:
    bare = RoundDone(id=1, round=CHAIN.round)
    tokens = ReplyTokens([bare])
    assert tokens.refused(0, 2) == {}
    detail = tokens.detail(1)
    assert detail is not None and detail.instead == (("", 0.2),)
