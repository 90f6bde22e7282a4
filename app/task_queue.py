"""The queue of the thread that owns MLX: what the app asks, and what other programs ask.

Replies are written at once, as many as there are places; anything else is carried out while nothing else is, and what
comes after it waits. The app goes first: a program's task is taken only where no task of the app waits, and while
programs are admitted; and the first reply of the app needs no place. None is interrupted for another.

Invariant: a task is either waiting here, or running, or over. Whoever moves it from one to the next holds the lock, so
whoever stops it finds it in one place or the other.
"""

import threading
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import takewhile

from app.protocol import AnyAnswer, Count, Load, Pair, Race, Reply, Unload, Verify

MAX_WAITING_BYTES = 64 * 1024 * 1024
PLACES, MOST_PLACES = 4, 8  # for replies at once: without a choice of the user's, and at most

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
    """A queue of tasks that can be stopped, whether they wait or run.

    places: how many replies may be written at once. progress: grows whenever the thread that takes tasks makes progress
    with one.
    """

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._waiting: deque[Task] = deque()
        self._size_bytes = 0  # of those that wait
        self._running: tuple[Task, ...] = ()
        self._admitted: Pair | None = None
        self._closed = False
        self._loaded: Pair | None = None
        self.places = PLACES
        self.progress = 0

    @property
    def running(self) -> tuple[Task, ...]:
        """The tasks that were taken and are not over: several replies, or one task of another kind."""
        return self._running

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
        """Returns the next task that may begin, once there is one; None when there will be no more."""
        with self._changed:
            self._changed.wait_for(lambda: self._next() is not None or self._closed)
            return self._take_next()

    def take_beside(self) -> Task | None:
        """Returns the next task that may begin beside those that run, None if there is none now."""
        with self._changed:
            return self._take_next()

    def waiting_replies(self) -> list[Task]:
        """Returns the replies that wait behind those that run, and could be written if there were room."""
        with self._changed:
            admitted = [task for task in self._waiting if not task.of_program or self._admits_programs]
            replies = takewhile(lambda task: isinstance(task.request, Reply | Count), admitted)
            return [task for task in replies if isinstance(task.request, Reply)] if self._running else []

    def end_task(self, task: Task, loaded: Pair | None) -> None:
        """Notes that a task is over, and which pair is loaded now."""
        with self._changed:
            self._running = tuple(other for other in self._running if other is not task)
            self._loaded = loaded
            self._changed.notify()

    def take_count(self) -> Task | None:
        """Returns the first count that waits and that no change of the loaded models comes before, None if there is
        none. It is answered at once, and does not count among those that run."""
        with self._changed:
            for task in self._waiting:
                if isinstance(task.request, Load | Unload):
                    return None
                if isinstance(task.request, Count) and (not task.of_program or self._admits_programs):
                    self._remove(task)
                    return task
            return None

    def stop(self, number: int) -> list[Task]:
        """Stops the app's task with this id if it runs; removes and returns it if it waits."""
        with self._changed:
            for task in self._running:
                if not task.of_program and task.request.id == number:
                    task.stop.set()
            removed = [task for task in self._waiting if not task.of_program and task.request.id == number]
            for task in removed:
                self._remove(task)
            return removed

    def cancel(self, task: Task) -> None:
        """Stops this task if it runs; removes it if it waits."""
        with self._changed:
            if task in self._running:
                task.stop.set()
            elif task in self._waiting:
                self._remove(task)

    def close(self, stop: bool) -> None:
        """Accepts no more tasks. stop: also stops those that run and those that wait."""
        with self._changed:
            self._closed = True
            for task in (*self._running, *self._waiting) if stop else ():
                task.stop.set()
            self._changed.notify()

    @property
    def _admits_programs(self) -> bool:
        return self._closed or (self._admitted is not None and self._admitted == self._loaded)

    def _take_next(self) -> Task | None:
        task = self._next()
        if task is not None:
            self._remove(task)
            self._running = (*self._running, task)
            self.progress += 1
        return task

    def _next(self) -> Task | None:
        """The task that comes next, None while there is none that may be taken."""
        waiting = self._waiting
        of_app = next((task for task in waiting if not task.of_program), None)
        task = of_app or (waiting[0] if waiting and self._admits_programs else None)
        return task if task is not None and self._may_begin(task) else None

    def _may_begin(self, task: Task) -> bool:
        """Whether a task may run beside those that do."""
        running = self._running
        if not running:
            return True
        if not all(isinstance(one.request, Reply) for one in (task, *running)):
            return False
        is_first_of_app = not task.of_program and all(one.of_program for one in running)
        return len(running) < self.places or is_first_of_app

    def _remove(self, task: Task) -> None:
        self._waiting.remove(task)
        self._size_bytes -= task.size_bytes
