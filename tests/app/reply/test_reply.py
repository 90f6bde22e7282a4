"""From rounds to text, spans, sections, numbers, and what is known of each token."""

from collections.abc import Iterator
from dataclasses import replace

import pytest
from msgspec.structs import replace as replace_fields

from app.protocol import RoundDone
from app.reply import InconsistentRound, Reply
from app.store import StoreError
from app.store.records import MessageRecord, Statistics
from engine.events import PromptProgress, Round
from engine.metrics import Metrics
from tests.app.window.inspector.sample_rounds import chains, mixed, trees
from tests.app.window.transcript.samples import reply as whole_record
from tests.app.window.transcript.test_thoughts import ANSWER, THOUGHT, TOLD


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


def reply_of(*rounds: RoundDone) -> Reply:
    found = Reply(rounds)
    assert found.read() and len(found.rounds) == len(rounds)
    return found


def record(text: str, thought: str = "", statistics: Statistics | None = None) -> MessageRecord:
    return replace_fields(whole_record(2, text, 1), thought=thought, statistics=statistics)


def test_text_and_spans_are_those_of_the_rounds() -> None:
    reply = reply_of(CHAIN, round_(1, (" is",), (), 0))
    assert reply.text == "The sky is"
    assert [(s.start, s.end, s.origin, s.token) for s in reply.spans] == [
        (0, 3, "accepted", 0),
        (3, 7, "corrected", 1),
        (7, 10, None, 2),
    ]


def test_what_changed_is_said_once() -> None:
    reply = Reply()
    reply.add(CHAIN)
    assert reply.take_change() == (0, 0, 7)
    reply.add(round_(1, (" is",), (), 0))
    reply.add(round_(2, (" blue",), (), 0))
    assert reply.take_change() == (1, 7, 15)
    assert reply.take_change() == (3, 15, 15)


def test_a_token_knows_the_q_it_was_drafted_with_and_a_correction_what_was_proposed_instead() -> None:
    reply = reply_of(CHAIN)
    accepted, detail = reply.detail(0), reply.detail(1)
    assert accepted is not None and (accepted.q, accepted.instead) == (0.1, ())
    assert reply.refused(0, 2) == {1: " sea is"}
    assert reply.detail(2) is None and reply.detail(-1) is None
    assert detail is not None
    assert (detail.round, detail.kind, detail.p, detail.q) == (1, "corrected", 0.6, None)
    assert detail.instead == ((" sea", 0.2),)


def test_in_a_tree_the_siblings_are_what_was_proposed_instead() -> None:
    # -1 -> a, b; b -> c, d: b is taken, then neither c nor d
    tree = round_(0, ("b", "x"), ("a", "b", "c", "d"), 1, parents=(-1, -1, 1, 1), path=(1,))
    reply = reply_of(tree)
    first, second = reply.detail(0), reply.detail(1)
    assert first is not None and second is not None
    assert (first.q, first.instead) == (0.2, (("a", 0.1),))
    assert [text for text, _ in second.instead] == ["c", "d"]
    assert reply.refused(0, 2) == {0: "a", 1: "c / d"}


def test_a_bonus_and_a_round_without_texts_of_its_draft_have_no_refused_text() -> None:
    bonus = reply_of(round_(0, ("a", "b"), ("a",), 1))
    assert bonus.refused(0, 2) == {} and bonus.spans[1].origin == "bonus"
    bare = reply_of(RoundDone(id=1, round=CHAIN.round))
    assert bare.refused(0, 2) == {}
    detail = bare.detail(1)
    assert detail is not None and detail.instead == (("", 0.2),)


# --- rounds that do not fit ---------------------------------------------------------------------


@pytest.mark.parametrize(
    ("second", "why"),
    [
        (round_(0, (" is",), (), 0), "received round 0, expected round 1"),
        (round_(2, (" is",), (), 0), "received round 2, expected round 1"),
        (replace_fields(CHAIN, round=replace(CHAIN.round, index=1, p=(0.5,))), "whose parts do not fit together"),
        (replace_fields(CHAIN, round=replace(CHAIN.round, index=1, accepted=3)), "that accepted more than was drafted"),
        (replace_fields(CHAIN, round=replace(CHAIN.round, index=1, accepted=-1)), "with an impossible number"),
        (
            replace_fields(trees(1)[0], round=replace(trees(1)[0].round, index=1, path=(99,))),
            "whose tree is not a tree",
        ),
    ],
)
def test_a_round_that_cannot_be_the_next_is_refused_and_changes_nothing(second: RoundDone, why: str) -> None:
    reply = reply_of(CHAIN)
    with pytest.raises(InconsistentRound, match=why):
        reply.add(second)
    assert reply.text == "The sky" and reply.rounds == [CHAIN]


