"""The server of the host process: a thread reads requests, which become tasks of the engine's loop, and answers are
written as lines. Other programs are served from a thread of their own, onto the same queue, while the window says so.
"""

from __future__ import annotations

import os
import sys
import threading
from contextlib import suppress
from typing import TYPE_CHECKING, BinaryIO

from app import protocol
from app.command_line import OK, notify
from app.host.engine_loop import EngineLoop, WindowGoneError, cancelled
from app.inference.machine import processor
from app.task_queue import MOST_PLACES, Task
from models.package_versions import version_of

if TYPE_CHECKING:  # what serves programs takes a while to import, and few windows serve them
    from app.api.api_thread import ApiThread
    from app.host.engine_loop import WorkerFactory


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
    """Reads requests from the descriptor `requests` and has them answered.

    finish: at the end of input, the requests that wait are answered before the process ends.
    """

    def __init__(self, requests: int, writer: AnswerWriter, open_worker: WorkerFactory, finish: bool) -> None:
        self._requests, self._writer, self._finish = requests, writer, finish
        self._loop = EngineLoop(writer.write, open_worker)
        self._programs = _Programs(self._loop, writer)

    def run(self) -> int:
        """Serves requests until the input ends or a signal comes; returns the exit code."""
        self._loop.watch_signals()
        try:
            self._writer.write(ready())
        except WindowGoneError:
            return OK
        threading.Thread(target=self._read, name="reader", daemon=True).start()
        code = self._loop.run()
        self._programs.end()
        return code

    def _read(self) -> None:
        """Reads until Quit or the end of input, in a thread of its own."""
        quits = True
        try:
            quits = any(self._take(line) for line in protocol.read_lines(self._requests))
        except WindowGoneError:
            pass
        except Exception as error:  # noqa: BLE001  broad: the thread's boundary; a host that does not listen is no use
            self._loop.give_up(error)
        if self._finish and not quits:
            self._loop.tasks.close(stop=False)
        else:
            self._loop.leave()

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
        match request:
            case None:
                pass
            case protocol.Quit():
                return True
            case protocol.Stop():
                for task in self._loop.tasks.stop(request.id):
                    self._writer.write(cancelled(task))
            case protocol.Parallel():
                self._loop.tasks.places = max(1, min(request.replies, MOST_PLACES))
            case protocol.Serve():
                self._programs.serve(request)
            case _ if not self._loop.tasks.put(Task(request, self._answer, len(line))):
                busy = "too many requests are waiting: wait for answers, then try again"
                self._writer.write(protocol.Failed(id=request.id, kind=protocol.BUSY, message=busy))
        return False

    def _answer(self, answer: protocol.AnyAnswer) -> None:
        """Answers a request of the window. Raises WindowGoneError."""
        self._writer.write(answer)
        if isinstance(answer, protocol.Loaded):
            self._programs.note_loaded(answer)


class _Programs:
    """What the window has decided about other programs, and the thread that serves them."""

    def __init__(self, loop: EngineLoop, writer: AnswerWriter) -> None:
        self._tasks, self._writer = loop.tasks, writer
        self._lock = threading.Lock()
        self._chosen = protocol.Serve(id=0, port=None)
        self._loaded: protocol.Loaded | None = None  # last
        self._thread: ApiThread | None = None

    def serve(self, chosen: protocol.Serve) -> None:
        """Does as the window has decided."""
        with self._lock:
            old, self._chosen = self._chosen, chosen
            waits = chosen.port is None or chosen.paused or chosen.refusal
            self._tasks.admit_programs(None if waits else chosen.pair)
            if (old.port, old.key_file) != (chosen.port, chosen.key_file):
                self._restart(chosen)
            self._tell_client()

    def note_loaded(self, loaded: protocol.Loaded) -> None:
        """Notes which pair has been loaded."""
        with self._lock:
            self._loaded = loaded
            self._tell_client()

    def end(self) -> None:
        """Serves nobody any more, as the process ends."""
        with self._lock:
            thread = self._thread
        if thread is not None:
            thread.end()
            thread.join()

    def _restart(self, chosen: protocol.Serve) -> None:
        from app.api.api_thread import ApiThread

        old = self._thread
        if old is not None:
            old.end()
        if chosen.port is None:
            self._tell_window(protocol.Serving())
        else:
            self._thread = ApiThread.of_window(chosen, self._tasks, self._report, old)
            self._thread.start()

    def _report(self, serving: protocol.Serving) -> None:
        """Reports for the thread that calls this, unless it is ending: then the window knows better."""
        with self._lock:
            if threading.current_thread() is self._thread and self._chosen.port is not None:
                self._tell_window(serving)

    def _tell_window(self, serving: protocol.Serving) -> None:
        with suppress(WindowGoneError):  # the next answer meets it
            self._writer.write(serving)

    def _tell_client(self) -> None:
        if self._thread is not None:
            fits = self._loaded is not None and self._loaded.pair == self._chosen.pair
            self._thread.client.update(self._loaded if fits else None, self._chosen.refusal)


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
    return protocol.Ready(version=protocol.VERSION, redline=version_of("redline"), mlx=version_of("mlx"), device=device)
