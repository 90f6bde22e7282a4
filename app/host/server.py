"""The server of the host process: one thread reads requests, one waits for signals, and the main thread answers.

This is the process boundary: an error becomes an answer and goes no further. Only the main thread uses MLX. Leaving has
a deadline: whoever asks for it starts a timer that ends the process, whatever MLX is busy with.
"""

from __future__ import annotations

import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from importlib.metadata import PackageNotFoundError, version
from typing import TYPE_CHECKING, BinaryIO

from app import protocol
from app.command_line import FAILURE, OK, notify
from app.host.memory_relief import LOOK_S, MemoryRelief
from app.host.task_queue import Task, TaskQueue
from app.inference.machine import processor
from app.log_file import name_of, traceback_of
from app.protocol import silence
from engine.backend import raise_if_machine_lost
from engine.errors import BackendError, MachineLostError, RedlineError, StoppedError

if TYPE_CHECKING:  # model_worker imports MLX, which takes seconds
    from app.host.model_worker import ModelWorker
    from app.host.recording_player import RecordingPlayer

    Worker = ModelWorker | RecordingPlayer
    WorkerFactory = Callable[[], Worker]  # returns the same one whenever it is called; raises BackendError

GRACE_S = 2.0  # for leaving
IDLE_S = 0.3  # without a request before the worker prepares for later ones


class WindowGoneError(Exception):
    """Nobody reads the answers any more."""


class AnswerWriter:
    """Writes answers to the descriptor `fd`, whole lines from any thread, and copies of them to `record`."""

    def __init__(self, fd: int, record: BinaryIO | None = None) -> None:
        self._fd, self._record = fd, record
        self._lock = threading.Lock()

    def write(self, answer: protocol.AnyAnswer) -> None:
        """Writes one answer. Raises WindowGoneError."""
        line = protocol.encode_line(answer)
        with self._lock:
            self._copy(line)
            left = memoryview(line)
            try:
                while left:
                    left = left[os.write(self._fd, left) :]
            except OSError as error:
                raise WindowGoneError(f"answers cannot be written ({error.strerror})") from error

    def _copy(self, line: bytes) -> None:
        """Writes the line to the recording, until that cannot be written: the window matters more."""
        try:
            if self._record is not None:
                self._record.write(line)
                self._record.flush()
        except OSError as error:
            notify(f"recording stopped: the file cannot be written ({error.strerror})")
            self._record = None


class Server:
    """Reads requests from the descriptor `requests` and answers them.

    finish: at the end of input, the requests that wait are answered before the process ends.
    """

    def __init__(self, requests: int, writer: AnswerWriter, open_worker: WorkerFactory, finish: bool) -> None:
        self._requests, self._writer, self._open_worker, self._finish = requests, writer, open_worker, finish
        self._tasks = TaskQueue()
        self._code = OK

    def run(self) -> int:
        """Serves requests until the input ends or a signal comes; returns the exit code."""
        self._watch_signals()
        try:
            self._writer.write(ready())
            threading.Thread(target=self._read, name="reader", daemon=True).start()
            try:
                self._open_worker()  # before the first request, which would have to wait for it
            except BackendError as error:  # the first request reports it too
                notify(str(error))
            serve(self._tasks, self._writer, self._open_worker)
        except WindowGoneError:
            return OK
        except MachineLostError as error:  # the window reads the reason here, and starts another host
            self._code = FAILURE
            notify(str(error))
            self._leave()
        except Exception as error:  # noqa: BLE001  broad: the process boundary; nobody knows what state this has left
            self._give_up(error)
        return self._code

    # --- reading -------------------------------------------------------------------------------

    def _read(self) -> None:
        """Reads until Quit or the end of input, in a thread of its own."""
        quits = True
        try:
            quits = any(self._take(line) for line in protocol.read_lines(self._requests))
        except WindowGoneError:
            pass
        except Exception as error:  # noqa: BLE001  broad: the thread's boundary; a host that does not listen is no use
            self._give_up(error)
        if self._finish and not quits:
            self._tasks.close(stop=False)
        else:
            self._leave()

    def _take(self, line: bytes | protocol.Malformed) -> bool:
        """Queues the request in a line, or obeys it at once; returns whether it is Quit."""
        if isinstance(line, protocol.Malformed):
            self._writer.write(line)
            return False
        try:
            request = protocol.decode_request(line) if line.strip() else None
        except protocol.MalformedError as error:
            self._writer.write(protocol.malformed(str(error), line))
            return False
        if isinstance(request, protocol.Quit):
            return True
        if isinstance(request, protocol.Stop):
            for _ in range(self._tasks.stop(request.id)):
                self._writer.write(_cancelled(request.id))
        elif request is not None and not self._tasks.put(request, len(line)):
            busy = "too many requests are waiting: wait for answers, then try again"
            self._writer.write(protocol.Failed(id=request.id, kind=protocol.BUSY, message=busy))
        return False

    # --- leaving -------------------------------------------------------------------------------

    def _leave(self) -> None:
        """Ends the process soon, whatever it is busy with; safe to call twice."""
        deadline = threading.Timer(GRACE_S, os._exit, (self._code,))
        deadline.daemon = True
        deadline.start()
        self._tasks.close(stop=True)

    def _give_up(self, error: Exception) -> None:
        self._code = FAILURE
        notify(f"the engine is stopping after an error ({name_of(error)})")

    def _watch_signals(self) -> None:
        """Leaves on SIGTERM and Ctrl-C. The signal only writes to a pipe, from whatever thread it interrupts, so a long
        pass of the main thread does not keep it waiting."""
        reader, writer = os.pipe()
        os.set_blocking(writer, False)
        signal.set_wakeup_fd(writer, warn_on_full_buffer=False)
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, lambda *_: None)

        def wait() -> None:
            os.read(reader, 1)
            self._leave()

        threading.Thread(target=wait, name="signals", daemon=True).start()


