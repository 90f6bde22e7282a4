"""A client of a server that speaks OpenAI's chat protocol. It notes when the parts of a reply arrive.

Only the prompt and the settings of its reply are sent, and only to the server that the user named: no proxy is used and
no redirection followed. A thread reads and takes the times, so that what is done with a part delays none.
"""

from __future__ import annotations

import http.client
import os
import queue
import socket
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing, suppress
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

import msgspec

from app.protocol.race_messages import Server
from engine.errors import RedlineError, StoppedError, UsageError
from engine.settings import SamplingSettings

CONNECT_S = 10.0
SILENT_S = 300.0  # a server may have to load its model first
POLL_S = 0.1  # between two looks at whether to stop
LONGEST_EVENT = 8 * 1024 * 1024  # bytes
WHAT_IS_SENT = "only prompts and sampling settings are sent to the other program, and nothing else anywhere"
TRY_AGAIN = "look at its own messages, then try again"
_READ = 1 << 16  # bytes
_EXCERPT = 200  # characters of what a server says
_KINDS: dict[str, type[http.client.HTTPConnection]] = {
    "http": http.client.HTTPConnection,
    "https": http.client.HTTPSConnection,
}


class ServerError(RedlineError):
    """A server cannot be reached, refuses, breaks off, or does not speak the protocol."""


@dataclass(frozen=True)
class Arrival:
    """The server-sent events that arrived together. time_s: since the request was sent. events: their data, as JSON.
    done: whether the end of the stream, [DONE], is among them."""

    time_s: float
    events: tuple[bytes, ...]
    done: bool = False


class ServerClient:
    """A server. name: what to call it: its model and its address. product: the program, where it says which.

    Raises UsageError for an address or a key that is none, ServerError where the server does not answer.
    """

    def __init__(self, server: Server, silent_s: float = SILENT_S) -> None:
        self._address, self._base = check_address(server)
        self._key = _key(server)
        self._silent_s = silent_s
        self.product, models = self._models()
        self.model = server.model or next(iter(models), "")
        if not self.model:
            # mlx_lm.server 0.32.2 sends an empty list where it has found no cache folder, whatever it serves
            raise ServerError(
                f"{server.url} lists no model: load one there, or name the model (default_model for mlx_lm.server)"
            )
        self.name = f"{self.model.rstrip('/').rpartition('/')[2].removesuffix('.gguf')} at {self._address[1]}"

    def chat(
        self, messages: list[dict[str, str]], settings: SamplingSettings, stop: Callable[[], bool]
    ) -> Iterator[Arrival]:
        """Yields what arrives of the reply to a conversation. Raises StoppedError soon once `stop` says so, and
        ServerError."""
        body = self._body(messages, settings)
        with closing(_Exchange(self._connection(), self._base, body, self._headers())) as exchange:
            status, kind = self._head(exchange, stop)
            if status != http.HTTPStatus.OK or "event-stream" not in kind:
                said = b"".join(data for _, data in self._parts(exchange, stop))[:_EXCERPT].decode(errors="replace")
                why = f"answers {status}" if status != http.HTTPStatus.OK else "does not stream its reply"
                raise ServerError(
                    f"the server {self.name} {why} ({' '.join(said.split())}): check its address and model"
                )
            yield from _events(self._parts(exchange, stop))

    # --- what is sent --------------------------------------------------------------------------

    def _body(self, messages: list[dict[str, str]], settings: SamplingSettings) -> bytes:
        body: dict[str, Any] = {
            "model": self.model,
            "messages": messages,
            "stream": True,
            "stream_options": {"include_usage": True},
            "max_tokens": settings.max_tokens,
            "temperature": settings.temperature,
        }
        neutral = SamplingSettings()
        names = ("seed", "top_p", "top_k", "min_p", "presence_penalty", "frequency_penalty", "repetition_penalty")
        given = {name: getattr(settings, name) for name in names}
        body |= {name: value for name, value in given.items() if value != getattr(neutral, name)}
        if settings.stop:
            body["stop"] = list(settings.stop)
        if self.product.startswith("llama.cpp"):
            body["cache_prompt"] = False  # each reply pays for its prompt, as Redline's does
        return msgspec.json.encode(body)

    def _headers(self) -> dict[str, str]:
        key = {"Authorization": f"Bearer {self._key}"} if self._key else {}
        return {"Content-Type": "application/json", "Accept": "text/event-stream", **key}

    def _connection(self) -> http.client.HTTPConnection:
        scheme, host = self._address
        connection = _KINDS[scheme](host, timeout=CONNECT_S)
        try:
            connection.connect()
        except (OSError, ValueError) as error:
            raise ServerError(
                f"{scheme}://{host} does not answer ({_reason(error)}): start the server, or check its address"
            ) from error
        assert connection.sock is not None
        connection.sock.settimeout(None)  # whoever waits for the thread looks at the time
        return connection

    def _models(self) -> tuple[str, list[str]]:
        """Returns the program, as its Server header has it, and the ids of its models; none where it does not say."""
        with closing(self._connection()) as connection:
            assert connection.sock is not None
            connection.sock.settimeout(CONNECT_S)
            try:
                connection.request("GET", f"{self._base}/models", headers=self._headers())
                with connection.getresponse() as response:
                    listed = msgspec.json.decode(response.read(LONGEST_EVENT), type=_Models)
            except (OSError, http.client.HTTPException) as error:
                raise ServerError(
                    f"the server {self._address[1]} does not answer ({_reason(error)}): check its address"
                ) from error
            except (msgspec.DecodeError, UnicodeDecodeError):
                listed = _Models()
            return response.headers.get("Server", ""), [model.id for model in listed.data]

    # --- what arrives --------------------------------------------------------------------------

    def _head(self, exchange: _Exchange, stop: Callable[[], bool]) -> tuple[int, str]:
        head = self._next(exchange, stop, time.monotonic())
        if not isinstance(head, tuple) or isinstance(head[1], bytes):
            raise ServerError(f"the server {self.name} closed the connection before it answered: {TRY_AGAIN}")
        return int(head[0]), str(head[1])

    def _parts(self, exchange: _Exchange, stop: Callable[[], bool]) -> Iterator[tuple[float, bytes]]:
        """Yields bytes and when they came. What is a comment, or nothing, does not count as an answer."""
        since_s = time.monotonic()
        while (part := self._next(exchange, stop, since_s)) is not None:
            if b"data:" in part[1]:
                since_s = time.monotonic()
            yield part

    def _next(self, exchange: _Exchange, stop: Callable[[], bool], since_s: float) -> Any:
        """Returns what the thread has next; None at the end."""
        while True:
            if stop():
                raise StoppedError("stopped before the server had answered")
            if time.monotonic() - since_s > self._silent_s:
                raise ServerError(f"the server {self.name} has been silent for {self._silent_s:g} s: {TRY_AGAIN}")
            with suppress(queue.Empty):
                part = exchange.parts.get(timeout=POLL_S)
                if isinstance(part, Exception):
                    raise ServerError(
                        f"the server {self.name} broke off its reply ({_reason(part)}): {TRY_AGAIN}"
                    ) from part
                return part


