"""The gate of the API: a pure ASGI middleware in front of every route, which decides before anything is decoded.

In this order: the Host and Origin headers (against DNS rebinding and foreign web pages), the key, the method, the type
of the body, its size and the time it takes. The preflight of an allowed origin needs no key. The body is read here,
once and bounded; routes get it whole. What is left of the body of a refused request is received too, bounded and not
kept: where a connection is closed before that, the client may be told of a reset instead of the refusal. Only origins
that the user allows by name get CORS headers, so no other web page can read an answer.
"""

from __future__ import annotations

import asyncio
import hmac
import re
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from urllib.parse import urlsplit

from starlette.responses import JSONResponse, Response
from starlette.routing import BaseRoute, Match, Route
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from app.api.api_errors import HEADER, ApiError

LONGEST_BODY = 8 * 1024 * 1024 - 64 * 1024  # bytes: the host's longest line, less what is put around the messages
MOST_HEADERS = 100
BODY_TIME_S = 30.0
DISCARD_TIME_S = 2.0  # in which a refused client may go on sending its body
MOST_DISCARDED = 4 * LONGEST_BODY
LOOPBACK = ("127.0.0.1", "localhost", "[::1]")
_OPEN = "/health"  # needs no key
_HEADER_NAMES = re.compile(r"[A-Za-z0-9_-]{1,100}(, ?[A-Za-z0-9_-]{1,100}){0,99}")


@dataclass(frozen=True)
class AccessRules:
    """key: that clients must give. port: of the server, which the Host header must name. body_time_s: in which a body
    must have arrived. hosts: names of this machine besides loopback's, such as a container's name for it. origins: of
    web pages and desktop programs that may ask and read; they need the key too."""

    key: str
    port: int = 0
    body_time_s: float = BODY_TIME_S
    hosts: tuple[str, ...] = ()
    origins: tuple[str, ...] = ()


class Access:
    """Passes on to `app` the requests that follow the rules; answers all others itself. routes: of the app, which say
    what methods its paths allow."""

    def __init__(self, app: ASGIApp, rules: AccessRules, routes: Sequence[BaseRoute]) -> None:
        self._app, self._rules, self._routes = app, rules, routes
        names = {*LOOPBACK, *(host.lower() for host in rules.hosts)}
        self._hosts = {f"{host}:{rules.port}" for host in names} | (names if rules.port == 80 else set())

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            return await self._app(scope, receive, send)
        if scope["type"] != "http":
            return await send({"type": "websocket.close", "code": 1008})
        incoming = _Incoming(receive)
        origin = next((one for one in _values(scope, b"origin") if one in self._rules.origins), "")
        if origin:
            send = _readable_by(origin, send)
        try:
            self._check_host(scope)
            if origin and scope["method"] == "OPTIONS":
                return await _allow(scope, receive, send)
            self._check_key(scope)
            self._check_method(scope)
            body = await self._read_body(scope, incoming)
        except ApiError as error:
            return await _refuse(error, scope, incoming, send)
        await self._app(scope, _with_body(body, receive), send)
        return None

    def _check_host(self, scope: Scope) -> None:
        """Raises ApiError for a Host that is not allowed, and for a web page of an origin that is not."""
        if len(scope["headers"]) > MOST_HEADERS:
            raise ApiError(431, "too_many_headers", f"the request has more than {MOST_HEADERS} headers")
        hosts = _values(scope, b"host")
        if len(hosts) != 1 or hosts[0].lower() not in self._hosts:
            message = (
                f"the Host header must be 127.0.0.1:{self._rules.port}: `redline serve --allow-host` allows others"
            )
            raise ApiError(403, "foreign_host", message)
        origins = _values(scope, b"origin")
        allowed = bool(origins) and all(one in self._rules.origins for one in origins)
        if not allowed and (not all(map(_is_local, origins)) or "cross-site" in _values(scope, b"sec-fetch-site")):
            message = "requests from web pages of other origins are refused: `redline serve --allow-origin` allows one"
            raise ApiError(403, "foreign_origin", message)

    def _check_key(self, scope: Scope) -> None:
        if scope["path"] != _OPEN and not self._has_key(scope):
            raise ApiError(401, "invalid_api_key", "send Redline's key in the header Authorization: Bearer KEY")

    def _check_method(self, scope: Scope) -> None:
        """Raises ApiError for a method that the path does not allow. A path that does not exist is left to the app."""
        for route in self._routes:
            match, _ = route.matches(scope)
            if match is Match.FULL:
                return
            if match is Match.PARTIAL and isinstance(route, Route):
                allowed = ", ".join(sorted(route.methods or ()))
                raise ApiError(405, "method_not_allowed", f"use {allowed}", headers={"allow": allowed})

    def _has_key(self, scope: Scope) -> bool:
        """Whether a key that is given is the right one; each is compared in constant time. Clients send two of them
        where one of their settings is for another server."""
        given = [_bearer(value) for value in _values(scope, b"authorization")]
        given += _values(scope, b"x-api-key")
        expected = self._rules.key.encode()
        matches = [hmac.compare_digest(value.encode("latin-1"), expected) for value in given]
        return any(matches)

    async def _read_body(self, scope: Scope, incoming: _Incoming) -> bytes:
        """Returns the body of a POST. Raises ApiError if it is too long, too slow, or not sent as JSON."""
        if scope["method"] != "POST":
            return b""
        kind, _, charset = ",".join(_values(scope, b"content-type")).partition(";")
        encoded = _values(scope, b"content-encoding")
        utf8 = charset.strip().lower().replace('"', "") in ("", "charset=utf-8", "charset=utf8")
        if kind.strip().lower() != "application/json" or not utf8 or encoded:
            raise ApiError(415, "unsupported_media_type", "send application/json in UTF-8, not compressed")
        if any(not value.isdecimal() or int(value[:20]) > LONGEST_BODY for value in _values(scope, b"content-length")):
            raise _too_long()
        try:
            async with asyncio.timeout(self._rules.body_time_s):
                body = await _read_bounded(incoming)
        except TimeoutError as error:
            incoming.over = True  # no more time for it
            raise ApiError(408, "request_timeout", "the body took too long to arrive") from error
        return body