def test_of_damaged_rounds_none_is_kept_and_the_texts_are_shown() -> None:
    def damaged() -> Iterator[RoundDone]:
        yield from told[:20]
        raise StoreError("some are missing")

    told = mixed(30)
    for rounds in (damaged(), iter([*told[:5], *told[6:]])):
        reply = Reply(rounds)
        assert reply.read() and reply.rounds == [] == reply.spans and reply.metrics == Metrics()
        reply.finish("The answer.", "The thought.")
        assert reply.text == "The thought.The answer."


def test_a_long_reply_is_read_in_slices() -> None:
    told, reply = mixed(50), Reply(mixed(50))
    slices = 0
    while not reply.read(lambda: len(reply.rounds) % 20 == 0):
        slices += 1
        assert len(reply.rounds) == 20 * slices and not reply.is_read
    assert slices == 2 and reply.is_read and reply.rounds == told


# --- the end, and going on ----------------------------------------------------------------------


def test_the_end_adds_what_was_held_back_and_counts_more_than_rounds_that_say_something_else() -> None:
    longer, other = reply_of(CHAIN), reply_of(CHAIN)
    longer.finish("The sky!")
    assert (longer.text, longer.spans[-1].end) == ("The sky!", 7)
    other.finish("The sea")
    assert (other.text, other.spans, [one.kind for one in other.sections]) == ("The sea", [], ["text"])


def test_text_that_ended_a_reply_is_gone_when_it_goes_on() -> None:
    reply = reply_of(CHAIN)
    reply.finish("The sky\ufffd")
    reply.resume(record("The sky\ufffd"))
    reply.add(round_(0, (" is",), (), 0))
    assert reply.text == "The sky is"
    assert reply.spans[-1].start == 7


def test_a_continued_reply_is_one_reply_with_one_set_of_numbers() -> None:
    first, second = chains(20), chains(15)
    reply = reply_of(*first)
    reply.add_progress(PromptProgress(30, 30, 0, 0.0))
    before = reply.statistics
    assert before is not None
    stored = reply_of(*first)
    stored.resume(record(stored.text, statistics=replace_fields(before, plain_s=0.5)))
    stored.add_progress(PromptProgress(30 + before.tokens, 30 + before.tokens, 0, 0.0))
    for one in second:
        stored.add(one)
    assert [one.round.index for one in stored.rounds] == list(range(35))
    assert stored.rounds[20].round.time_s == first[-1].round.time_s + second[0].round.time_s
    metrics = Metrics.of(one.round for one in stored.rounds)
    metrics.prompt_tokens = 30
    assert stored.statistics == Statistics.of(metrics, 0.5)
    assert stored.take_change().first_round == 20
    detail = stored.detail(before.tokens)
    assert detail is not None and detail.round == 21


# --- thought and answer -------------------------------------------------------------------------


def test_sections_are_those_of_the_tokens_and_tags_in_texts_are_text() -> None:
    reply = reply_of(*TOLD)
    assert reply.text == THOUGHT + ANSWER
    sections = reply.sections
    assert [(one.kind, reply.text[one.start : one.end]) for one in sections] == [
        ("think", THOUGHT),
        ("text", ANSWER),
    ]
    thought = sum(one.round.channels.count("thought") for one in TOLD)
    assert reply.thought_in(0)[0] == thought and 0.0 < reply.thought_in(0)[1] < 1.0
    assert reply.answer_since(5) == ANSWER


@pytest.mark.parametrize("at", range(len(TOLD)))
def test_a_reply_that_stops_and_goes_on_anywhere_has_the_same_sections(at: int) -> None:
    reply = reply_of(*TOLD[:at])
    answer = "".join(one.round.text_in("answer") for one in TOLD[:at])
    reply.finish(answer + "\ufffd")
    reply.resume(record(answer))
    for one in TOLD[at:]:
        reply.add(replace_fields(one, round=replace(one.round, index=one.round.index - at)))
    reply.finish(ANSWER, THOUGHT)
    assert reply.text == THOUGHT + ANSWER
    assert [one.kind for one in reply.sections] == ["think", "text"]


def test_without_its_rounds_a_reply_still_has_its_thought() -> None:
    reply = Reply()
    reply.finish(ANSWER, THOUGHT)
    assert reply.text == THOUGHT + ANSWER and [one.kind for one in reply.sections] == ["think", "text"]
