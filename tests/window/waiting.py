"""Waits for events of Qt, with a deadline."""

from __future__ import annotations

import time
from collections.abc import Callable

from PySide6.QtCore import QCoreApplication, QEventLoop, QTimer

from app.window.chat.host_process import Timeouts

QUICK = Timeouts(
    ready_s=8.0, quick_s=0.0, restart_s=(0.01, 0.02), quit_s=0.6, terminate_s=0.2, stop_s=0.4, silent_s=6.0
)


def until(holds: Callable[[], object], seconds: float = 15.0) -> None:
    """Runs the event loop until `holds()`, which is checked after every event. Fails at the deadline."""
    deadline = time.monotonic() + seconds
    wake = QTimer()
    wake.start(5)
    while not holds():
        assert time.monotonic() < deadline, "it did not come to that in time"
        QCoreApplication.processEvents(QEventLoop.ProcessEventsFlag.WaitForMoreEvents)
    wake.stop()


def for_a_while(seconds: float) -> None:
    """Runs the event loop for some time, to see that something does not happen."""
    deadline = time.monotonic() + seconds
    until(lambda: time.monotonic() >= deadline, seconds + 5)
