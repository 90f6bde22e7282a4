"""Time in the window. Every timer and every reading of a clock goes through the one clock here, so that whoever tests
the window hands time in and steps it by hand."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Protocol

from PySide6.QtCore import QObject, QTimer


class Clock(Protocol):
    """Tells the time and says when a timer is due."""

    def now_s(self) -> float:
        """Returns seconds that never fall, from any beginning."""
        ...

    def work_s(self) -> float:
        """Returns the seconds of processor time that this thread has taken."""
        ...

    def start(self, timer: Timer) -> None:
        """Has `timer` emit `timeout` after its interval, and again if it repeats. A running one begins anew."""
        ...

    def stop(self, timer: Timer) -> None: ...

    def is_running(self, timer: Timer) -> bool: ...


class SystemClock:
    """The clock of the machine and the timers of Qt's event loop."""

    def now_s(self) -> float:
        return time.monotonic()

    def work_s(self) -> float:
        return time.thread_time()

    def start(self, timer: Timer) -> None:
        QTimer.start(timer)

    def stop(self, timer: Timer) -> None:
        QTimer.stop(timer)

    def is_running(self, timer: Timer) -> bool:
        return QTimer.isActive(timer)


class Timer(QTimer):
    """A QTimer that goes by the window's clock."""

    def start(self, interval_ms: int | None = None) -> None:
        if interval_ms is not None:
            self.setInterval(interval_ms)
        _clock.start(self)

    def stop(self) -> None:
        _clock.stop(self)

    def isActive(self) -> bool:
        return _clock.is_running(self)


_clock: Clock = SystemClock()


def use_clock(clock: Clock) -> Clock:
    """Has the window go by `clock` from now on. Returns the one before."""
    global _clock
    before, _clock = _clock, clock
    return before


def clock_s() -> float:
    """Returns the seconds that the window's clock shows; they never fall."""
    return _clock.now_s()


def work_s() -> float:
    """Returns the seconds of processor time that this thread has taken."""
    return _clock.work_s()


def call_later(owner: QObject, callback: Callable[[], object], after_ms: int = 0) -> None:
    """Calls `callback` once, in the next turn of the event loop or after `after_ms`, unless `owner` goes before."""
    timer = Timer(owner, singleShot=True, interval=after_ms)
    timer.timeout.connect(callback)
    timer.timeout.connect(timer.deleteLater)
    timer.start()