class SignsOfLife:
    """Says Working for a request that has had no answer for a while, whenever it is called."""

    def __init__(self, writer: AnswerWriter, number: int) -> None:
        self._writer, self._number = writer, number
        self.wait_again()

    def wait_again(self) -> None:
        """There was an answer."""
        self._last_s = time.monotonic()

    def __call__(self) -> None:
        if time.monotonic() - self._last_s >= silence.WORKING_S:
            self.wait_again()
            with suppress(WindowGoneError):  # the next answer meets it
                self._writer.write(protocol.Working(id=self._number))


def serve(tasks: TaskQueue, writer: AnswerWriter, open_worker: WorkerFactory) -> None:
    """Answers one request after the other until there are no more. Raises WindowGoneError, MachineLostError, and
    whatever keeps the worker from recovering."""
    worker: Worker | None = None
    relief = MemoryRelief(writer)
    while (task := _next(tasks, worker, relief)) is not None:
        try:
            if task.stop.is_set():
                writer.write(_cancelled(task.request.id))
                continue
            worker = open_worker()
            answered = task.stop.looked = SignsOfLife(writer, task.request.id)
            for answer in _answers(worker, task):
                writer.write(answer)
                answered.wait_again()
                if not isinstance(task.request, protocol.Race):  # which is timed
                    relief.look(worker)
                if isinstance(task.request, protocol.Reply):
                    _answer_counts(tasks, worker, writer)
        except (WindowGoneError, MachineLostError):
            raise
        except RedlineError as error:
            _report(error, task, worker, writer)
        except Exception as error:  # noqa: BLE001  broad: the process boundary
            _report(error, task, worker, writer)
            if worker is not None:
                worker.recover()


def _answer_counts(tasks: TaskQueue, worker: Worker, writer: AnswerWriter) -> None:
    """Answers the counts that wait behind a reply, which takes much longer than they do. Raises WindowGoneError and
    MachineLostError."""
    while (task := tasks.take_count()) is not None:
        try:
            for answer in _answers(worker, task):
                writer.write(answer)
        except (WindowGoneError, MachineLostError):
            raise
        except Exception as error:  # noqa: BLE001  broad: the reply goes on whatever a count meets
            _report(error, task, worker, writer)


def _report(error: Exception, task: Task, worker: Worker | None, writer: AnswerWriter) -> None:
    """Answers a task with the error that ended it, with a traceback for one that is not Redline's own. Raises
    MachineLostError."""
    raise_if_machine_lost(error)
    if not isinstance(error, RedlineError):
        print(traceback_of(error), file=sys.stderr)
    writer.write(_failed(task, error, worker))


def _next(tasks: TaskQueue, worker: Worker | None, relief: MemoryRelief) -> Task | None:
    """Returns the next task, None when there will be no more. Until it comes the worker prepares for later ones, and
    gives memory back if the system is short of it."""
    if worker is not None and not tasks.wait(IDLE_S):
        try:
            worker.prepare(tasks.wait)
            while not tasks.wait(LOOK_S):
                relief.look(worker)
        except WindowGoneError:
            raise
        except Exception as error:  # noqa: BLE001  broad: the process boundary; the task that needs it meets it again
            raise_if_machine_lost(error)
            print(traceback_of(error), file=sys.stderr)
            worker.recover()
    return tasks.take()


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


def _cancelled(number: int) -> protocol.Failed:
    return protocol.Failed(id=number, kind=protocol.CANCELLED, message="stopped before its turn came")


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


def take_streams() -> tuple[int, int]:
    """Returns descriptors of standard input and output, for the protocol alone: whatever libraries print goes to
    standard error, and what they read is empty."""
    sys.stdout.flush()
    requests, answers = os.dup(0), os.dup(1)
    os.dup2(2, 1)
    empty = os.open(os.devnull, os.O_RDONLY)
    os.dup2(empty, 0)
    os.close(empty)
    return requests, answers


def ready() -> protocol.Ready:
    """Returns who answers, without importing MLX, which would take a while."""
    device = f"{processor()}, Metal" if sys.platform == "darwin" else f"{processor()}, CPU"
    return protocol.Ready(version=protocol.VERSION, redline=_version("redline"), mlx=_version("mlx"), device=device)


def _version(package: str) -> str:
    try:
        return version(package)
    except PackageNotFoundError:
        return "unknown"
