"""The loop that carries out tasks, in the main thread, which alone uses MLX: replies at once, in turns, anything else
alone. Between two turns it answers counts, begins the replies that have come, and looks at the memory.

This is the process boundary: an error becomes an answer and goes no further. Leaving has a deadline: whoever asks for
it starts a timer that ends the process, whatever MLX is busy with.
"""

from __future__ import annotations

import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import cache, partial
from pathlib import Path
from typing import TYPE_CHECKING

from app import protocol
from app.command_line import FAILURE, OK, notify
from app.inference.machine import memory_is_short
from app.log_file import name_of, traceback_of
from app.protocol.watchdog import HEARTBEAT_S
from app.task_queue import Task, TaskQueue
from engine.backend import raise_if_machine_lost
from engine.errors import BackendError, MachineLostError, RedlineError, StoppedError
from engine.together import Together

if TYPE_CHECKING:  # model_worker imports MLX, which takes seconds
    from app.host.model_worker import ModelWorker
    from app.host.recording_player import RecordingPlayer

    Worker = ModelWorker | RecordingPlayer
    WorkerFactory = Callable[[], Worker]  # returns the same one whenever it is called; raises BackendError

GRACE_S = 2.0  # for leaving
LOOK_S = 5.0  # between two looks at the memory
IDLE_S = 0.3  # without a request before the worker prepares for later ones
NO_PLACE = "other replies are being written: this one begins when one of them ends"
Tell = Callable[[protocol.AnyAnswer], None]  # takes what belongs to no task; may raise WindowGoneError


class WindowGoneError(Exception):
    """Nobody reads the answers any more."""


@cache
def open_model_worker(cache_root: Path | None = None) -> ModelWorker:
    """Returns the worker with a real model; imports MLX. Raises BackendError where that is impossible."""
    try:
        from app.host.model_worker import ModelWorker
    except (ImportError, OSError, RuntimeError) as error:  # MLX raises the latter where there is no device
        reason = " ".join(str(error).split())
        raise BackendError(f"the engine cannot be loaded ({reason}): run `redline doctor`") from error
    return ModelWorker(cache_root)


class EngineLoop:
    """Carries out the tasks of its queue. tell: takes what belongs to no task. interrupted: whether Ctrl-C ended it."""

    def __init__(self, tell: Tell, open_worker: WorkerFactory) -> None:
        self.tasks = TaskQueue()
        self._tell, self._open_worker = tell, open_worker
        self._code = OK
        self.interrupted = False

    def run(self) -> int:
        """Carries out tasks until there will be no more; returns the exit code."""
        try:
            self._open_worker()  # before the first request, which would have to wait for it
        except BackendError as error:  # the first request reports it too
            notify(str(error))
        try:
            TaskRunner(self.tasks, self._tell, self._open_worker).run()
        except WindowGoneError:
            return OK
        except MachineLostError as error:  # the window reads the reason here, and starts another host
            self._code = FAILURE
            notify(str(error))
            self.leave()
        except Exception as error:  # noqa: BLE001  broad: the process boundary; nobody knows what state this has left
            self.give_up(error)
        return self._code

    def leave(self) -> None:
        """Ends the process soon, whatever it is busy with; safe to call twice."""
        deadline = threading.Timer(GRACE_S, os._exit, (self._code,))
        deadline.daemon = True
        deadline.start()
        self.tasks.close(stop=True)

    def give_up(self, error: Exception) -> None:
        """Has the process end with a failure."""
        self._code = FAILURE
        notify(f"the engine is stopping after an error ({name_of(error)})")

    def watch_signals(self) -> None:
        """Leaves on SIGTERM and Ctrl-C. The signal only writes to a pipe, from whatever thread it interrupts, so a long
        pass of the main thread does not keep it waiting."""
        reader, writer = os.pipe()
        os.set_blocking(writer, False)
        signal.set_wakeup_fd(writer, warn_on_full_buffer=False)
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, lambda *_: None)

        def wait() -> None:
            self.interrupted = os.read(reader, 1)[0] == signal.SIGINT
            self.leave()

        threading.Thread(target=wait, name="signals", daemon=True).start()


class Heartbeat:
    """Notes the progress of a task whenever it is called, and tells the app that the engine works if it has had no
    answer to the task for a while. The app sees none of the answers to a program."""

    def __init__(self, tasks: TaskQueue, tell: Tell, task: Task) -> None:
        self._tasks, self._tell, self._of_program = tasks, tell, task.of_program
        self._number = 0 if task.of_program else task.request.id
        self._last_s = time.monotonic()

    def note_answer(self) -> None:
        """There was an answer to the task."""
        self._tasks.progress += 1
        if not self._of_program:
            self._last_s = time.monotonic()

    def __call__(self) -> None:
        self._tasks.progress += 1
        if time.monotonic() - self._last_s >= HEARTBEAT_S:
            self._last_s = time.monotonic()
            with suppress(WindowGoneError):  # the next answer meets it
                self._tell(protocol.Working(id=self._number))


