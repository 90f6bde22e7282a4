"""A thought that tokens tell from the answer: folded, with its time and its tokens, while it streams and after."""

from dataclasses import replace

from app.protocol import RoundDone
from app.reply import Reply
from app.store.records import MessageRecord
from app.window.transcript.message_entry import MessageEntry
from app.window.transcript.reply_tile import ReplyTile
from tests.app.window.transcript.conftest import MakeStage, Stage
from tests.app.window.transcript.samples import live, question, reply, rounds

THOUGHT, ANSWER = "\nThe sky, <think> and its colour.\n\nBe short.\n", "\n\nIt is **blue**. Say </think> aloud."


TOLD = list(rounds(ANSWER, 3, thought=THOUGHT))


def whole() -> MessageRecord:
    return reply(2, ANSWER, 1, TOLD, THOUGHT)


def shown(one: Stage) -> str:
    one.settle()
    tile = one.transcript.column.tiles[one.transcript.column.entries[-1]]
    return "\n".join(tile.pages[index].toPlainText() for index in sorted(tile.pages))


def fold_of(one: Stage) -> tuple[ReplyTile, str]:
    tile = one.transcript.column.tiles[one.transcript.column.entries[-1]]
    assert isinstance(tile, ReplyTile)
    (fold,) = [fold for fold in tile.folds.values() if fold.isVisible()]
    return tile, fold.text()


def test_an_empty_thought_that_ends_is_no_section_any_more() -> None:
    plain = replace(TOLD[0].round, drafted=(), q=(), accepted=0)
    opened = replace(plain, tokens=(1, 2), p=(1.0, 1.0), texts=("", "\n\n"), channels=("markup", "thought"))
    closed = replace(plain, index=1, tokens=(3,), p=(1.0,), texts=("",), channels=("markup",))
    entry = MessageEntry(live(2, 1), lambda _: Reply())
    for round_, thoughts in ((opened, {0}), (closed, set())):
        entry.reply.add(RoundDone(id=1, round=round_))
        assert entry.pieces is not None and entry.thoughts == thoughts


def test_a_thought_is_folded_with_its_time_and_tokens_while_it_streams_and_after(stage: MakeStage) -> None:
    one = stage()
    one.transcript.show_branch([question(1), live(2, 1)], lambda _: Reply())
    one.transcript.begin_reply(live(2, 1))
    middle = len(TOLD) // 4
    one.stream(TOLD[:middle])
    one.frame()
    tile, line = fold_of(one)
    assert line.startswith("Thinking… 0 s, ") and line.endswith(" tokens")
    assert "colour" not in shown(one)
    one.stream(TOLD[middle:])
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
    one.transcript.show_branch([question(1), whole()], lambda _: Reply(TOLD))
    one.settle()
    tile, _ = fold_of(one)
    tile.folds[0].click()
    one.settle()
    first = tile.pages[0]
    assert first.tokens() and tile.entry.detail(first.tokens()[0]) is not None
