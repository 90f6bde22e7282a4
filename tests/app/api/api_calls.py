"""The API over an engine that plays recorded answers, called as an ASGI application: no network, no model."""

import asyncio
import json
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any, TypeVar

from msgspec import structs

from app import protocol
from app.api.access import AccessRules
from app.api.application import application
from app.api.engine_client import EngineClient
from app.api.reply_stream import Engine
from app.host.recording_player import RecordingPlayer
from app.task_queue import StopFlag, Task, TaskQueue, Work
from tests.app.host.process import RECORDED
from tests.waiting import HANG_S

KEY, PORT = "a-key-of-the-tests", 8080
MODEL = "SmolLM2-135M-Instruct"
CHAT = {"messages": [{"role": "user", "content": "Hi"}]}
T = TypeVar("T")


class FakeEngine(TaskQueue):
    """A queue whose tasks are answered from a recording, as they are put.

    held: replies stop after their first round, as those of a slow model do. requests: all that came, and a Stop for
    each that was given up.
    """

    def __init__(self, held: bool = False) -> None:
        super().__init__()
        self.requests: list[protocol.AnyRequest] = []
        self.held = held
        self._player = RecordingPlayer.read(RECORDED, 0)
        self._last: Task | None = None
        list(self._player.load(protocol.Load(id=0, pair=protocol.Pair())))

    def put(self, task: Task) -> bool:
        self.requests.append(task.request)
        self._last = task
        self.carry_out(task.request)
        return True

    def carry_out(self, request: Work) -> None:
        if isinstance(request, protocol.Count):
            self.answer(*self._player.count(request, StopFlag()))
        elif isinstance(request, protocol.Reply):
            for answer in self._player.reply(request, StopFlag()):
                self.answer(answer)
                if self.held and isinstance(answer, protocol.RoundDone):
                    return

    def answer(self, *answers: protocol.AnyAnswer) -> None:
        """Answers the last request, whatever the ids of the answers are."""
        assert self._last is not None
        for answer in answers:
            self._last.answer(structs.replace(answer, id=self._last.request.id))

    def cancel(self, task: Task) -> None:
        self.requests.append(protocol.Stop(id=task.request.id))


@dataclass
class Answer:
    """What came back. complete: whether the body was ended."""

    status: int = 0
    headers: dict[str, str] = field(default_factory=dict)
    body: bytes = b""
    complete: bool = False

    @property
    def json(self) -> Any:
        return json.loads(self.body)

    @property
    def events(self) -> list[Any]:
        """The server-sent events, decoded; the last of OpenAI's, [DONE], as it is."""
        texts = [line.removeprefix("data: ") for line in self.body.decode().split("\n") if line.startswith("data: ")]
        return [text if text == "[DONE]" else json.loads(text) for text in texts]


class Api:
    """The application in front of a fake engine."""

    def __init__(self, engine: FakeEngine, body_time_s: float = HANG_S) -> None:
        self.engine = engine
        self.client = EngineClient(engine, asyncio.get_running_loop())
        loaded = protocol.Loaded(
            id=0, pair=protocol.Pair(), target=MODEL, drafter="eagle3", speculation="on", note="", drafts_trees=False,
            context=8192,
        )  # fmt: skip
        self.client.loaded = loaded
        self.app = application(Engine(self.client), AccessRules(KEY, PORT, body_time_s))

    def allow(self, **rules: Any) -> None:
        """Goes on with other rules of access."""
        self.app = application(Engine(self.client), AccessRules(KEY, PORT, HANG_S, **rules))

    async def post(self, path: str, value: Any, **more: Any) -> Answer:
        return await self.call("POST", path, json.dumps(value).encode(), **more)

    async def call(
        self,
        method: str,
        path: str,
        body: bytes | list[bytes] = b"",
        headers: dict[str, str] | None = None,
        gone: asyncio.Event | None = None,
        into: Answer | None = None,
    ) -> Answer:
        """Returns the answer to a request. body: in pieces, the last of which never comes if it is not b"". headers:
        instead of the usual ones, which a value of "" leaves out. gone: when the client disconnects. into: the answer,
        filled as it comes."""
        usual = {"host": f"127.0.0.1:{PORT}", "authorization": f"Bearer {KEY}", "content-type": "application/json"}
        named = {name: value for name, value in (usual | (headers or {})).items() if value}
        scope = {
            "type": "http", "method": method, "path": path, "raw_path": path.encode(), "query_string": b"",
            "headers": [(name.encode(), value.encode()) for name, value in named.items()], "http_version": "1.1",
            "scheme": "http", "root_path": "", "asgi": {"version": "3.0", "spec_version": "2.3"},
        }  # fmt: skip
        answer, left = into or Answer(), [body, b""] if isinstance(body, bytes) else list(body)

        async def receive() -> dict[str, Any]:
            if left:
                piece = left.pop(0)
                return {"type": "http.request", "body": piece, "more_body": bool(left) or piece != b""}
            await (gone or asyncio.Event()).wait()
            return {"type": "http.disconnect"}

        async def send(message: Any) -> None:
            if message["type"] == "http.response.start":
                answer.status = message["status"]
                answer.headers = {name.decode(): value.decode() for name, value in message["headers"]}
            else:
                answer.body += message.get("body", b"")
                answer.complete = not message.get("more_body", False)

        await self.app(scope, receive, send)
        return answer


def with_api(
    scenario: Callable[[Api], Awaitable[T]],
    held: bool = False,
    body_time_s: float = HANG_S,
    engine: Callable[[], FakeEngine] | None = None,
) -> T:
    """Runs a scenario against the API and returns what it does. engine: makes another than the usual one."""

    async def run() -> T:
        api = Api(FakeEngine(held) if engine is None else engine(), body_time_s)
        async with asyncio.timeout(HANG_S):
            return await scenario(api)

    return asyncio.run(run())


def post(path: str, value: Any, **more: Any) -> Answer:
    """Returns the answer to one request."""
    return with_api(lambda api: api.post(path, value, **more))
