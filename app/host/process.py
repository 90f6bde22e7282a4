"""The host process: standard streams, signals, threads, and how it leaves.

Two threads read: one lines, one what signals left in a pipe. The main thread answers; it alone imports and uses MLX.
Leaving has a deadline: whoever asks for it starts a timer that ends the process, whatever MLX is busy with.
"""

from __future__ import annotations

import argparse
import os
import signal
import sys
import threading
from collections.abc import Sequence
from contextlib import suppress
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import BinaryIO

from app.command_line import FAILURE, OK, USAGE, Parser
from app.host.answer_writer import AnswerWriter, WindowGoneError
from app.host.server import CANCELLED, Reader, serve
from app.host.task_queue import TaskQueue
from app.host.worker import Worker
from app.inference.processor_name import processor
from app.protocol import VERSION, Failed, Ready
from engine.errors import RedlineError, UsageError

GRACE_S = 2.0
_HINT = """redline: this is the engine's host; it reads requests as JSON lines (app/protocol says which), for example
{"type": "Load", "id": 1, "pair": {}}
{"type": "Reply", "id": 2, "messages": [{"role": "user", "content": "Why is the sky blue?"}], "sampling": {}}
{"type": "Stop", "id": 2}
redline: Ctrl-D leaves
"""


def main(argv: Sequence[str] | None = None) -> int:
    """Run until there is nobody to answer; returns the exit code."""
    try:
        args = _parser().parse_args(argv)
    except SystemExit as done:
        return done.code if isinstance(done.code, int) else OK
    try:
        worker, record = _worker(args), _record(args.record)
    except RedlineError as error:
        print(f"redline: {' '.join(str(error).split())}", file=sys.stderr)
        return USAGE
    requests, answers = take_streams()
    if os.isatty(requests):
        print(_HINT, end="", file=sys.stderr)
    return Host(requests, answers, worker, record, args.finish).run()


def take_streams() -> tuple[int, int]:
    """Standard input and output for the protocol alone. Whatever libraries print goes to standard error, and what they
    read is empty."""
    sys.stdout.flush()
    requests, answers = os.dup(0), os.dup(1)
    os.dup2(2, 1)
    empty = os.open(os.devnull, os.O_RDONLY)
    os.dup2(empty, 0)
    os.close(empty)
    return requests, answers


class Host:
    """The process. finish: at the end of input, answer what waits before leaving."""

    def __init__(self, requests: int, answers: int, worker: Worker, record: BinaryIO | None, finish: bool) -> None:
        self._inbox, self._outbox = TaskQueue(), AnswerWriter(answers, record)
        self._reader = Reader(requests, self._inbox, self._outbox)
        self._worker, self._finish = worker, finish
        self._code = OK
        self._leaving = threading.Lock()  # held until all threads know that the process ends

    def run(self) -> int:
        """Serves requests until the input ends or a signal comes; returns the exit code."""
        self._watch_signals()
        try:
            self._outbox.say(ready())
            threading.Thread(target=self._read, name="reader", daemon=True).start()
            self._worker.prepare()
            serve(self._inbox, self._outbox, self._worker)
        except WindowGoneError:
            return OK
        except Exception as error:  # noqa: BLE001  broad: the process boundary; nobody knows what state this has left
            self._give_up(error)
        with self._leaving:
            return self._code

    def _read(self) -> None:
        quits = True
        try:
            quits = self._reader.run()
        except WindowGoneError:
            pass
        except Exception as error:  # noqa: BLE001  broad: the thread's boundary; a host that does not listen is no use
            self._give_up(error)
        if self._finish and not quits:
            self._inbox.finish()
        else:
            self._leave()

    def _leave(self) -> None:
        """Soon, whatever goes on; safe to ask for twice."""
        deadline = threading.Timer(GRACE_S, os._exit, (self._code,))
        deadline.daemon = True
        deadline.start()
        with self._leaving, suppress(WindowGoneError):
            for number in self._inbox.close():
                self._outbox.say(Failed(id=number, kind=CANCELLED, message="the host leaves before its turn came"))

    def _give_up(self, error: Exception) -> None:
        self._code = FAILURE
        print(f"redline: the host gives up ({type(error).__name__}: {error})", file=sys.stderr, flush=True)

    def _watch_signals(self) -> None:
        """Leave on SIGTERM and Ctrl-C. The signal only writes to a pipe, from whatever thread it interrupts, so a long
        pass of the main thread does not keep it waiting."""
        reader, writer = os.pipe()
        os.set_blocking(writer, False)
        signal.set_wakeup_fd(writer, warn_on_full_buffer=False)
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, lambda *_: None)
        threading.Thread(target=self._listen, args=(reader,), name="signals", daemon=True).start()

    def _listen(self, reader: int) -> None:
        os.read(reader, 1)
        self._leave()


def ready() -> Ready:
    """Who speaks; without importing MLX, which would take a while."""
    device = f"{processor()}, Metal" if sys.platform == "darwin" else f"{processor()}, CPU"
    return Ready(version=VERSION, redline=_version("redline"), mlx=_version("mlx"), device=device)


def _version(package: str) -> str:
    try:
        return version(package)
    except PackageNotFoundError:
        return "unknown"


def _parser() -> argparse.ArgumentParser:
    parser = Parser(prog="python -m app.host", description="The engine, spoken to in JSON lines (app/protocol).")
    add = parser.add_argument
    add("--finish", action="store_true", help="at the end of input, finish the requests that wait before leaving")
    add("--record", type=Path, metavar="FILE", help="write a copy of every answer, to be replayed")
    add("--replay", type=Path, metavar="FILE", help="answer from a recording, with no model")
    add("--speed", type=float, default=1.0, metavar="X", help="of a replay: times as fast, 0 is at once (default: 1)")
    return parser


def _worker(args: argparse.Namespace) -> Worker:
    """Raises UsageError."""
    if args.replay is None:
        from app.host.model_worker import ModelWorker

        return ModelWorker()
    from app.host.recording_player import Replay

    return Replay.read(args.replay, args.speed)


def _record(path: Path | None) -> BinaryIO | None:
    """A file to record to. Raises UsageError."""
    try:
        return None if path is None else path.open("wb")
    except OSError as error:
        raise UsageError(f"{path} cannot be written ({error.strerror}): record to another file") from error
