"""The queue of requests for the thread that owns MLX. The reader fills it; Stop and Quit reach into it at once.

Invariant: a request is either waiting here, or the one taken last, or over. Whoever moves it from one to the
next holds the lock, so a Stop finds it in one place or the other.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field

from app.protocol import Count, Load, Race, Reply, Unload, Verify

MAX_WAITING_BYTES = 64 * 1024 * 1024

Work = Load | Reply | Count | Verify | Race | Unload


class StopFlag(threading.Event):
    """Whether a task should end. Whoever carries it out checks this between the layers of a pass and more often; each
    check calls `looked`, as it shows that the task is not stuck."""

    def __init__(self) -> None:
        super().__init__()
        self.looked: Callable[[], None] = lambda: None

    def is_set(self) -> bool:
        self.looked()
        return super().is_set()


@dataclass(frozen=True)
class Task:
    """A request that is to be answered. stop: set when it should end. size_bytes: of its line."""

    request: Work
    size_bytes: int
    stop: StopFlag = field(default_factory=StopFlag)


class TaskQueue:
    """A queue of tasks whose current and waiting tasks can be stopped."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._waiting: deque[Task] = deque()
        self._size_bytes = 0  # of those that wait
        self._current: Task | None = None
        self._closed = False

    def put(self, request: Work, size_bytes: int) -> bool:
        """Adds a request; returns False if too much is waiting already or the host is leaving."""
        with self._changed:
            if self._closed or self._size_bytes + size_bytes > MAX_WAITING_BYTES:
                return False
            self._waiting.append(Task(request, size_bytes))
            self._size_bytes += size_bytes
            self._changed.notify()
            return True

    def wait(self, seconds: float) -> bool:
        """Returns whether `take` can return at once, after waiting for at most `seconds`."""
        with self._changed:
            return bool(self._changed.wait_for(lambda: self._waiting or self._closed, seconds))

    def take(self) -> Task | None:
        """Returns the next task, once there is one; None when there will be no more. The one before it is over."""
        with self._changed:
            self._current = None
            self._changed.wait_for(lambda: self._waiting or self._closed)
            if self._waiting:
                self._current = self._waiting.popleft()
                self._size_bytes -= self._current.size_bytes
            return self._current

    def take_count(self) -> Task | None:
        """Returns the first count that waits and that no change of the loaded models comes before, None if there is
        none. The current task stays what it is."""
        with self._changed:
            for task in self._waiting:
                if isinstance(task.request, Load | Unload):
                    return None
                if isinstance(task.request, Count):
                    self._waiting.remove(task)
                    self._size_bytes -= task.size_bytes
                    return task
            return None

    def stop(self, number: int) -> int:
        """Stops the current task if its request has this id, and removes those that wait; returns how many these
        were."""
        with self._changed:
            if self._current is not None and self._current.request.id == number:
                self._current.stop.set()
            left = deque(task for task in self._waiting if task.request.id != number)
            removed = len(self._waiting) - len(left)
            self._waiting = left
            self._size_bytes = sum(task.size_bytes for task in left)
            return removed

    def close(self, stop: bool) -> None:
        """Accepts no more requests. stop: also stops the current task and those that wait."""
        with self._changed:
            self._closed = True
            if stop and self._current is not None:
                self._current.stop.set()
            for task in self._waiting if stop else ():
                task.stop.set()
            self._changed.notify()