class _Model(msgspec.Struct):
    id: str = ""


class _Models(msgspec.Struct):
    data: list[_Model] = msgspec.field(default_factory=list)


class _Exchange:
    """One request and its answer, which a thread reads. parts: (status, content type), then (seconds, bytes) ..., then
    None, or the error that ended it."""

    def __init__(
        self, connection: http.client.HTTPConnection, base: str, body: bytes, headers: Mapping[str, str]
    ) -> None:
        assert connection.sock is not None
        self._connection, self._socket = connection, connection.sock  # the connection lets go of it before the end
        self.parts: queue.SimpleQueue[Any] = queue.SimpleQueue()
        arguments = (f"{base}/chat/completions", body, dict(headers))
        self._thread = threading.Thread(target=self._read, args=arguments, daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Ends the exchange, wherever it is: the server sees that nobody listens."""
        with suppress(OSError):
            self._socket.shutdown(socket.SHUT_RDWR)  # wakes the thread
        self._thread.join()
        self._connection.close()

    def _read(self, path: str, body: bytes, headers: dict[str, str]) -> None:
        began_s = time.monotonic()
        try:
            self._connection.request("POST", path, body, headers)
            with self._connection.getresponse() as response:
                self.parts.put((response.status, response.headers.get("Content-Type", "")))
                while data := response.read1(_READ):
                    self.parts.put((time.monotonic() - began_s, data))
        except (OSError, http.client.HTTPException, ValueError, AttributeError) as error:  # also of a closed socket
            self.parts.put(error)
        self.parts.put(None)


def check_address(server: Server) -> tuple[tuple[str, str], str]:
    """Returns scheme and host with its port, and the path under which the routes are. Raises UsageError."""
    try:
        url = urlsplit(server.url if "://" in server.url else f"http://{server.url}")
        host = url.netloc if url.port is not None else (url.hostname and url.netloc)
    except ValueError:
        url, host = urlsplit(""), ""
    if url.scheme not in _KINDS or not host or "@" in host or url.query or not server.url.isprintable() or " " in host:
        raise UsageError(f"{server.url!r} is not the address of a server: give one like http://127.0.0.1:8080/v1")
    return (url.scheme, host), url.path.rstrip("/") or "/v1"


def _key(server: Server) -> str:
    if not server.key_env:
        return ""
    key = os.environ.get(server.key_env, "")
    if not key or not key.isascii() or not key.isprintable():
        raise UsageError(f"the environment variable {server.key_env} holds no key: set it, or name another")
    return key


def _reason(error: Exception) -> str:
    """Returns why a connection failed, as the system says it where it does."""
    return getattr(error, "strerror", None) or str(error) or type(error).__name__


def _events(parts: Iterator[tuple[float, bytes]]) -> Iterator[Arrival]:
    """Yields the server-sent events that each part completes (HTML Living Standard, 9.2). Of an event only its data
    counts; comments are dropped."""
    held = b""
    for time_s, data in parts:
        *lines, held = (held + data).replace(b"\r\n", b"\n").split(b"\n")
        if len(held) > LONGEST_EVENT:
            raise ServerError("the server sends an event without an end: it does not speak OpenAI's protocol")
        found = [line[len(b"data:") :].strip() for line in lines if line.startswith(b"data:")]
        events = tuple(event for event in found if event and event != b"[DONE]")
        if found:
            yield Arrival(time_s, events, b"[DONE]" in found)
