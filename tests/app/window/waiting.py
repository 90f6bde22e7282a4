"""Waits for events of Qt, with a deadline."""

from __future__ import annotations

import time
from collections.abc import Callable

from PySide6.QtCore import QCoreApplication, QEvent, QEventLoop, QObject, QTimer, QTimerEvent

from app.window.chat.host_process import Timeouts

QUICK = Timeouts(
    ready_s=8.0, quick_s=0.0, restart_s=(0.01, 0.02), quit_s=0.6, terminate_s=0.2, stop_s=0.4, silent_s=6.0
)


def until(holds: Callable[[], object], seconds: float = 15.0) -> None:
    """Runs the event loop until `holds()`, which is checked after every event. Fails at the deadline."""
    deadline = time.monotonic() + seconds
    wake = QTimer()
    wake.start(5)
    try:
        while not holds():
            assert time.monotonic() < deadline, "it did not come to that in time"
            QCoreApplication.processEvents(QEventLoop.ProcessEventsFlag.WaitForMoreEvents)
    finally:
        wake.stop()  # the traceback of a failure keeps it until another thread may collect it: Qt would crash


def for_a_while(seconds: float) -> None:
    """Runs the event loop for some time, to see that something does not happen."""
    deadline = time.monotonic() + seconds
    until(lambda: time.monotonic() >= deadline, seconds + 5)


class Turns(QObject):
    """Counts the turns of the event loop."""

    def __init__(self) -> None:
        super().__init__()
        self.count = 0
        self.startTimer(0)

    def timerEvent(self, event: QTimerEvent) -> None:
        self.count += 1


class _LayoutRequests(QObject):
    """Counts the layouts that widgets request."""

    def __init__(self) -> None:
        super().__init__()
        self.count = 0

    def eventFilter(self, watched: QObject, event: object) -> bool:
        self.count += isinstance(event, QEvent) and event.type() == QEvent.Type.LayoutRequest
        return False


def layouts_end(seconds: float = 5) -> bool:
    """Returns whether widgets come to request no layout for a while, as they must: else they do so for ever."""
    application, deadline = QCoreApplication.instance(), time.monotonic() + seconds
    assert application is not None
    while time.monotonic() < deadline:
        requests = _LayoutRequests()
        application.installEventFilter(requests)
        for_a_while(0.2)
        application.removeEventFilter(requests)
        if not requests.count:
            return True
    return False
