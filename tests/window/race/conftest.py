"""The race's window with no engine behind it, and a clock that goes as told."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from PySide6.QtCore import QCoreApplication, QEvent
from PySide6.QtWidgets import QApplication

from app.window.client import HostClient
from app.window.controller.engine import Engine
from app.window.look import LIGHT
from app.window.race.asking import RaceAsker
from app.window.race.window import RaceWindow


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
    shown = RaceWindow(RaceAsker(Engine(HostClient(["no-such-program"]))), now=clock)
    shown.set_look(LIGHT)
    shown.show()
    yield shown
    end(shown)


def end(window: RaceWindow) -> None:
    """Close it, and have Qt let go of all of it."""
    window.close()
    window.deleteLater()
    QCoreApplication.sendPostedEvents(None, QEvent.Type.DeferredDelete)
    QCoreApplication.processEvents()
