"""Serves requests one after the other. This is the process boundary: an error becomes an answer and goes no further."""

from __future__ import annotations

import sys
import traceback
from collections.abc import Iterator

from app.host.answer_writer import AnswerWriter, WindowGoneError
from app.host.task_queue import Task, TaskQueue, Work
from app.host.worker import Worker, failed
from app.protocol import (
    AnyAnswer,
    AnyRequest,
    Failed,
    Load,
    Malformed,
    MalformedError,
    Quit,
    Race,
    Reply,
    Stop,
    Unload,
    Verify,
    decode_request,
)
from app.protocol.line_codec import EXCERPT, BadLine, read_lines
from engine.errors import RedlineError

CANCELLED, BUSY = "Cancelled", "Busy"


def serve(inbox: TaskQueue, outbox: AnswerWriter, worker: Worker) -> None:
    """Answer until there is nothing more to answer. Raises WindowGoneError, and what no recovery was possible from."""
    while (task := inbox.take()) is not None:
        try:
            for answer in _answers(task, worker):
                outbox.say(answer)
        except WindowGoneError:
            raise
        except RedlineError as error:
            outbox.say(_failed(task, error, worker))
        except Exception as error:  # noqa: BLE001  broad: the process boundary
            traceback.print_exc(file=sys.stderr)
            outbox.say(_failed(task, error, worker))
            worker.recover()


def _failed(task: Task, error: Exception, worker: Worker) -> Failed:
    return failed(task.request.id, error, kept=worker.pair if isinstance(task.request, Load) else None)


def _answers(task: Task, worker: Worker) -> Iterator[AnyAnswer]:
    request = task.request
    if isinstance(request, Load):
        return worker.load(request)
    if isinstance(request, Verify):
        return worker.verify(request, task.stop)
    if isinstance(request, Race):
        return worker.race(request, task.stop)
    if isinstance(request, Unload):
        return worker.unload(request)
    return worker.reply(request, task.stop) if isinstance(request, Reply) else worker.count(request)


class Reader:
    """Reads requests and lets them wait, but obeys Stop and Quit at once; runs in a thread of its own."""

    def __init__(self, fd: int, inbox: TaskQueue, outbox: AnswerWriter) -> None:
        self._fd, self._inbox, self._outbox = fd, inbox, outbox

    def run(self) -> bool:
        """Read until Quit or the end of input; returns whether it was Quit. Raises WindowGoneError."""
        for line in read_lines(self._fd):
            request = self._read(line)
            if isinstance(request, Quit):
                return True
            if isinstance(request, Stop):
                self.stop(request.id)
            elif request is not None:
                self._put(request, len(line) if isinstance(line, bytes) else 0)
        return False

    def stop(self, number: int) -> None:
        """End the request of this id, or take it back."""
        for _ in range(self._inbox.stop(number)):
            self._outbox.say(Failed(id=number, kind=CANCELLED, message="stopped before its turn came"))

    def _read(self, line: bytes | BadLine) -> AnyRequest | None:
        """The request in a line; None for an empty one, and for a bad one, which is answered."""
        if isinstance(line, BadLine):
            self._malformed(line.reason, line.start)
            return None
        try:
            return decode_request(line) if line.strip() else None
        except MalformedError as error:
            self._malformed(str(error), line)
            return None

    def _malformed(self, reason: str, line: bytes) -> None:
        self._outbox.say(Malformed(reason=reason, line=line[:EXCERPT].decode(errors="replace")))

    def _put(self, request: Work, size_bytes: int) -> None:
        if not self._inbox.put(request, size_bytes):
            reason = "too much waits already: wait for answers before asking for more"
            self._outbox.say(Failed(id=request.id, kind=BUSY, message=reason))
