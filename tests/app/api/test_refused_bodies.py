"""A client that is refused before it has sent its body reads the refusal, not a reset of its connection."""

import asyncio

from starlette.responses import PlainTextResponse

from app.api.access import DISCARD_TIME_S, Access, AccessRules
from app.api.loopback_server import LoopbackServer, open_socket
from tests.app.api.stepped_loop import advance, run

KEY = "a-key-of-the-tests"
BODY = b"x" * 100_000


async def refuse(sent_after_the_answer: bytes, wait_s: float) -> tuple[bytes, bytes]:
    """Sends a head with another key and, once its answer is there, a part of its body. Returns the answer and what
    follows it `wait_s` later. Asserts that the server has not closed before: the system answers what comes later with
    a reset."""
    with open_socket(0) as listener:
        listener.listen()
        port = listener.getsockname()[1]
        server = LoopbackServer(Access(PlainTextResponse("hello"), AccessRules(KEY, port), []))
        serving = asyncio.create_task(server.serve([listener]))
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        head = f"POST /v1/messages HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\nAuthorization: Bearer other\r\n"
        writer.write(f"{head}Content-Length: {len(BODY)}\r\n\r\n".encode())
        answer = await reader.readuntil(b"}}")
        await advance(0.0)  # in which a server that does not wait closes
        assert not reader.at_eof()
        writer.write(sent_after_the_answer)
        await advance(wait_s)
        rest = await reader.read()
        writer.close()
        server.should_exit = True
        while not serving.done():
            await advance(0.1)
        return answer, rest


def test_a_body_that_comes_after_the_refusal_is_received():
    answer, rest = run(refuse(BODY, wait_s=0.0))
    assert answer.startswith(b"HTTP/1.1 401") and b"connection: close" in answer and rest == b""


def test_one_that_does_not_end_is_not_waited_for_long():
    answer, rest = run(refuse(BODY[:-1], wait_s=DISCARD_TIME_S))
    assert answer.startswith(b"HTTP/1.1 401") and rest == b""
