"""Talks to the process that `models.tokenizer_worker` describes, and kills it if it takes too long or too much memory.

One worker serves all tokenizers of a process. It is started by the first one that is read, and again after it was
killed; while it imports transformers, its parent loads weights. Its memory is what the system reports, as macOS does
not enforce a limit that a process sets for itself.
"""

from __future__ import annotations

import atexit
import math
import os
import select
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache

import msgspec
import psutil

from engine.errors import RedlineError, StoppedError
from models.tokenizer_worker import Answer, Ready, Request

START_S = 120.0  # to import transformers, on a machine that is busy; it takes one or two
WAITED = 10  # a request may take this many times as long by the clock as on a processor
STOP_S = 0.15  # to finish after a stop, before it is killed
MOST_BYTES = 1 << 30  # of memory that a request may add to what the worker has already
MOST_ANSWER_BYTES = 1 << 28
_POLL_S = 0.01


class WorkerLostError(RedlineError):
    """The worker was killed or has ended: the message says why, as what "it" did."""


@dataclass(frozen=True)
class Limits:
    """What the worker may use: until when by the clock, how many seconds on a processor, and bytes of memory, all
    since it was started."""

    until_s: float
    cpu_s: float = math.inf
    memory_bytes: float = math.inf

    @classmethod
    def now(cls, process: subprocess.Popen[bytes], limit_s: float) -> Limits:
        """Returns the limits of a request that is sent now and takes `limit_s` on a processor."""
        cpu_s, memory_bytes = _used(process)
        return cls(time.monotonic() + WAITED * limit_s, cpu_s + limit_s, memory_bytes + MOST_BYTES)

    def broken(self, process: subprocess.Popen[bytes], answer_bytes: int) -> str:
        """Returns which limit the worker has gone beyond, "" if none."""
        cpu_s, memory_bytes = _used(process)
        if memory_bytes > self.memory_bytes:
            return f"it took more than {MOST_BYTES / 1e9:.1f} GB of memory"
        if cpu_s > self.cpu_s or time.monotonic() > self.until_s:
            return "it took too long"
        return "its result was too large" if answer_bytes > MOST_ANSWER_BYTES else ""


class TokenizerProcess:
    """The worker, and how it is asked. Used by one thread at a time; others wait. module: what runs in it."""

    def __init__(self, module: str = "models.tokenizer_worker") -> None:
        self._module = module
        self._lock = threading.RLock()
        self._process: subprocess.Popen[bytes] | None = None
        self._ready = False
        self._unread = b""
        self._decoder = msgspec.json.Decoder(Answer)

    def start(self) -> None:
        """Starts the worker unless it runs; does not wait for it."""
        if self._process is not None and self._process.poll() is None:
            return
        self.end()
        self._process = subprocess.Popen(
            # Without -P a folder that the user happens to be in could stand in for our modules.
            [sys.executable, "-P", "-m", self._module],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
        )

    def end(self) -> None:
        """Kills the worker, if there is one."""
        process, self._process, self._ready, self._unread = self._process, None, False, b""
        if process is not None:
            process.kill()
            process.wait()
            for stream in (process.stdin, process.stdout):
                if stream is not None:
                    stream.close()

    def ask(
        self, request: Request, limit_s: float, cancelled: Callable[[], bool], more: Callable[[Answer], float | None]
    ) -> Answer:
        """Sends a request and returns its last answer. limit_s: for the first one, in seconds on a processor, as a busy
        machine is nobody's fault. more: such seconds for the next answer after one that is not the last, else None.

        Raises WorkerLostError, or StoppedError once it was cancelled.
        """
        with self._lock:
            try:
                return self._ask(request, limit_s, cancelled, more)
            except (WorkerLostError, StoppedError):  # there is another worker by now
                raise
            except BaseException:  # Ctrl-C too: the next request must not get the answer to this one
                self._kill()
                raise

    def _ask(
        self, request: Request, limit_s: float, cancelled: Callable[[], bool], more: Callable[[Answer], float | None]
    ) -> Answer:
        process = self._started(cancelled)
        try:
            assert process.stdin is not None
            process.stdin.write(msgspec.json.encode(request) + b"\n")
            process.stdin.flush()
        except OSError:
            raise self._lost(process) from None
        left_s: float | None = limit_s
        while left_s is not None:
            answer = self._next(process, Limits.now(process, left_s), cancelled)
            left_s = more(answer)
        return answer

    def _started(self, cancelled: Callable[[], bool]) -> subprocess.Popen[bytes]:
        try:
            self.start()
        except OSError as error:
            raise WorkerLostError(f"it cannot be started ({error.strerror})") from error
        process = self._process
        assert process is not None
        if not self._ready:
            self._ready = isinstance(self._next(process, Limits(time.monotonic() + START_S), cancelled), Ready)
        return process

    def _next(self, process: subprocess.Popen[bytes], limits: Limits, cancelled: Callable[[], bool]) -> Answer:
        """Returns the next answer, and kills the worker where it does not come within the limits."""
        assert process.stdout is not None
        stop_s, parts = math.inf, [self._unread]
        while b"\n" not in parts[-1]:
            if select.select([process.stdout], [], [], _POLL_S)[0]:
                parts.append(os.read(process.stdout.fileno(), 1 << 16))
                if not parts[-1]:
                    raise self._lost(process)
                if b"\n" in parts[-1]:
                    break
            if reason := limits.broken(process, sum(map(len, parts))):
                self._kill()
                raise WorkerLostError(reason)
            stop_s = min(stop_s, time.monotonic() + STOP_S) if cancelled() else stop_s
            if time.monotonic() > stop_s:
                self._kill()
                raise StoppedError("stopped while the prompt was being made")
        line, _, self._unread = b"".join(parts).partition(b"\n")
        try:
            answer: Answer = self._decoder.decode(line)
        except msgspec.MsgspecError as error:  # what it read was of another type than what it knows how to answer
            self._kill()
            raise WorkerLostError("it gave an answer of an unknown form") from error
        return answer

    def _kill(self) -> None:
        """Kills the worker and starts another, which imports its libraries while nobody waits for them."""
        self.end()
        self.start()

    def _lost(self, process: subprocess.Popen[bytes]) -> WorkerLostError:
        """Returns why a worker has ended by itself."""
        code = process.wait()
        self._kill()
        name = signal.Signals(-code).name if code < 0 else f"exit code {code}"
        return WorkerLostError(f"it ended the process that ran it ({name})")


def _used(process: subprocess.Popen[bytes]) -> tuple[float, int]:
    """Returns the worker's seconds on a processor and its bytes of memory; zeros where the system does not say."""
    try:
        found = psutil.Process(process.pid)
        times = found.cpu_times()
        return times.user + times.system, int(found.memory_info().rss)
    except psutil.Error:
        return 0.0, 0


@cache
def shared() -> TokenizerProcess:
    """Returns this process's own worker."""
    process = TokenizerProcess()
    atexit.register(process.end)
    return process
