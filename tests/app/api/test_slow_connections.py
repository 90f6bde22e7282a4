"""Connections that send nothing, or too slowly, are closed by time; those that ask are not."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable

import pytest
from starlette.types import Receive, Scope, Send

from app.api.loopback_server import IDLE_TIME_S, LoopbackServer, open_socket

HEAD_TIME_S = 0.4
GET = b"GET / HTTP/1.1\r\nHost: a\r\n"
Streams = tuple[asyncio.StreamReader, asyncio.StreamWriter]


async def hello(scope: Scope, receive: Receive, send: Send) -> None:
    """Answers after longer than a head may take."""
    await asyncio.sleep(2 * HEAD_TIME_S)
    await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"2")]})
    await send({"type": "http.response.body", "body": b"hi"})


def with_connection(scenario: Callable[[Streams], Awaitable[None]]) -> float:
    """Runs a scenario on a connection to a server; returns after how many seconds the server closed it."""

    async def run() -> float:
        with open_socket(0) as listener:
            listener.listen()
            server = LoopbackServer(hello, HEAD_TIME_S)
            serving = asyncio.create_task(server.serve([listener]))
            reader, writer = await asyncio.open_connection(*listener.getsockname())
            began_s = time.monotonic()
            await scenario((reader, writer))
            async with asyncio.timeout(IDLE_TIME_S + 3):
                assert await reader.read() == b""
            spent_s = time.monotonic() - began_s
            writer.close()
            server.should_exit = True
            await serving
            return spent_s

    return asyncio.run(run())


async def send_nothing(_: Streams) -> None:
    pass


async def send_drops(streams: Streams) -> None:
    """A byte of the head now and then, which is never complete."""
    for byte in GET[:4]:
        streams[1].write(bytes([byte]))
        await asyncio.sleep(HEAD_TIME_S / 5)


async def ask(streams: Streams) -> None:
    """A whole request, with its answer."""
    streams[1].write(GET + b"\r\n")
    assert (await streams[0].readuntil(b"hi")).startswith(b"HTTP/1.1 200")


async def ask_and_begin_again(streams: Streams) -> None:
    await ask(streams)
    streams[1].write(GET)


@pytest.mark.slow_for("send_drops")
@pytest.mark.parametrize("scenario", [send_nothing, send_drops])
def test_a_head_that_does_not_come_whole_in_time_closes_its_connection(
    scenario: Callable[[Streams], Awaitable[None]],
) -> None:
    assert HEAD_TIME_S * 0.9 < with_connection(scenario) < IDLE_TIME_S / 2


@pytest.mark.slow
def test_a_reply_may_take_longer_and_the_next_head_has_its_own_time() -> None:
    assert 3 * HEAD_TIME_S * 0.9 < with_connection(ask_and_begin_again) < IDLE_TIME_S / 2


@pytest.mark.slow
def test_a_connection_without_another_request_is_closed() -> None:
    assert IDLE_TIME_S * 0.9 < with_connection(ask) < IDLE_TIME_S + 3
