"""Waits for a state while the event loop of Qt runs, never for a time."""

import time
from collections.abc import Callable

from PySide6.QtCore import QCoreApplication, QEvent, QEventLoop, QObject, QTimer

from app.window.chat.host_process import Timeouts

_MOST_TURNS, _QUIET_TURNS = 1000, 3  # of the event loop, until layouts must have ended
HANG_S = 300.0  # only what hangs takes as long, on any machine
QUICK = Timeouts(
    ready_s=HANG_S,
    load_s=HANG_S,
    silent_s=HANG_S,
    stop_s=HANG_S,
    quit_s=HANG_S,
    terminate_s=HANG_S,
    quick_s=0.0,
    restart_s=(0.01, 0.02),
)


def until(holds: Callable[[], object], seconds: float = HANG_S) -> None:
    """Runs the event loop until `holds()`, which is checked after every event. Fails where it hangs."""
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
    """Runs the event loop for some time, for programs that measure."""
    deadline = time.monotonic() + seconds
    until(lambda: time.monotonic() >= deadline, seconds + 5)


class _LayoutRequests(QObject):
    """Counts the layouts that widgets request."""

    def __init__(self) -> None:
        super().__init__()
        self.count = 0

    def eventFilter(self, watched: QObject, event: object) -> bool:
        self.count += isinstance(event, QEvent) and event.type() == QEvent.Type.LayoutRequest
        return False


def layouts_end() -> bool:
    """Returns whether widgets come to request no layout, as they must: else they do so for ever."""
    application, requests = QCoreApplication.instance(), _LayoutRequests()
    assert application is not None
    application.installEventFilter(requests)
    try:
        quiet = 0
        for _ in range(_MOST_TURNS):
            before = requests.count
            QCoreApplication.processEvents()
            quiet = quiet + 1 if requests.count == before else 0
            if quiet == _QUIET_TURNS:
                return True
        return False
    finally:
        application.removeEventFilter(requests)
