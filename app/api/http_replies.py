"""Replies over HTTP: JSON once they are whole, or server-sent events; either ends the work when the client has gone."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Coroutine
from contextlib import aclosing
from typing import Any, TypeVar

import msgspec
from starlette.requests import Request
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from app.api.api_errors import ApiError

SLOW_S = 60.0  # in which a client must take an event
T = TypeVar("T")
Event = tuple[str, Any]  # its name, "" for none, and what is sent as JSON, or a text as it is


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


def json_response(value: Any, status: int = 200) -> Response:
    return Response(msgspec.json.encode(value), status, media_type="application/json")


class EventStream(Response):
    """Server-sent events. The first is awaited before the head is sent, so that a request that fails at once fails
    with its status; a later error is the last event. anthropic: whose shape errors have."""

    media_type = "text/event-stream"

    def __init__(self, events: AsyncGenerator[Event], anthropic: bool = False) -> None:
        super().__init__()
        self._events, self._anthropic = events, anthropic
        del self.headers["content-length"]
        self.headers["cache-control"] = "no-store"
        self._first: Event | None = None

    async def begin(self, request: Request) -> EventStream:
        """Awaits the first event; returns the same. Raises ApiError."""
        self._first = await until_gone(request.receive, anext(self._events))
        return self

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            await until_gone(receive, self._send_all(send))
        except ApiError:  # nobody is there to be told
            return

    async def _send_all(self, send: Send) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": self.raw_headers})
        try:
            async with aclosing(self._events):
                if self._first is not None:
                    await _send(send, self._first)
                async for event in self._events:
                    await _send(send, event)
        except ApiError as error:
            await _send(send, ("error" if self._anthropic else "", error.body(self._anthropic)))
        except TimeoutError:
            raise ApiError(408, "too_slow", "the client stopped reading the reply") from None
        await send({"type": "http.response.body", "body": b"", "more_body": False})


async def _send(send: Send, event: Event) -> None:
    name, value = event
    data = value.encode() if isinstance(value, str) else msgspec.json.encode(value)
    head = f"event: {name}\n".encode() if name else b""
    async with asyncio.timeout(SLOW_S):
        await send({"type": "http.response.body", "body": head + b"data: " + data + b"\n\n", "more_body": True})