class _Incoming:
    """What a client sends. over: whether its body has ended."""

    def __init__(self, receive: Receive) -> None:
        self._receive, self.over = receive, False

    async def __call__(self) -> Message:
        message = await self._receive()
        self.over = message["type"] == "http.disconnect" or not message.get("more_body", False)
        return message


async def _refuse(error: ApiError, scope: Scope, incoming: _Incoming, send: Send) -> None:
    """Answers with an error, then takes what the client still sends, and closes the connection."""

    async def send_open(message: Message) -> None:
        await send({**message, "more_body": True} if message["type"] == "http.response.body" else message)

    body = error.body(anthropic=scope["path"].startswith("/v1/messages"))
    await JSONResponse(body, error.status, {**error.headers, "connection": "close"})(scope, incoming, send_open)
    left = MOST_DISCARDED
    with suppress(TimeoutError):
        async with asyncio.timeout(DISCARD_TIME_S):
            while not incoming.over and left > 0:
                left -= len((await incoming()).get("body", b""))
    await send({"type": "http.response.body", "body": b"", "more_body": False})


async def _read_bounded(receive: Receive) -> bytes:
    body = bytearray()
    while True:
        message = await receive()
        if message["type"] == "http.disconnect":
            raise ApiError(400, "disconnected", "the client has gone")
        body += message.get("body", b"")
        if len(body) > LONGEST_BODY:
            raise _too_long()
        if not message.get("more_body", False):
            return bytes(body)


def _with_body(body: bytes, receive: Receive) -> Receive:
    """Returns a `receive` that first replays the body, then passes on what the client sends."""
    given = False

    async def replay() -> Message:
        nonlocal given
        if given:
            return await receive()
        given = True
        return {"type": "http.request", "body": body, "more_body": False}

    return replay


def _readable_by(origin: str, send: Send) -> Send:
    """Returns a `send` whose answers a page of this origin may read."""
    more = [(b"access-control-allow-origin", origin.encode()), (b"vary", b"origin")]
    more.append((b"access-control-expose-headers", HEADER.encode()))

    async def readable(message: Message) -> None:
        if message["type"] == "http.response.start":
            message = {**message, "headers": [*message.get("headers", ()), *more]}
        await send(message)

    return readable


async def _allow(scope: Scope, receive: Receive, send: Send) -> None:
    """Answers the preflight request by which a browser asks what a page may send."""
    wanted = ", ".join(_values(scope, b"access-control-request-headers"))
    headers = {
        "access-control-allow-methods": "GET, POST",
        "access-control-allow-headers": wanted if _HEADER_NAMES.fullmatch(wanted) else "authorization, content-type",
        "access-control-max-age": "600",
    }
    if "true" in _values(scope, b"access-control-request-private-network"):
        headers["access-control-allow-private-network"] = "true"
    await Response(status_code=204, headers=headers)(scope, receive, send)


def _too_long() -> ApiError:
    return ApiError(413, "request_too_large", f"the request body is limited to {LONGEST_BODY} bytes")


def _values(scope: Scope, name: bytes) -> list[str]:
    return [value.decode("latin-1") for key, value in scope["headers"] if key == name]


def _bearer(value: str) -> str:
    scheme, _, key = value.partition(" ")
    return key.strip() if scheme.lower() == "bearer" else ""


def _is_local(origin: str) -> bool:
    try:
        parts = urlsplit(origin)
        return parts.scheme in ("http", "https") and parts.hostname in ("127.0.0.1", "localhost", "::1")
    except ValueError:
        return False
