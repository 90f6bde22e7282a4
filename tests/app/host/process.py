"""The host as a process: lines in, answers out, every wait with a deadline."""

from __future__ import annotations

import io
import subprocess
import sys
import threading
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from queue import Empty, Queue
from types import TracebackType
from typing import TypeVar

from app.protocol import AnyAnswer, AnyRequest, Message, Pair, Quit, Ready, decode_answer, encode_line
from tests.waiting import HANG_S

ROOT = Path(__file__).parents[3]
RECORDED = Path(__file__).with_name("recorded.jsonl")
_HOST = "import sys; from app.host import __main__, engine_loop; engine_loop.GRACE_S = {}; sys.exit(__main__.main())"

T = TypeVar("T")


class HostProcess:
    """`python -m app.host` with arguments. Whatever it writes must be answers: a line that is none fails the test.
    grace_s: that it has for leaving."""

    def __init__(self, *arguments: str | Path, grace_s: float = HANG_S) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-c", _HOST.format(grace_s), *map(str, arguments)],
            cwd=ROOT,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            bufsize=0,
        )
        self.errors = bytearray()
        self.reading = threading.Event()  # cleared: answers pile up in the pipe
        self.reading.set()
        self._lines: Queue[bytes | None] = Queue()
        self._threads = [threading.Thread(target=run, daemon=True) for run in (self._read, self._listen)]
        for thread in self._threads:
            thread.start()

    def __enter__(self) -> HostProcess:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.process.kill()
        self.process.wait()
        self.reading.set()
        for thread in self._threads:
            thread.join(HANG_S)
        for stream in (self.process.stdin, self.process.stdout, self.process.stderr):
            if stream is not None:
                stream.close()

    def send(self, *requests: AnyRequest) -> None:
        self.send_bytes(b"".join(encode_line(request) for request in requests))

    def send_bytes(self, data: bytes) -> None:
        assert self.process.stdin is not None
        left = memoryview(data)
        while left:
            left = left[self.process.stdin.write(left) :]

    def close_input(self) -> None:
        assert self.process.stdin is not None
        self.process.stdin.close()

    def next(self, deadline_s: float = HANG_S) -> AnyAnswer | None:
        """The next answer; None at the end of output."""
        try:
            line = self._lines.get(timeout=deadline_s)
        except Empty:
            raise AssertionError(f"no answer in {deadline_s} s; it said: {self.said()}") from None
        return None if line is None else decode_answer(line)

    def until(self, *kinds: type[AnyAnswer]) -> list[AnyAnswer]:
        """Every answer up to the first of these kinds."""
        answers: list[AnyAnswer] = []
        while not answers or not isinstance(answers[-1], kinds):
            answer = self.next()
            assert answer is not None, f"the host left before {kinds}, having said {answers[-3:]}; {self.said()}"
            answers.append(answer)
        return answers

    def ready(self) -> HostProcess:
        assert isinstance(self.next(), Ready)
        return self

    def quit(self) -> int:
        """Ask it to leave; returns its exit code once it has."""
        self.send(Quit(id=0))
        return self.wait()

    def wait(self) -> int:
        return self.process.wait(HANG_S)

    def rest(self) -> list[AnyAnswer]:
        """Every answer to the end of output."""
        answers: list[AnyAnswer] = []
        while (answer := self.next()) is not None:
            answers.append(answer)
        return answers

    def said(self) -> str:
        """What it wrote to standard error so far; all of it once it has left."""
        if self.process.poll() is not None:
            self._threads[1].join(HANG_S)
        return self.errors.decode(errors="replace")

    def _read(self) -> None:
        assert self.process.stdout is not None
        with suppress(OSError, ValueError):  # a test may close it
            stream = io.BufferedReader(self.process.stdout)  # type: ignore[arg-type]  # it is a raw stream
            while self.reading.wait() and (line := stream.readline()):
                self._lines.put(line.rstrip(b"\n"))
        self._lines.put(None)

    def _listen(self) -> None:
        assert self.process.stderr is not None
        while chunk := self.process.stderr.read(1 << 12):
            self.errors += chunk


def asked(*texts: str) -> tuple[Message, ...]:
    """Questions and replies by turns, the first a question."""
    return tuple(Message(role="assistant" if i % 2 else "user", content=text) for i, text in enumerate(texts))


def pair(target: Path, drafter: str | Path = "none", **more: object) -> Pair:
    return Pair(target=str(target), drafter=str(drafter), **more)  # type: ignore[arg-type]


def of_kind(answers: Iterable[object], kind: type[T]) -> list[T]:
    return [answer for answer in answers if isinstance(answer, kind)]
