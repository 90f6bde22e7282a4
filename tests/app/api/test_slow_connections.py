"""Connections that send nothing, or too slowly, are closed by time; those that ask are not."""

import asyncio
from collections.abc import Awaitable, Callable

import pytest
from starlette.types import Receive, Scope, Send

from app.api.loopback_server import HEAD_TIME_S, IDLE_TIME_S, LoopbackServer, open_socket
from tests.app.api.stepped_loop import advance, run

GET = b"GET / HTTP/1.1\r\nHost: a\r\n"
Streams = tuple[asyncio.StreamReader, asyncio.StreamWriter]


async def hello(scope: Scope, receive: Receive, send: Send) -> None:
    """Answers after longer than a head may take."""
    await asyncio.sleep(2 * HEAD_TIME_S)
    await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"2")]})
    await send({"type": "http.response.body", "body": b"hi"})


def assert_closed_after(seconds: float, scenario: Callable[[Streams], Awaitable[None]]) -> None:
    """Runs a scenario on a connection to a server, which is to close it so long after and not before."""

    async def connect() -> None:
        with open_socket(0) as listener:
            listener.listen()
            server = LoopbackServer(hello)
            serving = asyncio.create_task(server.serve([listener]))
            reader, writer = await asyncio.open_connection(*listener.getsockname())
            await advance(0.0)
            await scenario((reader, writer))
            await advance(seconds - 0.1)
            assert not reader.at_eof()
            await advance(0.2)
            assert await reader.read() == b""
            writer.close()
            server.should_exit = True
            while not serving.done():
                await advance(0.1)

    run(connect())


async def send_nothing(_: Streams) -> None:
    pass


async def send_drops(streams: Streams) -> None:
    """A byte of the head now and then, which is never complete."""
    for byte in GET[:4]:
        streams[1].write(bytes([byte]))
        await advance(HEAD_TIME_S / 5)


async def ask(streams: Streams) -> None:
    """A whole request, with its answer."""
    streams[1].write(GET + b"\r\n")
    await advance(HEAD_TIME_S)
    await advance(HEAD_TIME_S)
    assert (await streams[0].readuntil(b"hi")).startswith(b"HTTP/1.1 200")


async def ask_and_begin_again(streams: Streams) -> None:
    await ask(streams)
    streams[1].write(GET)


@pytest.mark.parametrize(("scenario", "left_s"), [(send_nothing, HEAD_TIME_S), (send_drops, HEAD_TIME_S / 5)])
def test_a_head_that_does_not_come_whole_in_time_closes_its_connection(
    scenario: Callable[[Streams], Awaitable[None]], left_s: float
) -> None:
    assert_closed_after(left_s, scenario)


def test_a_reply_may_take_longer_and_the_next_head_has_its_own_time() -> None:
    assert_closed_after(HEAD_TIME_S, ask_and_begin_again)


def test_a_connection_without_another_request_is_closed() -> None:
    assert_closed_after(IDLE_TIME_S, ask)
