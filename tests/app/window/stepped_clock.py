"""A clock for the window that stands still until a test steps it."""

from PySide6.QtCore import QCoreApplication, QEvent, QTimer
from shiboken6 import isValid

from app.window.common.timer import Timer

TURN_MS = 1  # timers of at most this wait for the next turn of the event loop, which takes no time here
MOST_TURNS = 10_000  # a window that takes more never comes to rest
LONG_MS = 1000


class SteppedClock:
    """time_s, worked_s: what the window reads as the time and as the processor time of its thread."""

    def __init__(self) -> None:
        self.time_s, self.worked_s = 100.0, 0.0
        self._due_s: dict[Timer, float] = {}

    def now_s(self) -> float:
        return self.time_s

    def work_s(self) -> float:
        return self.worked_s

    def start(self, timer: Timer) -> None:
        self._due_s.pop(timer, None)
        self._due_s[timer] = self.time_s + timer.interval() / 1000

    def stop(self, timer: Timer) -> None:
        self._due_s.pop(timer, None)

    def is_running(self, timer: Timer) -> bool:
        return timer in self._due_s

    def advance(self, seconds: float) -> None:
        """Lets time go on. Whatever is due on the way happens at its time and in its order."""
        end_s = self.time_s + seconds
        self.settle()
        while due := [timer for timer in self._timers() if self._due_s[timer] <= end_s]:
            timer = min(due, key=lambda one: self._due_s[one])
            self.time_s = max(self.time_s, self._due_s[timer])
            self._fire(timer)
            self.settle()
        self.time_s = end_s

    def settle(self) -> None:
        """Has everything happen that waits for the next turn of the event loop, until nothing does. No time goes by."""
        for _ in range(MOST_TURNS):
            if not self.turn():
                return
        raise AssertionError("the window never comes to rest")

    def turn(self) -> bool:
        """Has the event loop take one turn. Returns whether anything waited for it."""
        deliver_events()
        waiting = [timer for timer in self._timers() if timer.interval() <= TURN_MS]
        for timer in waiting:
            if self.is_running(timer):
                self._fire(timer)
        return bool(waiting)

    def _timers(self) -> list[Timer]:
        for timer in [timer for timer in self._due_s if not isValid(timer)]:
            del self._due_s[timer]
        return list(self._due_s)

    def _fire(self, timer: Timer) -> None:
        self.stop(timer)
        if not timer.isSingleShot():
            self.start(timer)
        timer.timeout.emit()


class LongWaitsClock(SteppedClock):
    """Steps waits of at least LONG_MS alone, such as for a process that hangs. Shorter ones, of frames and turns, take
    the time that they take: tests with other processes wait for these with `until`."""

    def start(self, timer: Timer) -> None:
        if timer.interval() < LONG_MS:
            QTimer.start(timer)
        else:
            super().start(timer)

    def stop(self, timer: Timer) -> None:
        QTimer.stop(timer)
        super().stop(timer)

    def is_running(self, timer: Timer) -> bool:
        return QTimer.isActive(timer) or super().is_running(timer)


def deliver_events() -> None:
    """Delivers all events that are posted, and deletes what was to be deleted later."""
    QCoreApplication.processEvents()
    QCoreApplication.sendPostedEvents(None, QEvent.Type.DeferredDelete)
