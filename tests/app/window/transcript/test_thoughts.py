"""A thought that tokens tell from the answer: folded, with its time and its tokens, while it streams and after."""

from __future__ import annotations

from dataclasses import replace
from itertools import accumulate

import pytest
from msgspec.structs import replace as changed

from app.protocol import RoundDone
from app.store.records import MessageRecord
from app.window.transcript.message_entry import MessageEntry
from app.window.transcript.reply_tile import ReplyTile
from app.window.transcript.reply_tokens import ReplyTokens
from engine.reply_channels import Channel
from tests.app.window.transcript.conftest import MakeStage, Stage
from tests.app.window.transcript.samples import live, question, reply, rounds

THOUGHT, ANSWER = "\nThe sky, <think> and its colour.\n\nBe short.\n", "\n\nIt is **blue**. Say </think> aloud."


def thinking_rounds(seed: int = 3) -> list[RoundDone]:
    """A tag, the thought, a tag and the answer, at about 60 tokens a second."""
    text = "\0" + THOUGHT + "\0" + ANSWER
    found = []
    for one in rounds(text, seed):
        texts = one.round.texts
        ends = list(accumulate(map(len, texts)))
        start = sum(len(t) for done in found for t in done.round.texts) + sum(
            1 for done in found for c in done.round.channels if c == "markup"
        )
        channels: list[Channel] = []
        for token, end in zip(texts, ends, strict=True):
            at = start + end - len(token)
            channels.append("markup" if token == "\0" else "thought" if at <= len(THOUGHT) else "answer")
        said = tuple("" if token == "\0" else token for token in texts)
        found.append(changed(one, round=replace(one.round, texts=said, channels=tuple(channels))))
    return found


TOLD = thinking_rounds()


def whole() -> MessageRecord:
    return changed(reply(2, ANSWER, 1, TOLD), thought=THOUGHT)


def shown(one: Stage) -> str:
    one.settle()
    tile = one.transcript.column.tiles[one.transcript.column.entries[-1]]
    return "\n".join(tile.pages[index].toPlainText() for index in sorted(tile.pages))


def fold_of(one: Stage) -> tuple[ReplyTile, str]:
    tile = one.transcript.column.tiles[one.transcript.column.entries[-1]]
    assert isinstance(tile, ReplyTile)
    (fold,) = [fold for fold in tile.folds.values() if fold.isVisible()]
    return tile, fold.text()


def test_sections_are_those_of_the_tokens_and_tags_in_texts_are_text() -> None:
    tokens = ReplyTokens(TOLD)
    assert tokens.text == THOUGHT + ANSWER
    sections = tokens.sections
    assert sections is not None and [(one.kind, tokens.text[one.start : one.end]) for one in sections] == [
        ("think", THOUGHT),
        ("text", ANSWER),
    ]
    thought = sum(one.round.channels.count("thought") for one in TOLD)
    assert tokens.thought(0)[0] == thought and 0.0 < tokens.thought(0)[1] < 1.0
    assert tokens.answer_since(5) == ANSWER


@pytest.mark.parametrize("at", range(len(TOLD)))
def test_a_reply_that_stops_and_goes_on_anywhere_has_the_same_sections(at: int) -> None:
    tokens = ReplyTokens(TOLD[:at])
    answer = "".join(one.round.text_in("answer") for one in TOLD[:at])
    tokens.finish(answer + ("\ufffd" if answer else ""))
    tokens.resume()
    for one in TOLD[at:]:
        tokens.receive(one, still=True)
    tokens.finish(ANSWER, THOUGHT)
    assert tokens.text == THOUGHT + ANSWER
    assert [one.kind for one in tokens.sections or ()] == ["think", "text"]


def test_a_reply_from_before_tokens_told_thoughts_keeps_its_text_when_it_goes_on() -> None:
    old, new = TOLD[:3], TOLD[3:]
    tokens = ReplyTokens([changed(one, round=replace(one.round, channels=())) for one in old])
    before = tokens.text
    for one in new:
        tokens.receive(one, still=True)
    tokens.show()
    assert tokens.sections is not None and tokens.sections[0].kind == "text"
    assert tokens.text[tokens.sections[0].start : tokens.sections[0].end] == before != ""
    assert tokens.text == THOUGHT + ANSWER


def test_an_empty_thought_that_ends_is_no_section_any_more() -> None:
    plain = replace(TOLD[0].round, drafted=(), q=(), accepted=0)
    opened = replace(plain, tokens=(1, 2), p=(1.0, 1.0), texts=("", "\n\n"), channels=("markup", "thought"))
    closed = replace(plain, index=1, tokens=(3,), p=(1.0,), texts=("",), channels=("markup",))
    entry = MessageEntry(live(2, 1), lambda _: [])
    for round_, thoughts in ((opened, {0}), (closed, set())):
        entry.tokens.receive(RoundDone(id=1, round=round_), still=True)
        entry.tokens.show()
        assert entry.pieces is not None and entry.thoughts == thoughts


def test_without_its_rounds_a_reply_still_has_its_thought() -> None:
    tokens = ReplyTokens()
    tokens.finish(ANSWER, THOUGHT)
    assert tokens.text == THOUGHT + ANSWER and [one.kind for one in tokens.sections or ()] == ["think", "text"]


def test_a_thought_is_folded_with_its_time_and_tokens_while_it_streams_and_after(stage: MakeStage) -> None:
    one = stage()
    one.transcript.show_branch([question(1), live(2, 1)], lambda _: [])
    one.transcript.begin_reply(live(2, 1))
    middle = len(TOLD) // 4
    one.transcript.add_rounds(2, TOLD[:middle])
    one.frame()
    tile, line = fold_of(one)
    assert line.startswith("Thinking… 0 s, ") and line.endswith(" tokens")
    assert "colour" not in shown(one)
    one.transcript.add_rounds(2, TOLD[middle:])
    one.frame()
    one.transcript.end_reply(whole())
    tile, line = fold_of(one)
    tokens = sum(one.round.channels.count("thought") for one in TOLD)
    assert line in (f"Thought for {seconds} s, {tokens} tokens" for seconds in (0, 1))
    assert tile.folds[0].accessibleName() == f"{line}, folded"
    assert "It is blue. Say </think> aloud." in shown(one) and "colour" not in shown(one)
    tile.folds[0].click()
    assert "The sky, <think> and its colour." in shown(one)
    assert not any("colour" in sentence for sentence in one.said) and any("blue" in said for said in one.said)


def test_the_opened_thought_has_the_tints_of_its_tokens(stage: MakeStage) -> None:
    one = stage()
    one.transcript.show_branch([question(1), whole()], lambda _: TOLD)
    one.settle()
    tile, _ = fold_of(one)
    tile.folds[0].click()
    one.settle()
    first = tile.pages[0]
    assert first.tokens() and tile.entry.detail(first.tokens()[0]) is not None
