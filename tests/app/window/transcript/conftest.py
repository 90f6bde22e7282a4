"""A transcript in a window, with a clock that stands still until it is told to go on."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest
from PySide6.QtWidgets import QApplication

from app.window.transcript import Transcript
from tests.app.window.stepped_clock import SteppedClock


class Stage:
    """transcript: shown. said: what a screen reader would have read."""

    def __init__(self, clock: SteppedClock, width: int, height: int) -> None:
        self.clock = clock
        self.said: list[str] = []
        self.transcript = Transcript(say=self.said.append)
        self.transcript.resize(width, height)
        self.transcript.show()
        self.settle()

    def settle(self) -> None:
        """Lays out what is in sight, and deletes what was let go. No time goes by."""
        self.clock.settle()

    def idle(self) -> None:
        """What waits for a quiet moment is done now."""
        self.transcript.column.arrange(500)
        self.settle()

    def frame(self, seconds: float = 0.2) -> None:
        """Time goes on, and what is due by then is shown."""
        self.clock.advance(seconds)

    def scroll_to(self, value: int) -> None:
        self.transcript.column.verticalScrollBar().setValue(value)
        self.settle()


MakeStage = Callable[..., Stage]


@pytest.fixture
def stage(app: QApplication, clock: SteppedClock) -> Iterator[Callable[..., Stage]]:
    """Makes one of a width and a height."""
    made: list[Stage] = []

    def make(width: int = 800, height: int = 600) -> Stage:
        made.append(Stage(clock, width, height))
        return made[-1]

    yield make
    for one in made:
        one.transcript.close()
        one.transcript.deleteLater()
        one.settle()
