"""The race's window with no engine behind it, and a clock that goes as told."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from PySide6.QtCore import QCoreApplication, QEvent
from PySide6.QtWidgets import QApplication

from app.window.chat.host_connection import HostConnection
from app.window.chat.host_process import HostProcess
from app.window.common import theme
from app.window.common.appearance import LIGHT
from app.window.race.race_request import RaceRequest
from app.window.race.race_window import RaceWindow


class Clock:
    """Seconds, as told."""

    def __init__(self) -> None:
        self.now_s = 100.0

    def __call__(self) -> float:
        return self.now_s


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def window(app: QApplication, clock: Clock) -> Iterator[RaceWindow]:
    shown = RaceWindow(RaceRequest(HostConnection(HostProcess(["no-such-program"]))), now=clock)
    theme.show(LIGHT)
    shown.show()
    yield shown
    end(shown)


def end(window: RaceWindow) -> None:
    """Close it, and have Qt let go of all of it."""
    window.close()
    window.deleteLater()
    QCoreApplication.sendPostedEvents(None, QEvent.Type.DeferredDelete)
    QCoreApplication.processEvents()
