"""A client of the host's line protocol over a pair of asyncio streams.

Invariants: every request has an id of its own; its answers arrive in its own queue, in order, until the one that ends
it. Whoever stops reading them before that has the request stopped.

A host that is silent for too long is stuck: every request that is open fails. Whoever started the host replaces it, and
requests wait until the next one has been told what to load. A load that is silent may still succeed, and is waited for.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable
from functools import partial

from msgspec import structs

from app import protocol
from app.api.api_errors import ApiError, engine_unavailable, host_gone
from app.protocol.silence import LATE_S, STUCK, PendingRequests, SilenceLimits

MOST_WAITING = 64  # requests that are being answered or wait for their turn
RESTARTING = f"{STUCK}: it is being restarted; try again"
LOADING = "the engine is loading the models: requests wait for it"
SLOW_LOAD = f"{STUCK} while it loads the models: try again later, or restart `redline serve`"

Request = protocol.Reply | protocol.Count | protocol.Load


class HostClient:
    """Sends requests to a host and hands each its answers. `run` must be running meanwhile.

    A host whose models others choose says so with a Loaded that answers no request.
    """

    def __init__(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, limits: SilenceLimits | None = None
    ) -> None:
        """reader: whose limit is at least protocol.LONGEST_LINE. limits: None where others see to it that the host
        answers."""
        self._reader, self._writer, self._limits = reader, writer, limits
        self._queues: dict[int, asyncio.Queue[protocol.AnyAnswer | ApiError]] = {}
        self._last_id = 0
        self._pending = PendingRequests()
        self._timer: asyncio.TimerHandle | None = None
        self._takes_requests = asyncio.Event()  # cleared from when a host is stuck until the next is told what to load
        self._takes_requests.set()
        self._slow = False  # a load has been silent for too long, and has not gone on since
        self.loaded: protocol.Loaded | None = None  # as the host said last
        self.has_loaded = asyncio.Event()
        self.silent = asyncio.Event()  # the host has been silent for too long; cleared by whoever waits for it
        self.ended = asyncio.Event()

    @property
    def waiting(self) -> int:
        """How many requests are being answered or wait."""
        return len(self._queues)

    @property
    def stuck(self) -> bool:
        """Whether the host is stuck, and has to be replaced."""
        return not self._takes_requests.is_set()

    def check_health(self) -> None:
        """Raises ApiError 503 where the host has ended or, if this client watches it, is being replaced or loads its
        models."""
        if self.ended.is_set():
            raise host_gone()
        if self.stuck:
            raise engine_unavailable(RESTARTING)
        if self._pending.loading:
            raise engine_unavailable(SLOW_LOAD if self._slow else LOADING)

    def connect(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Continues with another host in place of one that is stuck. `run` must be called again, and a Load comes
        before anything else."""
        self._reader, self._writer = reader, writer

    async def run(self) -> None:
        """Reads answers until the host ends; then every request that is open fails, unless it is being replaced."""
        reader = self._reader
        try:
            while line := await reader.readline():
                self._deliver(protocol.decode_answer(line.removesuffix(b"\n")))
        except (ConnectionError, ValueError):  # ValueError: a line that is too long, or not of the protocol
            pass
        finally:
            if not self.stuck:
                self.end()

    def end(self) -> None:
        """There will be no other host: fails every request."""
        self.ended.set()
        self._takes_requests.set()
        self._fail_open(host_gone)
        self._pending.clear()
        self._watch()

    async def request(self, request: Request) -> AsyncGenerator[protocol.AnyAnswer]:
        """Yields the answers, the last of which ends the request. Its id is replaced. Closing the iterator early stops
        it. Raises ApiError: 429 when too many requests wait, 413 for one that is too long, 503 when the host ends or is
        stuck."""
        self._check(request)
        self._last_id += 1
        number = self._last_id
        numbered = structs.replace(request, id=number)
        line = protocol.encode_line(numbered)
        if len(line) > protocol.LONGEST_LINE:
            raise ApiError(413, "request_too_large", f"the request has more than {protocol.LONGEST_LINE} bytes")
        queue = self._queues[number] = asyncio.Queue[protocol.AnyAnswer | ApiError]()
        over = False
        try:
            if isinstance(request, protocol.Load):
                self._takes_requests.set()
            await self._takes_requests.wait()
            if not self.ended.is_set():
                self._send(numbered, line)
            while not over:
                answer = await queue.get()
                if isinstance(answer, ApiError):
                    raise answer
                over = isinstance(answer, protocol.LastAnswer)
                yield answer
        finally:
            del self._queues[number]
            if not over and not self.ended.is_set() and not self.stuck:
                self._writer.write(protocol.encode_line(protocol.Stop(id=number)))

    def _check(self, request: Request) -> None:
        if self.ended.is_set():
            raise host_gone()
        if self._slow:
            raise engine_unavailable(SLOW_LOAD)
        if self.waiting >= MOST_WAITING and not isinstance(request, protocol.Load):
            raise ApiError(429, "too_many_requests", f"{self.waiting} requests are waiting: try again in a few seconds")

    def _send(self, request: Request, line: bytes) -> None:
        """Writes without waiting until the host has read: one that is stuck never does."""
        self._writer.write(line)
        if self._limits is not None and self._pending.add(request):
            self._watch()

    def _deliver(self, answer: protocol.AnyAnswer) -> None:
        if isinstance(answer, protocol.Loaded):
            self.loaded = answer
            self.has_loaded.set()
        if isinstance(answer, protocol.RequestAnswer):
            queue = self._queues.get(answer.id)
            if queue is not None and not isinstance(answer, protocol.Working):
                queue.put_nowait(answer)
        if self._pending.hear(answer):
            self._watch()

    # --- silence -------------------------------------------------------------------------------

    def _watch(self) -> None:
        """The host goes on: it has as long as it may for its next answer."""
        self._slow = False
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        allowed_s = None if self._limits is None else self._pending.allowed_s(self._limits)
        if allowed_s is not None:
            loop = asyncio.get_running_loop()
            due_s = loop.time() + allowed_s
            self._timer = loop.call_at(due_s, self._handle_silence, due_s)

    def _handle_silence(self, due_s: float) -> None:
        if asyncio.get_running_loop().time() - due_s > LATE_S:
            self._watch()
            return
        if self._pending.loading:
            self._slow = True
            self._fail_open(partial(engine_unavailable, SLOW_LOAD))
        else:
            self._takes_requests.clear()
            self._fail_open(partial(engine_unavailable, RESTARTING))
            self._pending.clear()
        self.silent.set()

    def _fail_open(self, error: Callable[[], ApiError]) -> None:
        """Fails every request that is open, but a load that the host may still carry out."""
        for number, queue in self._queues.items():
            if self.ended.is_set() or not self._pending.is_load(number):
                queue.put_nowait(error())
