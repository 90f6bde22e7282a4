"""Replies over HTTP: JSON once they are whole, or server-sent events; either ends the work when the client has gone.

A stream gives signs of life: its head is sent with the first event or after FIRST_S, until when the request may still
be refused with a status of its own, and then something at least every PING_S.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable, Coroutine, Mapping
from typing import Any, TypeVar

import msgspec
from starlette.requests import Request
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from app.api.api_errors import ApiError

SLOW_S = 60.0  # in which a client must take an event
FIRST_S = 0.3  # in which a request that is refused at once is known to be refused
PING_S = 5.0
T = TypeVar("T")
# Its name, "" for none and COMMENT for what no client reads, and what is sent as JSON, or a text as it is.
Event = tuple[str, Any]
COMMENT = ":"


async def until_gone(receive: Receive, work: Coroutine[Any, Any, T]) -> T:
    """Returns what `work` does, which is cancelled when the client goes before that. Raises ApiError then."""
    task = asyncio.ensure_future(work)
    gone = asyncio.ensure_future(_disconnect(receive))
    try:
        await asyncio.wait((task, gone), return_when=asyncio.FIRST_COMPLETED)
        if not task.done():
            raise ApiError(499, "disconnected", "the client has gone")
        return task.result()
    finally:
        for one in (task, gone):
            one.cancel()
        await asyncio.gather(task, gone, return_exceptions=True)


async def _disconnect(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass


def json_response(value: Any, status: int = 200, headers: Mapping[str, str] | None = None) -> Response:
    return Response(msgspec.json.encode(value), status, headers, media_type="application/json")


class EventStream(Response):
    """Server-sent events. The first is awaited for FIRST_S before the head is sent, so that a request that fails at
    once fails with its status; a later error is the last event.

    failed: returns the event for an error. ping: the sign of life between events. headers: besides the usual ones.
    """

    media_type = "text/event-stream"

    def __init__(
        self,
        events: AsyncGenerator[Event],
        failed: Callable[[ApiError], Event] = lambda error: ("", error.body()),
        ping: Event = (COMMENT, "ping"),
        headers: Mapping[str, str] | None = None,
    ) -> None:
        super().__init__()
        self._events, self._failed, self._ping = events, failed, ping
        del self.headers["content-length"]
        self.headers["cache-control"] = "no-store"
        self.headers["x-accel-buffering"] = "no"  # a proxy passes events on as they come
        self.headers.update(headers or {})
        self._next: asyncio.Task[Event] | None = None

    async def begin(self, request: Request) -> EventStream:
        """Awaits the first event for FIRST_S and returns itself. Raises ApiError."""
        try:
            await until_gone(request.receive, self._wait(FIRST_S))
        except BaseException:
            await self._end()
            raise
        return self

    async def _wait(self, seconds: float) -> bool:
        """Returns whether the next event is there within this time. Raises ApiError where it failed."""
        if self._next is None:
            self._next = asyncio.ensure_future(anext(self._events))
        done, _ = await asyncio.wait((self._next,), timeout=seconds)
        if done and not isinstance(self._next.exception(), StopAsyncIteration | None):
            self._next.result()
        return bool(done)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            await until_gone(receive, self._send_all(send))
        except ApiError:  # nobody is there to be told
            return
        finally:
            await self._end()

    async def _send_all(self, send: Send) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": self.raw_headers})
        try:
            async for event in self._all():
                await _send(send, event)
        except ApiError as error:
            await _send(send, self._failed(error))
        except TimeoutError:
            raise ApiError(408, "too_slow", "the client stopped reading the reply") from None
        await send({"type": "http.response.body", "body": b"", "more_body": False})

    async def _all(self) -> AsyncGenerator[Event]:
        """Yields the events, and signs of life where the next one takes long. Raises ApiError."""
        if not await self._wait(0):
            yield self._ping
        while True:
            while not await self._wait(PING_S):
                yield self._ping
            assert self._next is not None
            event, self._next = self._next, None
            try:
                yield event.result()
            except StopAsyncIteration:
                return

    async def _end(self) -> None:
        """Has the reply stop if it has not ended."""
        if self._next is not None:
            self._next.cancel()
            await asyncio.gather(self._next, return_exceptions=True)
        await self._events.aclose()


async def _send(send: Send, event: Event) -> None:
    name, value = event
    data = value.encode() if isinstance(value, str) else msgspec.json.encode(value)
    head = f"event: {name}\n".encode() if name not in ("", COMMENT) else b""
    text = b": " + data + b"\n\n" if name == COMMENT else head + b"data: " + data + b"\n\n"
    async with asyncio.timeout(SLOW_S):
        await send({"type": "http.response.body", "body": text, "more_body": True})
