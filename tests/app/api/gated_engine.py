"""The engine's loop in a thread, with a worker that goes on when a test says so, and the API in front of it."""

import asyncio
import threading
from collections.abc import Awaitable, Callable, Iterator
from typing import Any

from app import protocol
from app.api.access import AccessRules
from app.api.application import application
from app.api.engine_client import EngineClient
from app.api.reply_stream import Engine
from app.host.engine_loop import TaskRunner
from app.task_queue import StopFlag, Task, TaskQueue
from engine.errors import ModelError
from engine.events import Finished
from engine.together import between_pieces
from tests.app.api.api_calls import CHAT, KEY, PORT, Answer, Api
from tests.app.api.stepped_loop import run, until
from tests.app.window.chat.fake_host import round_of, text_of
from tests.waiting import HANG_S

PAIR = protocol.Pair(drafter="none")
ROUNDS = 4
TEXT = text_of(3 * ROUNDS)


class GatedWorker:
    """Replies with rounds of three words, as the fake host of the window's tests does.

    steps: how many rounds, and parts of loads, it may still go on for; while there are none it hangs, and no Stop ends
    that. refusal: why pairs cannot be loaded.
    """

    def __init__(self) -> None:
        self.pair: protocol.Pair | None = None
        self.at_once: Callable[[], int] = lambda: 1
        self.steps = 1_000_000
        self.refusal = ""
        self._changed = threading.Condition()

    def go_on(self, steps: int = 1_000_000) -> None:
        with self._changed:
            self.steps += steps
            self._changed.notify()

    def _step(self) -> None:
        with self._changed:
            assert self._changed.wait_for(lambda: self.steps > 0, HANG_S)
            self.steps -= 1

    def load(self, request: protocol.Load) -> Iterator[protocol.AnyAnswer]:
        yield protocol.Loading(id=request.id, message="Reading weights")
        self._step()
        if self.refusal:
            raise ModelError(self.refusal)
        self.pair = request.pair
        yield protocol.Loaded(
            id=request.id, pair=request.pair, target="Fake", drafter="none", speculation="off", note="",
            drafts_trees=False, context=4096,
        )  # fmt: skip

    def reply(self, request: protocol.Reply, stop: StopFlag) -> Iterator[protocol.AnyAnswer]:
        for index in range(ROUNDS):
            between_pieces()
            self._step()
            if stop.is_set():
                yield protocol.ReplyDone(id=request.id, finished=Finished("cancelled", 3 * index, 1.0), seed=0)
                return
            yield protocol.RoundDone(id=request.id, round=round_of(index, 3 * index, 0.1))
        yield protocol.ReplyDone(id=request.id, finished=Finished("eos", 3 * ROUNDS, 1.0), seed=0)

    def prepare(self, _: object) -> None:
        pass

    def recover(self) -> None:
        pass

    def give_back_memory(self) -> None:
        pass


class GatedApi(Api):
    """The application in front of such an engine. told: what the engine tells the app. stuck: of each time that the
    engine was stuck, whether it was loading."""

    def __init__(self) -> None:
        self.worker, self.tasks = GatedWorker(), TaskQueue()
        self.tasks.places = 1  # a test of several replies at once says so
        self.told: list[protocol.AnyAnswer] = []
        self.stuck: list[bool] = []
        self.client = EngineClient(self.tasks, asyncio.get_running_loop())
        self.client.on_stuck = self._note_stuck
        self.app = application(Engine(self.client), AccessRules(KEY, PORT))

    async def _note_stuck(self, loading: bool) -> None:
        self.stuck.append(loading)

    def load(self, pair: protocol.Pair = PAIR) -> None:
        """Has a pair loaded, as the app does."""
        self.tasks.put(Task(protocol.Load(id=1, pair=pair), self._handle_load))

    def _handle_load(self, answer: protocol.AnyAnswer) -> None:
        self.told.append(answer)
        if isinstance(answer, protocol.Loaded):
            self.client.update(answer)

    def ask(self) -> list[protocol.AnyAnswer]:
        """Has the app ask for a reply; returns where its answers will be."""
        answers = list[protocol.AnyAnswer]()
        request = protocol.Reply(id=2, messages=(), sampling=protocol.SamplingSettings())
        self.tasks.put(Task(request, answers.append))
        return answers

    async def chat(self, **more: Any) -> Answer:
        return await self.post("/v1/chat/completions", {**CHAT, **more})

    async def begin(self, **more: Any) -> asyncio.Task[Answer]:
        """Returns a request that is being answered, or waits."""
        pending, call = self.client.pending, asyncio.create_task(self.chat(**more))
        await until(lambda: self.client.pending > pending)
        return call

    async def until_tokens(self, tokens: int) -> None:
        await until(lambda: self.client.running_tokens == tokens)


def with_engine(scenario: Callable[[GatedApi], Awaitable[None]], loads: bool = True) -> None:
    """Runs a scenario with an engine that has loaded PAIR, or has not, in a loop whose time stands still."""

    async def start() -> None:
        api = GatedApi()
        api.tasks.admit_programs(PAIR)
        runner = TaskRunner(api.tasks, api.told.append, lambda: api.worker)
        engine = threading.Thread(target=runner.run)
        engine.start()
        watching = asyncio.create_task(api.client.watch())
        try:
            if loads:
                api.load()
                await until(lambda: api.client.loaded)
            await scenario(api)
        finally:
            watching.cancel()
            api.tasks.close(stop=True)
            api.worker.go_on()
            await asyncio.to_thread(engine.join)

    run(start())
