"""uvicorn on loopback, with a bound on the time that a request's head may take."""

import asyncio
import socket

import h11
import uvicorn
from starlette.types import ASGIApp
from uvicorn.protocols.http.h11_impl import H11Protocol

from app.api.key_file import ADDRESS
from engine.errors import UsageError

MOST_CONNECTIONS = 256
HEAD_BYTES = 32 * 1024  # of a request's line and headers
HEAD_TIME_S = 10.0  # in which they must have arrived, from the connection or from their first byte
IDLE_TIME_S = 75  # between two requests of a connection; a program may run a tool meanwhile


def open_socket(port: int) -> socket.socket:
    """Returns a socket that listens on loopback; port 0 takes a free one. Raises UsageError where that is
    impossible."""
    listener = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listener.bind((ADDRESS, port))
        listener.listen()
    except (OSError, OverflowError) as error:
        listener.close()
        why = error.strerror if isinstance(error, OSError) else "it is not from 0 to 65535"
        raise UsageError(f"port {port} cannot be used ({why}): choose another port") from error
    return listener


class LoopbackServer(uvicorn.Server):
    """Serves an application on a socket of loopback until `should_exit` is set.

    head_time_s: in which the head of a request must have arrived.
    """

    def __init__(self, app: ASGIApp, head_time_s: float = HEAD_TIME_S) -> None:
        bounded = type("BoundedHeads", (BoundedHeads,), {"head_time_s": head_time_s})
        super().__init__(
            uvicorn.Config(
                app,
                http=bounded,
                ws="none",
                lifespan="off",
                log_config=None,
                access_log=False,
                server_header=False,
                date_header=False,
                proxy_headers=False,
                limit_concurrency=MOST_CONNECTIONS,
                h11_max_incomplete_event_size=HEAD_BYTES,
                timeout_keep_alive=IDLE_TIME_S,
                timeout_graceful_shutdown=2,
            )
        )


class BoundedHeads(H11Protocol):
    """uvicorn's HTTP, which bounds the time between a reply and the next byte only: here a connection that has sent
    nothing is closed too, and one whose head comes too slowly."""

    head_time_s = HEAD_TIME_S
    _head_timer: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._head_timer = self.loop.call_later(self.head_time_s, self.timeout_keep_alive_handler)

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        if self.conn.their_state is not h11.IDLE:  # the head is complete
            self._end_timer()
        elif self._head_timer is None:
            self._head_timer = self.loop.call_later(self.head_time_s, self.timeout_keep_alive_handler)

    def connection_lost(self, exc: Exception | None) -> None:
        self._end_timer()
        super().connection_lost(exc)

    def _end_timer(self) -> None:
        if self._head_timer is not None:
            self._head_timer.cancel()
            self._head_timer = None
