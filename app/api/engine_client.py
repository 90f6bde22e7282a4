"""Requests of programs as tasks of the engine's queue, and the watchdog that ends them when the engine hangs.

Invariants: every request has an id of its own; its answers arrive in its own queue, in order, until the one that ends
it. Whoever stops reading them before that has the request stopped.
"""

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterable
from contextlib import suppress
from functools import partial
from itertools import count

from msgspec import structs

from app import protocol
from app.api.api_errors import ApiError, engine_unavailable
from app.protocol.watchdog import LATE_S, STUCK, WatchdogLimits
from app.task_queue import Task, TaskQueue

MOST_WAITING = 64  # requests that are being answered or wait for their turn
CHECK_S = 1.0  # between two looks at whether the engine makes progress
LOADING = "the engine is loading the models: requests wait for it"
SLOW_LOAD = f"{STUCK} while it loads the models: try again later, or restart Redline"
RESTART = f"{STUCK}: restart it in Redline's window, then try again"
NOT_SERVING = "Redline has stopped serving: switch it on in Redline's window, or run `redline serve`"

Request = protocol.Reply | protocol.Count


class EngineClient:
    """Puts requests on the engine's queue. Used in one event loop, but for `update` and `end`, which any thread may
    call. `watch` must be running meanwhile.

    loaded: the pair that answers, None before one is loaded. stuck: whether the engine has made no progress for too
    long. stuck_message: why requests fail then. on_stuck: called then, with whether it loads models. changed: set when
    there is news for `pending`, `waiting`, `running` and `running_tokens`.
    """

    def __init__(self, tasks: TaskQueue, loop: asyncio.AbstractEventLoop, limits: WatchdogLimits | None = None) -> None:
        self._tasks, self._loop, self._limits = tasks, loop, limits or WatchdogLimits()
        self._ids = count(1)
        self._queues: dict[int, asyncio.Queue[protocol.AnyAnswer | ApiError]] = {}
        self._tokens: dict[int, int] = {}  # so far, by the ids of the requests that are being answered
        self._refusal = ""
        self._has_news = asyncio.Event()  # about `loaded`, the refusal, the watchdog or the end
        self.loaded: protocol.Loaded | None = None
        self.stuck = False
        self.stuck_message = RESTART
        self.on_stuck: Callable[[bool], Awaitable[None]] | None = None
        self.changed = asyncio.Event()
        self.ended = asyncio.Event()

    @property
    def pending(self) -> int:
        """How many requests are being answered or wait."""
        return len(self._queues)

    @property
    def waiting(self) -> int:
        """How many requests wait for their turn."""
        return len(self._queues.keys() - self._tokens.keys())

    @property
    def running(self) -> int:
        """How many requests are being answered."""
        return len(self._tokens)

    @property
    def running_tokens(self) -> int | None:
        """The tokens so far of the replies that are being written, None while none is."""
        return sum(self._tokens.values()) if self._tokens else None

    def update(self, loaded: protocol.Loaded | None, refusal: str = "") -> None:
        """Notes which pair answers, None for the same as before, and why requests must fail, "" if they need not."""
        self._call(self._update, loaded, refusal)

    def end(self) -> None:
        """Fails every request, now and later."""
        self._call(self._end)

    # --- requests ------------------------------------------------------------------------------

    def check(self) -> None:
        """Raises ApiError 503 where a request would fail or has to wait for the models."""
        self._check()
        if self._is_loading or self.loaded is None:
            raise engine_unavailable(LOADING)

    async def until_loaded(self) -> None:
        """Returns once there is a pair that answers. Raises ApiError 503 where there will be none."""
        while self.loaded is None:
            self._check()
            self._has_news.clear()
            await self._has_news.wait()

    async def request(self, request: Request) -> AsyncGenerator[protocol.AnyAnswer]:
        """Yields the answers, the last of which ends the request. Its id is replaced. Closing the iterator early stops
        it. Raises ApiError: 429 when too many requests wait, 413 for one that is too long, 503 when the engine ends or
        is stuck."""
        self._check()
        task, number = self._task(request), next(self._ids)
        task.request = structs.replace(request, id=number)
        task.answer = partial(self._call, self._deliver, number)
        queue = self._queues[number] = asyncio.Queue[protocol.AnyAnswer | ApiError]()
        over = False
        try:
            if not self._tasks.put(task):
                raise _busy(self.pending - 1)
            self.changed.set()
            while not over:
                answer = await queue.get()
                if isinstance(answer, ApiError):
                    raise answer
                over = isinstance(answer, protocol.LastAnswer)
                yield answer
        finally:
            del self._queues[number]
            self.changed.set()
            if not over:
                self._tasks.cancel(task)

    def _check(self) -> None:
        """Raises ApiError 503 where a request would fail."""
        if self.ended.is_set():
            raise engine_unavailable(NOT_SERVING)
        if self.stuck:
            raise engine_unavailable(SLOW_LOAD if self._is_loading else self.stuck_message)
        if self._refusal:
            raise ApiError(503, "model_not_loaded", self._refusal)

    def _task(self, request: Request) -> Task:
        """Returns a task that cannot be answered yet. Raises ApiError."""
        size_bytes = len(protocol.encode_line(request))
        if size_bytes > protocol.LONGEST_LINE:
            raise ApiError(413, "request_too_large", f"the request has more than {protocol.LONGEST_LINE} bytes")
        if self.pending >= MOST_WAITING:
            raise _busy(self.pending)
        return Task(request, lambda _: None, size_bytes, of_program=True)

    @property
    def _is_loading(self) -> bool:
        return any(isinstance(task.request, protocol.Load) for task in self._tasks.running)

    def _call(self, function: Callable[..., None], *arguments: object) -> None:
        """Calls a function in the event loop, from any thread."""
        with suppress(RuntimeError):  # it has been closed: nobody waits any more
            self._loop.call_soon_threadsafe(function, *arguments)

    def _deliver(self, number: int, answer: protocol.AnyAnswer) -> None:
        if isinstance(answer, protocol.LastAnswer):
            self._tokens.pop(number, None)
        elif not isinstance(answer, protocol.Waiting):
            added = len(answer.round.tokens) if isinstance(answer, protocol.RoundDone) else 0
            self._tokens[number] = self._tokens.get(number, 0) + added
        if (queue := self._queues.get(number)) is not None:
            queue.put_nowait(answer)
        self.changed.set()

    def _update(self, loaded: protocol.Loaded | None, refusal: str) -> None:
        self.loaded, self._refusal = loaded or self.loaded, refusal
        if refusal:
            self._fail(ApiError(503, "model_not_loaded", refusal), self._queues.keys() - self._tokens.keys())
        self._has_news.set()

    def _end(self) -> None:
        self.ended.set()
        self._fail(engine_unavailable(NOT_SERVING), self._queues.keys())
        self._has_news.set()

    def _fail(self, error: ApiError, numbers: Iterable[int]) -> None:
        for number in list(numbers):
            self._queues[number].put_nowait(error)

    # --- the watchdog --------------------------------------------------------------------------

    async def watch(self) -> None:
        """Fails all requests while the engine makes no progress with the tasks that it has, until it goes on."""
        progress, since_s = -1, self._loop.time()
        checked_s = since_s
        while True:
            await asyncio.sleep(CHECK_S)
            now_s, running = self._loop.time(), self._tasks.running
            stood_still = now_s - checked_s > CHECK_S + LATE_S  # this process, for example because the computer slept
            checked_s = now_s
            if not running or stood_still or progress != self._tasks.progress:
                progress, since_s, self.stuck = self._tasks.progress, now_s, False
            elif not self.stuck and now_s - since_s >= self._limits.allowed_s(self._is_loading):
                await self._handle_stuck()

    async def _handle_stuck(self) -> None:
        loading, self.stuck = self._is_loading, True
        self._fail(engine_unavailable(SLOW_LOAD if loading else self.stuck_message), self._queues.keys())
        self._has_news.set()
        if self.on_stuck is not None:
            await self.on_stuck(loading)


def _busy(pending: int) -> ApiError:
    return ApiError(429, "too_many_requests", f"{pending} requests are waiting: try again in a few seconds")
