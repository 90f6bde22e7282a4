"""Programs that use the window's API over HTTP, each in a thread, and the hosts that serve them."""

from __future__ import annotations

import json
import sys
import threading
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace as changed
from pathlib import Path
from typing import Any

from msgspec.structs import replace

from app.protocol import Loaded, Loading, PrefillProgress, ReplyDone, decode_answer, encode_line
from app.window.api.api_server import ApiServer
from tests.app.host.process import RECORDED, of_kind
from tests.app.window.chat.scene import Scene
from tests.app.window.waiting import HANG_S, until

CHAT = {"messages": [{"role": "user", "content": "Hi"}], "temperature": 0, "max_tokens": 60}


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


def hosted() -> list[str]:
    """The command of a host that plays a recording at once."""
    return [sys.executable, "-m", "app.host", "--replay", str(RECORDED), "--speed", "0"]


def hosted_forever(folder: Path) -> list[str]:
    """The command of a host that plays the same, but whose replies do not go on after their beginning."""
    answers = [decode_answer(line) for line in RECORDED.read_bytes().splitlines()]
    begun = [replace(one, progress=changed(one.progress, time_s=0.0)) for one in of_kind(answers, PrefillProgress)[:1]]
    done = [replace(one, finished=changed(one.finished, time_s=1e6)) for one in of_kind(answers, ReplyDone)[:1]]
    kept = [answer for answer in answers if isinstance(answer, Loading | Loaded)]
    file = folder / "forever.jsonl"
    file.write_bytes(b"".join(map(encode_line, [*kept, *begun, *done])))
    return [sys.executable, "-m", "app.host", "--replay", str(file)]


@contextmanager
def served(scene: Scene, folder: Path) -> Iterator[ApiServer]:
    """Serves the models of a scene on a free port."""
    server = ApiServer(scene.controller, folder / "api-key")
    server.serve(0)
    until(lambda: server.state().phase == "on")
    yield server
    server.serve(None)
