"""A transcript in a window, with a clock that stands still until it is told to go on."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import pytest
from PySide6.QtGui import QCursor, QGuiApplication
from PySide6.QtWidgets import QApplication

from app.protocol import RoundDone
from app.reply import Reply
from app.store.records import MessageRecord
from app.window.transcript import Transcript
from tests.app.window.stepped_clock import SteppedClock
from tests.app.window.transcript.samples import rounds


class Stage:
    """transcript: shown. said: what a screen reader would have read."""

    def __init__(self, clock: SteppedClock, width: int, height: int) -> None:
        self.clock = clock
        self.said: list[str] = []
        self.transcript = Transcript(say=self.said.append)
        self.transcript.resize(width, height)
        QCursor.setPos(QGuiApplication.primaryScreen().geometry().bottomRight())  # wherever a test left the mouse
        self.transcript.show()
        self.settle()

    def settle(self) -> None:
        """Lays out what is in sight, and deletes what was let go. No time goes by."""
        self.clock.settle()

    def idle(self) -> None:
        """What waits for a quiet moment is done now."""
        self.transcript.column.arrange(500)
        self.settle()

    def open(self, *path: MessageRecord, told: Sequence[RoundDone] | None = None) -> Stage:
        """Shows a conversation. told: the rounds of its replies, else made up from their texts."""
        records = {record.id: record for record in path}

        def reply_of(id: int) -> Reply:
            return Reply(rounds(records[id].text, id, thought=records[id].thought) if told is None else told)

        self.transcript.show_branch(list(path), reply_of)
        self.idle()
        return self

    def stream(self, told: Sequence[RoundDone]) -> None:
        """Adds rounds to the last reply, as a frame brings them."""
        entry = self.transcript.column.entries[-1]
        for one in told:
            entry.reply.add(one)
        self.transcript.show_change(entry.record.id, entry.reply.take_change())

    @property
    def tiles(self) -> list[Any]:
        """The messages that have widgets, in order."""
        return self.transcript.column.shown_tiles()

    def frame(self, seconds: float = 0.2) -> None:
        """Time goes on, and what is due by then is shown."""
        self.clock.advance(seconds)

    def scroll_to(self, value: int) -> None:
        self.transcript.column.verticalScrollBar().setValue(value)
        self.settle()


MakeStage = Callable[..., Stage]


@pytest.fixture
def stage(app: QApplication, clock: SteppedClock) -> Iterator[MakeStage]:
    """Makes one of a width and a height."""
    stages: list[Stage] = []

    def make(width: int = 800, height: int = 600) -> Stage:
        stages.append(Stage(clock, width, height))
        return stages[-1]

    yield make
    for one in stages:
        one.transcript.close()
        one.transcript.deleteLater()
        one.settle()


def emitted(signal: Any) -> list[Any]:
    """Returns a list to which the value that a signal is emitted with is added each time, or a tuple of several."""
    values: list[Any] = []
    signal.connect(lambda *said: values.append(said[0] if len(said) == 1 else said))
    return values
