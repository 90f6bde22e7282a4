"""Programs that use the window's API over HTTP, each in a thread, while the event loop of the test goes on."""

from __future__ import annotations

import json
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import psutil

from app.window.api.api_server import ApiServer
from tests.app.window.chat.scene import Scene
from tests.app.window.waiting import until

CHAT = {"messages": [{"role": "user", "content": "Hi"}], "temperature": 0, "max_tokens": 60}


class Program(threading.Thread):
    """Asks once, at once. status: of HTTP, 0 before it is known. ended_s: when the answer was whole."""

    def __init__(self, server: ApiServer, path: str = "/chat/completions", body: Any = None, key: str = "") -> None:
        super().__init__(daemon=True)
        state = server.state()
        headers = {"authorization": f"Bearer {key or state.key}", "content-type": "application/json"}
        data = json.dumps(CHAT if body is None else body).encode() if body != {} else None
        self._request = urllib.request.Request(state.address + path, data, headers)
        self.status, self.body, self.ended_s = 0, b"", 0.0
        self.start()

    def run(self) -> None:
        try:
            with urllib.request.urlopen(self._request, timeout=120) as answer:
                self.body = answer.read()
                self.status = answer.status
        except urllib.error.HTTPError as error:
            self.body, self.status = error.read(), error.code
        except OSError as error:
            self.body, self.status = str(error).encode(), -1
        self.ended_s = time.monotonic()

    def wait(self, seconds: float = 30.0) -> Program:
        """Returns itself once it has its answer; the event loop goes on meanwhile."""
        until(lambda: self.ended_s, seconds)
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
        assert process is None or not process.is_running()
