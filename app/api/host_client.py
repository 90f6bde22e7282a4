"""A client of the host's line protocol over a pair of asyncio streams.

Invariants: every request has an id of its own; its answers arrive in its own queue, in order, until the one that ends
it. Whoever stops reading them before that has the request stopped.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator

from msgspec import structs

from app import protocol
from app.api.api_errors import ApiError, host_gone

MOST_WAITING = 64  # requests that are being answered or wait for their turn

Request = protocol.Reply | protocol.Count | protocol.Load
_LAST = (protocol.Loaded, protocol.ReplyDone, protocol.Counted, protocol.Failed, protocol.Unloaded)


class HostClient:
    """Sends requests to a host and hands each its answers. `run` must be running meanwhile.

    A host whose models others choose says so with a Loaded that answers no request.
    """

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """reader: whose limit is at least protocol.LONGEST_LINE."""
        self._reader, self._writer = reader, writer
        self._queues: dict[int, asyncio.Queue[protocol.AnyAnswer | None]] = {}
        self._last_id = 0
        self.loaded: protocol.Loaded | None = None  # as the host said last
        self.has_loaded = asyncio.Event()
        self.ended = asyncio.Event()

    @property
    def waiting(self) -> int:
        """How many requests are being answered or wait."""
        return len(self._queues)

    async def run(self) -> None:
        """Reads answers until the host ends; then every request that is open fails."""
        try:
            while line := await self._reader.readline():
                self._deliver(protocol.decode_answer(line.removesuffix(b"\n")))
        except (ConnectionError, ValueError):  # ValueError: a line that is too long, or not of the protocol
            pass
        finally:
            self.ended.set()
            for queue in self._queues.values():
                queue.put_nowait(None)

    async def request(self, request: Request) -> AsyncGenerator[protocol.AnyAnswer]:
        """Yields the answers, the last of which ends the request. Its id is replaced. Closing the iterator early stops
        it. Raises ApiError: 429 when too many requests wait, 413 for one that is too long, 503 when the host ends."""
        if self.ended.is_set():
            raise host_gone()
        if self.waiting >= MOST_WAITING:
            raise ApiError(429, "too_many_requests", f"{self.waiting} requests are waiting: try again in a few seconds")
        self._last_id += 1
        number, queue = self._last_id, asyncio.Queue[protocol.AnyAnswer | None]()
        line = protocol.encode_line(structs.replace(request, id=number))
        if len(line) > protocol.LONGEST_LINE:
            raise ApiError(413, "request_too_large", f"the request has more than {protocol.LONGEST_LINE} bytes")
        self._queues[number] = queue
        over = False
        try:
            await self._write(line)
            while not over:
                answer = await queue.get()
                if answer is None:
                    over = True
                    raise host_gone()
                over = isinstance(answer, _LAST)
                yield answer
        finally:
            del self._queues[number]
            if not over and not self.ended.is_set():
                self._writer.write(protocol.encode_line(protocol.Stop(id=number)))

    async def _write(self, line: bytes) -> None:
        try:
            self._writer.write(line)
            await self._writer.drain()
        except ConnectionError as error:
            raise host_gone() from error

    def _deliver(self, answer: protocol.AnyAnswer) -> None:
        if isinstance(answer, protocol.Loaded):
            self.loaded = answer
            self.has_loaded.set()
        if isinstance(answer, protocol.RequestAnswer) and (queue := self._queues.get(answer.id)) is not None:
            queue.put_nowait(answer)
