"""A host of `redline serve` that hangs: programs are told, it is replaced, and the next request is answered."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from collections.abc import Awaitable, Callable
from typing import Any

import psutil
import pytest
from msgspec import structs

from app import protocol
from app.api.access import AccessRules
from app.api.application import application
from app.api.host_client import LOADING, RESTARTING, SLOW_LOAD
from app.api.own_host import OwnHost
from app.api.reply_stream import Engine
from app.protocol.silence import LATE_S, PendingRequests, SilenceLimits
from engine.errors import BackendError, ModelError
from tests.app.api.api_calls import CHAT, KEY, PORT, Answer, Api
from tests.app.api.stepped_loop import advance, run, until
from tests.app.host.process import RECORDED
from tests.app.window.chat.fake_host import FOREVER, command, go_line, text_of

LIMITS = SilenceLimits()
RECORDING = (sys.executable, "-m", "app.host", "--replay", str(RECORDED), "--speed", "0")


class OwnApi(Api):
    """The application in front of a host of its own. heard: what the host has answered."""

    def __init__(self, own: OwnHost) -> None:
        self.own, self.client = own, own.client
        self.app = application(Engine(own.client), AccessRules(KEY, PORT))
        self.heard: list[protocol.AnyAnswer] = []
        self._deliver, own.client._deliver = own.client._deliver, self._hear  # type: ignore[method-assign]

    def _hear(self, answer: protocol.AnyAnswer) -> None:
        self.heard.append(answer)
        self._deliver(answer)

    @property
    def pid(self) -> int:
        return self.own._process.pid

    async def chat(self, **more: Any) -> Answer:
        return await self.post("/v1/chat/completions", {**CHAT, **more})

    async def begin(self, **more: Any) -> asyncio.Task[Answer]:
        """Returns a request that the host has, or that waits for it."""
        waiting, call = self.client.waiting, asyncio.create_task(self.chat(**more))
        await until(lambda: self.client.waiting > waiting)
        return call

    async def until_heard(self, kind: type[Any], times: int) -> None:
        await until(lambda: sum(isinstance(answer, kind) for answer in self.heard) >= times)

    def go_on(self, steps: int = FOREVER) -> None:
        """Lets the fake host go on, so many steps beyond where it would wait."""
        assert self.own._process.stdin is not None
        self.own._process.stdin.write(go_line(steps))


def with_host(scenario: Callable[[OwnApi], Awaitable[None]], *words: str, **behaviour: Any) -> None:
    """Runs a scenario with a fake host that behaves like this, or with the one that `words` start. No process stays."""

    async def start() -> None:
        async with OwnHost(protocol.Pair(drafter="none"), words or command(**behaviour), LIMITS) as own:
            await own.load()
            await scenario(OwnApi(own))
        assert not psutil.pid_exists(own._process.pid)

    run(start())


def text(answer: Answer) -> str:
    return answer.json["choices"][0]["message"]["content"]


def is_refused(answer: Answer, message: str = RESTARTING) -> bool:
    error = answer.json["error"]
    return (answer.status, error["code"], error["message"]) == (503, "engine_unavailable", message)


# --- programs are told ------------------------------------------------------------------------


def test_a_host_that_hangs_fails_what_it_has_and_what_waits_and_the_next_request_is_answered(
    capfd: pytest.CaptureFixture[str],
) -> None:
    async def scenario(api: OwnApi) -> None:
        assert text(await api.chat()) == text_of(12)
        first = api.pid
        calls = [await api.begin(), await api.begin(), await api.begin(stream=True)]
        await api.until_heard(protocol.RoundDone, 6)
        await advance(LIMITS.silent_s)
        *refused, begun = await asyncio.gather(*calls)
        for answer in refused:
            assert is_refused(answer) and answer.headers["retry-after"]
        assert begun.events[-1]["error"]["message"] == RESTARTING  # its head was sent long before
        health = await api.call("GET", "/health")
        assert health.status == 503 and health.json["error"]["message"] in (RESTARTING, LOADING)
        assert text(await api.chat()) == text_of(12)
        assert (await api.call("GET", "/health")).status == 200
        assert api.pid != first and not psutil.pid_exists(first)

    with_host(scenario, rounds=4, hang_after=6)
    assert "may be stuck: restarting it" in capfd.readouterr().err


@pytest.mark.slow
def test_streams_that_have_begun_end_with_the_error() -> None:
    async def scenario(api: OwnApi) -> None:
        call = await api.begin(stream=True)
        await api.until_heard(protocol.RoundDone, 5)
        await advance(LIMITS.silent_s)
        answer = await call
        assert answer.status == 200 and answer.complete
        assert answer.events[-1]["error"]["message"] == RESTARTING
        told = [event["choices"][0]["delta"].get("content", "") for event in answer.events[:-1]]
        assert "".join(told) == text_of(15)
        claude = {"model": "Fake", "max_tokens": 60, "stream": True, **CHAT}
        late = asyncio.create_task(api.post("/v1/messages", claude))
        await api.until_heard(protocol.RoundDone, 10)
        await advance(LIMITS.silent_s)
        error = {"type": "error", "error": {"type": "overloaded_error", "message": RESTARTING}}
        assert (await late).events[-1] == error

    with_host(scenario, hang_after=5)


@pytest.mark.slow
def test_a_process_that_is_stopped_is_replaced() -> None:
    async def scenario(api: OwnApi) -> None:
        reply = text(await api.chat())
        os.kill(first := api.pid, signal.SIGSTOP)
        huge = [{"role": "user", "content": "x" * 1_000_000}]  # more than a pipe holds
        calls = [await api.begin(messages=huge), await api.begin(stream=True)]
        await advance(LIMITS.silent_s)
        whole, streamed = await asyncio.gather(*calls)
        assert is_refused(whole) and streamed.events[-1]["error"]["message"] == RESTARTING
        assert text(await api.chat()) == reply  # a recording's first
        assert api.pid != first and not psutil.pid_exists(first)

    with_host(scenario, *RECORDING)


@pytest.mark.slow
def test_a_host_that_all_programs_have_left_is_replaced() -> None:
    async def scenario(api: OwnApi) -> None:
        assert text(await api.chat()) == text_of(12)
        first, gone = api.pid, asyncio.Event()
        body = {**CHAT, "stream": True}
        left = asyncio.create_task(api.post("/v1/chat/completions", body, gone=gone))
        await api.until_heard(protocol.RoundDone, 6)
        gone.set()
        await left
        await advance(LIMITS.silent_s)
        await until(lambda: api.pid != first)
        assert text(await api.chat()) == text_of(12)

    with_host(scenario, rounds=4, hang_after=6)


@pytest.mark.slow
def test_a_host_that_says_that_it_works_is_not_stuck() -> None:
    async def scenario(api: OwnApi) -> None:
        first, call = api.pid, await api.begin()
        for number in range(3):
            if number:
                await api.until_heard(protocol.Working, number)
            await advance(0.9 * LIMITS.silent_s)
            api.go_on(1)
        assert text(await call) == text_of(12) and api.pid == first

    with_host(scenario, rounds=4, works=3, hold_at=("work",))


@pytest.mark.slow
def test_a_host_is_not_stuck_where_this_process_stood_still() -> None:
    async def scenario(api: OwnApi) -> None:
        first, call = api.pid, await api.begin()
        await api.until_heard(protocol.RoundDone, 1)
        await advance(LIMITS.silent_s + 2 * LATE_S)  # as after Ctrl-Z
        api.go_on()
        assert text(await call) == text_of(12) and api.pid == first

    with_host(scenario, rounds=4, hold_after=1)


# --- the load of the next host ----------------------------------------------------------------


@pytest.mark.slow
def test_a_load_that_makes_no_progress_is_waited_for_but_not_by_programs(capfd: pytest.CaptureFixture[str]) -> None:
    async def scenario(api: OwnApi) -> None:
        api.own._command = command(rounds=4, hold_at=("load",))
        call = await api.begin()
        await api.until_heard(protocol.RoundDone, 1)
        await advance(LIMITS.silent_s)
        assert is_refused(await call)
        await api.until_heard(protocol.Loading, 1)
        assert is_refused(await api.call("GET", "/health"), LOADING)
        call = await api.begin()
        await advance(LIMITS.load_s)
        assert is_refused(await call, SLOW_LOAD)
        assert is_refused(await api.call("GET", "/health"), SLOW_LOAD)
        assert is_refused(await api.chat(), SLOW_LOAD)  # at once
        second = api.pid
        api.go_on()
        await until(lambda: not api.client._slow)
        assert text(await api.chat()) == text_of(12) and api.pid == second

    with_host(scenario, hang_after=1)
    assert "no progress for 120 seconds" in capfd.readouterr().err


@pytest.mark.slow
@pytest.mark.parametrize(
    ("words", "kind", "why"),
    [
        (command(fail_load="none"), ModelError, "none does not fit"),
        (command(kill_on_load=True), BackendError, "ended while it loaded"),
        (["no-such-program"], BackendError, "could not be started again"),
    ],
)
def test_a_host_that_cannot_be_replaced_ends_the_server(words: list[str], kind: type[Exception], why: str) -> None:
    async def scenario(api: OwnApi) -> None:
        api.own._command = words
        call = await api.begin()
        await api.until_heard(protocol.RoundDone, 1)
        await advance(LIMITS.silent_s)
        assert is_refused(await call)
        assert (await api.chat()).status == 503
        await until(lambda: api.client.ended.is_set() and api.own.failure)
        assert isinstance(api.own.failure, kind) and why in str(api.own.failure)
        assert (await api.call("GET", "/health")).status == 503

    with_host(scenario, hang_after=1)


# --- the rule ---------------------------------------------------------------------------------


def test_only_answers_to_the_oldest_request_show_that_a_host_goes_on() -> None:
    pending, limits = PendingRequests(), SilenceLimits()
    first, second = (protocol.Reply(id=number, messages=(), sampling=protocol.SamplingSettings()) for number in (1, 2))
    assert pending.allowed_s(limits) is None
    assert pending.add(first) and not pending.add(second)
    assert pending.hear(protocol.Working(id=1))
    assert not pending.hear(protocol.Failed(id=2, kind=protocol.CANCELLED, message="stopped"))
    assert not pending.hear(protocol.Failed(id=3, kind=protocol.BUSY, message="unknown"))
    assert pending.hear(protocol.Working(id=1)) and not pending.hear(protocol.Working(id=2))
    assert pending.allowed_s(limits) == limits.silent_s
    assert not pending.add(protocol.Load(id=4, pair=protocol.Pair())) and not pending.loading
    assert pending.hear(protocol.Failed(id=1, kind="BackendError", message="m"))
    assert pending.loading and pending.allowed_s(limits) == limits.load_s
    assert pending.hear(protocol.Loading(id=4, message="m")) and pending.loading
    third = structs.replace(first, id=5)
    assert not pending.add(third) and pending.hear(protocol.FellBack(id=5, reason="r")) and not pending.loading
    assert pending.allowed_s(limits) == limits.silent_s
    count = protocol.Count(id=6, messages=())
    assert not pending.add(count) and pending.hear(protocol.Counted(id=6, tokens=1, context=9))  # within the reply
    assert pending.hear(protocol.Working(id=5))
    pending.clear()
    assert pending.allowed_s(limits) is None
