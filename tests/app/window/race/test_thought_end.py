"""A race of a model that thinks: every view says where the thought ends."""

from dataclasses import replace as changed

import pytest
from msgspec.structs import replace
from PySide6.QtGui import QTextDocument
from PySide6.QtWidgets import QApplication

from app.cli import race_view
from app.cli.terminal.token_style import Look
from app.protocol.race_messages import Run
from app.race.race_text import THOUGHT_END, answer_start
from app.window.race.side_pane import RevealedText
from tests.app.race.sample_races import run

PLAIN = run(0, 1, [(0.1, [0, 1]), (0.2, [2, 3]), (0.3, [4])])


def thinking(*channels: str) -> Run:
    """The same run, with the channel of each of its five tokens."""
    left, rounds = list(channels), []
    for one in PLAIN.rounds:
        own = tuple(left.pop(0) for _ in one.round.tokens)
        rounds.append(replace(one, round=changed(one.round, channels=own)))  # type: ignore[arg-type]
    return replace(PLAIN, rounds=tuple(rounds))


THOUGHT = thinking("mark", "thought", "thought", "mark", "answer")


@pytest.mark.parametrize(
    ("made", "start"),
    [
        (THOUGHT, 4),
        (PLAIN, None),
        (thinking(*["answer"] * 5), None),
        (thinking(*["thought"] * 5), None),
        (thinking("answer", "mark", "thought", "thought", "answer"), 4),
    ],
)
def test_the_answer_starts_behind_the_first_thought(made: Run, start: int | None) -> None:
    assert answer_start(made.rounds) == start


def test_every_view_says_where_the_thought_ends(app: QApplication) -> None:
    texts = "".join(text for one in PLAIN.rounds for text in one.round.texts)
    last = PLAIN.rounds[-1].round.texts[0]
    document = QTextDocument()
    revealed = RevealedText(THOUGHT, document)
    revealed.show(4)
    assert THOUGHT_END not in document.toPlainText()
    revealed.show(5)
    shown = {
        "window": document.toPlainText(),
        "terminal": race_view._text(THOUGHT, Look(True), 5, None).plain,
    }
    for text in shown.values():
        before, note, after = text.partition(THOUGHT_END)
        assert (
            note and after.strip() == last.strip() and "".join(before.split()) == "".join(texts[: -len(last)].split())
        )
    assert THOUGHT_END not in race_view._text(PLAIN, Look(True), 5, None).plain
