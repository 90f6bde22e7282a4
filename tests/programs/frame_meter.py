"""Measures how long the GUI thread of a window leaves its user without an answer."""

import time

from PySide6.QtCore import QObject, Qt, QTimer


class Gaps(QObject):
    """Between one turn of the event loop and the next, in seconds: all that the thread does between two chances to
    answer the user. busy_s: the same by the thread's own clock, which other programs do not slow."""

    def __init__(self, interval_ms: int = 1) -> None:
        super().__init__()
        self.gaps_s: list[float] = []
        self.busy_s: list[float] = []
        self._last_s = self._last_busy_s = 0.0
        self._timer = QTimer(self, interval=interval_ms, timerType=Qt.TimerType.PreciseTimer)
        self._timer.timeout.connect(self._tick)

    def start(self) -> None:
        self.gaps_s.clear()
        self.busy_s.clear()
        self._last_s, self._last_busy_s = time.perf_counter(), time.thread_time()
        self._timer.start()

    def stop(self) -> None:
        self._timer.stop()

    def _tick(self) -> None:
        now_s, busy_s = time.perf_counter(), time.thread_time()
        self.gaps_s.append(now_s - self._last_s)
        self.busy_s.append(busy_s - self._last_busy_s)
        self._last_s, self._last_busy_s = now_s, busy_s


def share_ms(seconds: list[float], share: float) -> float:
    """The milliseconds that `share` of all are no longer than."""
    ordered = sorted(seconds)
    return ordered[min(len(ordered) - 1, int(share * len(ordered)))] * 1000
