"""Servers on loopback that speak OpenAI's protocol, some of them badly."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

TEXT = "one two three four five six"
END = b"data: [DONE]\n\n"
USAGE = {"choices": [], "usage": {"prompt_tokens": 9, "completion_tokens": 6}}
Script = Callable[["Handler"], None]


def event(value: dict[str, Any]) -> bytes:
    return b"data: " + json.dumps(value).encode() + b"\n\n"


def delta(text: str, finish: str | None = None, field: str = "content") -> bytes:
    return event({"model": "toy", "choices": [{"index": 0, "delta": {field: text}, "finish_reason": finish}]})


def words(text: str = TEXT, each: int = 1) -> list[str]:
    """The words with the spaces before them, so many at a time."""
    found = [word if number == 0 else f" {word}" for number, word in enumerate(text.split())]
    return ["".join(found[start : start + each]) for start in range(0, len(found), each)]


class Handler(BaseHTTPRequestHandler):
    """Lists one model and answers each chat as its server's script does."""

    server: ToyServer

    def do_GET(self) -> None:
        self._send(b'{"data": [{"id": "folder/toy"}]}', "application/json")

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        self.server.asked.append(json.loads(body) | {"key": self.headers.get("Authorization")})
        self.server.script(self)

    def stream(self, *parts: bytes) -> None:
        """Sends the head of a stream and these parts, and closes."""
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream")
        self.end_headers()
        for part in parts:
            self.wfile.write(part)
            self.wfile.flush()

    def _send(self, data: bytes, kind: str, status: int = 200) -> None:
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def refuse(self, status: int) -> None:
        self._send(b'{"error": "no such thing"}', "application/json", status)

    def version_string(self) -> str:
        return "toy/1"

    def log_message(self, *_: object) -> None:
        pass


class ToyServer(ThreadingHTTPServer):
    """asked: the bodies of the chats so far, and their keys. over: set when the test is done."""

    daemon_threads = True

    def __init__(self, script: Script) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.script, self.asked, self.over = script, list[dict[str, Any]](), threading.Event()

    def handle_error(self, *_: object) -> None:
        """A client that leaves is no error here."""

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_port}"


@contextmanager
def serving(script: Script) -> Iterator[ToyServer]:
    server = ToyServer(script)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        yield server
    finally:
        server.over.set()
        server.shutdown()
        thread.join()
        server.server_close()


def honest(handler: Handler) -> None:
    handler.stream(*map(delta, words()), delta("", "stop"), event(USAGE), END)


def endless(handler: Handler) -> None:
    try:
        handler.stream()
        while not handler.server.over.is_set():
            handler.wfile.write(delta(" and"))
    except OSError:
        pass


def silent(handler: Handler) -> None:
    """Answers nothing at all."""
    handler.server.over.wait()


def only_comments(handler: Handler) -> None:
    try:
        handler.stream()
        while not handler.server.over.is_set():
            handler.wfile.write(b": still here\n\n")
    except OSError:
        pass
