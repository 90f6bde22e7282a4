"""A transcript in a window, with a clock that stands still until it is told to go on."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest
from PySide6.QtCore import QEvent
from PySide6.QtWidgets import QApplication

from app.window.common import theme
from app.window.common.appearance import LIGHT
from app.window.transcript import Transcript


class Stage:
    """transcript: shown. now_s: what its clock says. said: what a screen reader would have read."""

    def __init__(self, width: int, height: int) -> None:
        self.now_s = 100.0
        self.said: list[str] = []
        self.transcript = Transcript(clock=lambda: self.now_s, say=self.said.append)
        self.transcript.resize(width, height)
        self.transcript.show()
        self.settle()

    def settle(self) -> None:
        """Let everything happen that is due, and what is let go be gone."""
        for _ in range(3):
            QApplication.processEvents()
            QApplication.sendPostedEvents(None, QEvent.Type.DeferredDelete)

    def idle(self) -> None:
        """What waits for a quiet moment is done now."""
        self.transcript.column.arrange(500)
        self.settle()

    def frame(self, seconds: float = 0.2) -> None:
        """Time goes on, and what is due by then is shown."""
        self.now_s += seconds
        self.transcript._streams.show_due()
        self.settle()

    def scroll_to(self, value: int) -> None:
        self.transcript.column.verticalScrollBar().setValue(value)
        self.settle()


MakeStage = Callable[..., Stage]


@pytest.fixture
def stage(app: QApplication) -> Iterator[Callable[..., Stage]]:
    """Makes one of a width and a height."""
    made: list[Stage] = []
    theme.show(LIGHT)  # tests of other windows may leave a larger one

    def make(width: int = 800, height: int = 600) -> Stage:
        made.append(Stage(width, height))
        return made[-1]

    yield make
    theme.show(LIGHT)
    for one in made:
        one.transcript.close()
        one.transcript.deleteLater()
        one.settle()