class TaskRunner:
    """Carries out the tasks of a queue."""

    def __init__(self, tasks: TaskQueue, tell: Tell, open_worker: WorkerFactory) -> None:
        self._tasks, self._tell, self._open_worker = tasks, tell, open_worker
        self._worker: Worker | None = None
        self._together = Together()
        self._next_look_s = 0.0
        self._told_short = False  # of memory

    def run(self) -> None:
        """Carries out tasks until there will be no more. Raises WindowGoneError, MachineLostError, and whatever keeps
        the worker from recovering."""
        while (task := self._next()) is not None:
            if isinstance(task.request, protocol.Reply):
                self._write_replies(task)
            else:
                self._carry_out(task)

    def _write_replies(self, first: Task) -> None:
        """Writes a reply, and those that may be written with it, until none is left."""
        task: Task | None = first
        told = set[Task]()
        while task is not None or self._together.running:
            while task is not None:
                self._together.start(partial(self._carry_out, task))
                task = self._tasks.take_beside()
            self._together.turn()
            if self._worker is not None:
                self._look_at_memory(self._worker)
                self._answer_counts(self._worker)
            task = self._tasks.take_beside()
            self._report_waiting(told)

    def _carry_out(self, task: Task) -> None:
        """Carries out a task, and answers it whatever happens. Raises as `run` does."""
        try:
            if task.stop.is_set():
                task.answer(cancelled(task))
                return
            worker = self._worker = self._open_worker()
            worker.at_once = self._together.at_once
            heartbeat = task.stop.on_check = Heartbeat(self._tasks, self._tell, task)
            for answer in _answers(worker, task):
                task.answer(answer)
                heartbeat.note_answer()
                if not isinstance(task.request, protocol.Race | protocol.Reply):  # a race is timed
                    self._look_at_memory(worker)
        except (WindowGoneError, MachineLostError):
            raise
        except RedlineError as error:
            _report(error, task, self._worker)
        except Exception as error:  # noqa: BLE001  broad: the process boundary
            _report(error, task, self._worker)
            if self._worker is not None:
                self._worker.recover()
        finally:
            self._tasks.end_task(task, None if self._worker is None else self._worker.pair)

    def _look_at_memory(self, worker: Worker) -> None:
        """Has `worker` give memory back if the system asks for that, looking every LOOK_S at most; tells the window the
        first time. What is dropped is read or computed again, so no text changes. Must not be called within a pass.
        Raises WindowGoneError."""
        now_s = time.monotonic()
        if now_s < self._next_look_s:
            return
        self._next_look_s = now_s + LOOK_S
        if memory_is_short():
            worker.give_back_memory()
            if not self._told_short:
                self._told_short = True
                self._tell(protocol.MemoryShort())

    def _answer_counts(self, worker: Worker) -> None:
        """Answers the counts that wait behind replies, which take much longer than they do. Raises WindowGoneError and
        MachineLostError."""
        while (task := self._tasks.take_count()) is not None:
            try:
                for answer in _answers(worker, task):
                    task.answer(answer)
            except (WindowGoneError, MachineLostError):
                raise
            except Exception as error:  # noqa: BLE001  broad: the replies go on whatever a count meets
                _report(error, task, worker)

    def _report_waiting(self, told: set[Task]) -> None:
        """Tells whoever waits for a place, once. told: those who know."""
        for task in self._tasks.waiting_replies():
            if task not in told:
                told.add(task)
                task.answer(protocol.Waiting(id=task.request.id, reason=NO_PLACE))

    def _next(self) -> Task | None:
        """Returns the next task, None when there will be no more. Until it comes the worker prepares for later ones,
        and gives memory back if the system is short of it."""
        worker, tasks = self._worker, self._tasks
        if worker is not None and not tasks.wait(IDLE_S):
            try:
                worker.prepare(tasks.wait)
                while not tasks.wait(LOOK_S):
                    self._look_at_memory(worker)
            except WindowGoneError:
                raise
            except Exception as error:  # noqa: BLE001  broad: the process boundary; the task that needs it meets it too
                raise_if_machine_lost(error)
                print(traceback_of(error), file=sys.stderr)
                worker.recover()
        return tasks.take()


def _report(error: Exception, task: Task, worker: Worker | None) -> None:
    """Answers a task with the error that ended it, with a traceback for one that is not Redline's own. Raises
    MachineLostError."""
    raise_if_machine_lost(error)
    if not isinstance(error, RedlineError):
        print(traceback_of(error), file=sys.stderr)
    task.answer(_failed(task, error, worker))


def _answers(worker: Worker, task: Task) -> Iterator[protocol.AnyAnswer]:
    match task.request:
        case protocol.Load() as request:
            return worker.load(request)
        case protocol.Reply() as request:
            return worker.reply(request, task.stop)
        case protocol.Verify() as request:
            return worker.verify(request, task.stop)
        case protocol.Race() as request:
            return worker.race(request, task.stop)
        case protocol.Count() as request:
            return worker.count(request, task.stop)
        case protocol.Unload() as request:
            return worker.unload(request)


def cancelled(task: Task) -> protocol.Failed:
    """Returns the answer to a task that was stopped while it waited."""
    return protocol.Failed(id=task.request.id, kind=protocol.CANCELLED, message="stopped before its turn came")


def _failed(task: Task, error: Exception, worker: Worker | None) -> protocol.Failed:
    """Returns the answer for an error. One that Redline did not raise on purpose is named and called unexpected."""
    message = " ".join(str(error).split())
    if not isinstance(error, RedlineError):
        what = f"{type(error).__name__}: {message}" if message else type(error).__name__
        message = f"something unexpected went wrong in the engine ({what[:300]}): try again, or load the model again"
    kind = protocol.CANCELLED if isinstance(error, StoppedError) else type(error).__name__
    kept = worker.pair if worker is not None and isinstance(task.request, protocol.Load) else None
    message = message.encode(errors="replace").decode()  # names of files may be no Unicode
    return protocol.Failed(id=task.request.id, kind=kind, message=message, kept_pair=kept)
