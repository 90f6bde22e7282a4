"""The race's window with no engine behind it, and a clock that the test steps."""

from collections.abc import Iterator

import pytest
from PySide6.QtCore import QCoreApplication, QEvent
from PySide6.QtWidgets import QApplication

from app.window.chat.host_connection import HostConnection
from app.window.chat.host_process import HostProcess
from app.window.race.race_request import RaceRequest
from app.window.race.race_window import RaceWindow
from tests.app.window.stepped_clock import SteppedClock


@pytest.fixture
def window(app: QApplication, clock: SteppedClock) -> Iterator[RaceWindow]:
    shown = RaceWindow(RaceRequest(HostConnection(HostProcess(["no-such-program"]))))
    shown.show()
    yield shown
    end(shown)


def end(window: RaceWindow) -> None:
    """Closes the window, and has Qt let go of all of it."""
    window.close()
    window.deleteLater()
    QCoreApplication.sendPostedEvents(None, QEvent.Type.DeferredDelete)
    QCoreApplication.processEvents()
