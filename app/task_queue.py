"""The queue of the thread that owns MLX: what the app asks, and what other programs ask.

The app goes first: a program's task is taken only where no task of the app waits, and while programs are admitted. None
is interrupted for another.

Invariant: a task is either waiting here, or the one taken last, or over. Whoever moves it from one to the next holds
the lock, so whoever stops it finds it in one place or the other.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field

from app.protocol import AnyAnswer, Count, Load, Pair, Race, Reply, Unload, Verify

MAX_WAITING_BYTES = 64 * 1024 * 1024

Work = Load | Reply | Count | Verify | Race | Unload


class StopFlag(threading.Event):
    """Whether a task should end. Whoever carries it out checks this between the layers of a pass and more often; each
    check calls `on_check`, as it shows that the task makes progress."""

    def __init__(self) -> None:
        super().__init__()
        self.on_check: Callable[[], None] = lambda: None

    def is_set(self) -> bool:
        self.on_check()
        return super().is_set()


@dataclass(eq=False)
class Task:
    """A request that is to be answered. answer: takes each answer, in the thread that owns MLX. size_bytes: of the
    request. of_program: whether another program asks. stop: set when it should end."""

    request: Work
    answer: Callable[[AnyAnswer], None]
    size_bytes: int = 0
    of_program: bool = False
    stop: StopFlag = field(default_factory=StopFlag)


class TaskQueue:
    """A queue of tasks whose current and waiting tasks can be stopped.

    progress: grows whenever the thread that takes tasks makes progress with one.
    """

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._waiting: deque[Task] = deque()
        self._size_bytes = 0  # of those that wait
        self._current: Task | None = None
        self._admitted: Pair | None = None
        self._closed = False
        self._loaded: Pair | None = None
        self.progress = 0

    @property
    def current(self) -> Task | None:
        """The task that was taken last, None once it is over."""
        return self._current

    def admit_programs(self, pair: Pair | None) -> None:
        """Has programs' tasks taken while this pair is loaded; None has them wait."""
        with self._changed:
            self._admitted = pair
            self._changed.notify()

    def put(self, task: Task) -> bool:
        """Adds a task; returns False if too much is waiting already or the host is leaving."""
        with self._changed:
            if self._closed or self._size_bytes + task.size_bytes > MAX_WAITING_BYTES:
                return False
            self._waiting.append(task)
            self._size_bytes += task.size_bytes
            self._changed.notify()
            return True

    def wait(self, seconds: float) -> bool:
        """Returns whether `take` can return at once, after waiting for at most `seconds`."""
        with self._changed:
            return bool(self._changed.wait_for(lambda: self._next() is not None or self._closed, seconds))

    def take(self) -> Task | None:
        """Returns the next task, once there is one; None when there will be no more."""
        with self._changed:
            self._changed.wait_for(lambda: self._next() is not None or self._closed)
            self._current = self._next()
            if self._current is not None:
                self._remove(self._current)
                self.progress += 1
            return self._current

    def end_task(self, loaded: Pair | None) -> None:
        """Notes that the current task is over, and which pair is loaded now."""
        with self._changed:
            self._current, self._loaded = None, loaded

    def take_count(self) -> Task | None:
        """Returns the first count that waits and that no change of the loaded models comes before, None if there is
        none. The current task stays what it is."""
        with self._changed:
            for task in self._waiting:
                if isinstance(task.request, Load | Unload):
                    return None
                if isinstance(task.request, Count) and (not task.of_program or self._admits_programs):
                    self._remove(task)
                    return task
            return None

    def stop(self, number: int) -> list[Task]:
        """Stops the app's current task if its request has this id; removes and returns those that wait."""
        with self._changed:
            current = self._current
            if current is not None and not current.of_program and current.request.id == number:
                current.stop.set()
            removed = [task for task in self._waiting if not task.of_program and task.request.id == number]
            for task in removed:
                self._remove(task)
            return removed

    def cancel(self, task: Task) -> None:
        """Stops this task if it is the current one; removes it if it waits."""
        with self._changed:
            if task is self._current:
                task.stop.set()
            elif task in self._waiting:
                self._remove(task)

    def close(self, stop: bool) -> None:
        """Accepts no more tasks. stop: also stops the current task and those that wait."""
        with self._changed:
            self._closed = True
            if stop and self._current is not None:
                self._current.stop.set()
            for task in self._waiting if stop else ():
                task.stop.set()
            self._changed.notify()

    @property
    def _admits_programs(self) -> bool:
        return self._closed or (self._admitted is not None and self._admitted == self._loaded)

    def _next(self) -> Task | None:
        """The task that comes next, None while there is none that may be taken."""
        waiting = self._waiting
        of_app = next((task for task in waiting if not task.of_program), None)
        return of_app or (waiting[0] if waiting and self._admits_programs else None)

    def _remove(self, task: Task) -> None:
        self._waiting.remove(task)
        self._size_bytes -= task.size_bytes
