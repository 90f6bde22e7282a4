"""Programs that use the window's API: over HTTP, each in a thread, or as the requests that reach the window."""

from __future__ import annotations

import json
import threading
import urllib.error
import urllib.request
from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import psutil
from msgspec import Raw

from app.protocol import AnyAnswer, Failed, LastAnswer, RoundDone
from app.protocol.api_messages import PassedReply
from app.window.api.api_requests import ApiRequests
from app.window.api.api_server import ApiServer
from tests.app.window.chat.scene import Scene
from tests.app.window.waiting import HANG_S, until

CHAT = {"messages": [{"role": "user", "content": "Hi"}], "temperature": 0, "max_tokens": 60}


class Requests:
    """Requests of programs, as the API hands them to the window, and their answers by the number of each."""

    def __init__(self, scene: Scene) -> None:
        self.queue = ApiRequests(scene.controller)
        self.answers = defaultdict[int, list[AnyAnswer]](list)
        self._last = 0
        self.queue.answered.connect(lambda answer: self.answers[answer.id].append(answer))

    def ask(self, target: str = "") -> int:
        """Asks for a reply, of this target if one is named, and returns the number of the request."""
        self._last += 1
        messages, sampling = Raw(b'[{"role":"user","content":"Hi"}]'), Raw(b'{"max_tokens":60}')
        self.queue.put(PassedReply(id=self._last, messages=messages, sampling=sampling, target=target), 100)
        return self._last

    def last_answer(self, number: int) -> AnyAnswer:
        """Returns the answer that ends a request, once it is there."""
        until(lambda: self.answers[number] and isinstance(self.answers[number][-1], LastAnswer))
        return self.answers[number][-1]

    def text(self, number: int) -> str:
        """Returns the reply, once it has ended well."""
        last = self.last_answer(number)
        assert not isinstance(last, Failed), last
        rounds = [answer.round for answer in self.answers[number] if isinstance(answer, RoundDone)]
        return "".join(text for one in rounds for text in one.texts)

    def failure(self, number: int) -> tuple[str, str]:
        """Returns how and why a request fails, once it has."""
        last = self.last_answer(number)
        assert isinstance(last, Failed)
        return last.kind, last.message


class Program(threading.Thread):
    """Asks once over HTTP, at once. status: of HTTP, 0 before it is known. ended: whether the answer is whole."""

    def __init__(self, server: ApiServer, path: str = "/chat/completions", body: Any = None, key: str = "") -> None:
        super().__init__(daemon=True)
        state = server.state()
        headers = {"authorization": f"Bearer {key or state.key}", "content-type": "application/json"}
        data = json.dumps(CHAT if body is None else body).encode() if body != {} else None
        self._request = urllib.request.Request(state.address + path, data, headers)
        self.status, self.body, self.ended = 0, b"", False
        self.start()

    def run(self) -> None:
        try:
            with urllib.request.urlopen(self._request, timeout=HANG_S) as answer:
                self.body = answer.read()
                self.status = answer.status
        except urllib.error.HTTPError as error:
            self.body, self.status = error.read(), error.code
        except OSError as error:
            self.body, self.status = str(error).encode(), -1
        self.ended = True

    def wait(self) -> Program:
        """Returns itself once it has its answer; the event loop goes on meanwhile."""
        until(lambda: self.ended)
        return self

    @property
    def text(self) -> str:
        content: str = json.loads(self.body)["choices"][0]["message"]["content"]
        return content

    @property
    def error(self) -> dict[str, Any]:
        error: dict[str, Any] = json.loads(self.body)["error"]
        return error


@contextmanager
def served(scene: Scene, folder: Path) -> Iterator[ApiServer]:
    """Serves the models of a scene on a free port, and sees that no process stays."""
    server = ApiServer(scene.controller, folder / "api-key")
    server.serve(0)
    try:
        until(lambda: server.state().phase == "on")
        yield server
    finally:
        process = psutil.Process(server.process.pid) if server.process.pid else None
        server.quit()
        until(lambda: process is None or not process.is_running())
