"""A host of `redline serve` that hangs: programs are told, it is replaced, and the next request is answered."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
import time
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
from app.protocol.silence import STUCK, PendingRequests, SilenceLimits
from app.window.api.api_requests import STUCK as STUCK_IN_THE_WINDOW
from app.window.chat.host_process import Timeouts
from engine.errors import BackendError, ModelError
from tests.app.api.api_calls import CHAT, KEY, PORT, Answer, Api
from tests.app.host.process import RECORDED
from tests.app.window.chat.fake_host import command, text_of

SOON = SilenceLimits(load_s=20.0, silent_s=1.0)
RECORDING = (sys.executable, "-m", "app.host", "--replay", str(RECORDED), "--speed", "0")


class OwnApi(Api):
    """The application in front of a host of its own."""

    def __init__(self, own: OwnHost) -> None:
        self.own, self.client = own, own.client
        self.app = application(Engine(own.client), AccessRules(KEY, PORT))

    @property
    def pid(self) -> int:
        return self.own._process.pid

    async def chat(self, **more: Any) -> Answer:
        return await self.post("/v1/chat/completions", {**CHAT, **more})

    def begin(self, **more: Any) -> asyncio.Task[Answer]:
        return asyncio.create_task(self.chat(**more))

    async def until(self, holds: Callable[[], object]) -> None:
        while not holds():
            await asyncio.sleep(0.01)


def with_host(
    scenario: Callable[[OwnApi], Awaitable[None]],
    *words: str,
    limits: SilenceLimits = SOON,
    within_s: float = 60,
    **behaviour: Any,
) -> None:
    """Runs a scenario with a fake host that behaves like this, or with the one that `words` start. No process stays."""

    async def run() -> None:
        async with OwnHost(protocol.Pair(drafter="none"), words or command(**behaviour), limits) as own:
            await own.load()
            async with asyncio.timeout(within_s):
                await scenario(OwnApi(own))
        assert not psutil.pid_exists(own._process.pid)

    asyncio.run(run())


def text(answer: Answer) -> str:
    return answer.json["choices"][0]["message"]["content"]


def refused(answer: Answer, message: str = RESTARTING) -> bool:
    error = answer.json["error"]
    return (answer.status, error["code"], error["message"]) == (503, "engine_unavailable", message)


# --- programs are told ------------------------------------------------------------------------


def test_the_words_and_the_seconds_are_the_windows() -> None:
    assert Timeouts().silent_s == SilenceLimits().silent_s and Timeouts().load_s == SilenceLimits().load_s
    assert RESTARTING.startswith(f"{STUCK}: ") and STUCK_IN_THE_WINDOW.startswith(f"{STUCK}: ")


def test_a_host_that_hangs_fails_what_it_has_and_what_waits_and_the_next_request_is_answered(
    capfd: pytest.CaptureFixture[str],
) -> None:
    async def scenario(api: OwnApi) -> None:
        assert text(await api.chat()) == text_of(12)
        first = api.pid
        began_s = time.monotonic()
        for answer in await asyncio.gather(api.chat(), api.chat(), api.chat(stream=True)):
            assert refused(answer) and answer.headers["retry-after"]
        assert time.monotonic() - began_s >= SOON.silent_s
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
        answer = await api.chat(stream=True)
        assert answer.status == 200 and answer.complete
        assert answer.events[-1]["error"]["message"] == RESTARTING
        told = [event["choices"][0]["delta"].get("content", "") for event in answer.events[:-1]]
        assert "".join(told) == text_of(15)
        claude = {"model": "Fake", "max_tokens": 60, "stream": True, **CHAT}
        events = (await api.post("/v1/messages", claude)).events
        assert events[-1] == {"type": "error", "error": {"type": "overloaded_error", "message": RESTARTING}}

    with_host(scenario, hang_after=5)


@pytest.mark.slow
def test_a_process_that_is_stopped_is_replaced() -> None:
    async def scenario(api: OwnApi) -> None:
        reply = text(await api.chat())
        os.kill(first := api.pid, signal.SIGSTOP)
        huge = [{"role": "user", "content": "x" * 1_000_000}]  # more than a pipe holds
        running, waits = api.begin(messages=huge), api.begin(stream=True)
        assert refused(await running) and refused(await waits)
        assert text(await api.chat()) == reply  # a recording's first
        assert api.pid != first and not psutil.pid_exists(first)

    with_host(scenario, *RECORDING)


@pytest.mark.slow
def test_the_real_host_is_replaced_too() -> None:
    async def scenario(api: OwnApi) -> None:
        greedy = {"temperature": 0, "max_tokens": 40}
        reply = text(await api.chat(**greedy))
        os.kill(api.pid, signal.SIGSTOP)
        for answer in await asyncio.gather(api.chat(**greedy), api.chat(**greedy)):
            assert refused(answer)
        assert text(await api.chat(**greedy)) == reply

    limits = SilenceLimits(load_s=120.0, silent_s=12.0)
    with_host(scenario, sys.executable, "-m", "app.host", limits=limits, within_s=240)


@pytest.mark.slow
def test_a_host_that_all_programs_have_left_is_replaced() -> None:
    async def scenario(api: OwnApi) -> None:
        assert text(await api.chat()) == text_of(12)
        first, gone = api.pid, asyncio.Event()
        body = {**CHAT, "stream": True}
        left = asyncio.create_task(api.post("/v1/chat/completions", body, gone=gone))
        await api.until(lambda: api.client.waiting)
        await asyncio.sleep(SOON.silent_s / 2)
        gone.set()
        await left
        await api.until(lambda: api.pid != first)
        assert text(await api.chat()) == text_of(12)

    with_host(scenario, rounds=4, hang_after=6)


@pytest.mark.slow
def test_a_host_that_says_that_it_works_is_not_stuck() -> None:
    async def scenario(api: OwnApi) -> None:
        first = api.pid
        assert text(await api.chat()) == text_of(12) and api.pid == first

    with_host(scenario, rounds=4, measure_s=1.5 * SOON.silent_s)


@pytest.mark.slow
def test_a_host_is_not_stuck_where_this_process_stood_still(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("app.api.host_client.LATE_S", 0.2)

    async def scenario(api: OwnApi) -> None:
        first, call = api.pid, api.begin()
        await api.until(lambda: api.client.waiting)
        await asyncio.sleep(0.1)
        time.sleep(SOON.silent_s + 0.7)  # as after Ctrl-Z
        assert text(await call) == text_of(12) and api.pid == first

    with_host(scenario, rounds=4, pause_s=0.5)


# --- the load of the next host ----------------------------------------------------------------


@pytest.mark.slow
def test_a_load_that_makes_no_progress_is_waited_for_but_not_by_programs(capfd: pytest.CaptureFixture[str]) -> None:
    async def scenario(api: OwnApi) -> None:
        api.own._command = command(rounds=4, load_s=2.5)
        assert refused(await api.chat())
        await api.until(lambda: api.client._pending.loading)
        assert refused(await api.call("GET", "/health"), LOADING)
        assert refused(await api.chat(), SLOW_LOAD)
        assert refused(await api.call("GET", "/health"), SLOW_LOAD)
        second = api.pid
        assert refused(await api.chat(), SLOW_LOAD)  # at once
        await api.until(lambda: not api.client._slow)
        assert text(await api.chat()) == text_of(12) and api.pid == second

    with_host(scenario, limits=SilenceLimits(load_s=1.0, silent_s=1.0), hang_after=1)
    assert "no progress for 1 seconds" in capfd.readouterr().err


@pytest.mark.slow
@pytest.mark.parametrize(
    ("words", "kind", "why"),
    [
        (command(fail_load="none"), ModelError, "none does not fit"),
        *(
            pytest.param(words, BackendError, why, marks=pytest.mark.slow)
            for words, why in (
                (command(kill_on_load=True), "ended while it loaded"),
                (["no-such-program"], "could not be started again"),
            )
        ),
    ],
)
def test_a_host_that_cannot_be_replaced_ends_the_server(words: list[str], kind: type[Exception], why: str) -> None:
    async def scenario(api: OwnApi) -> None:
        api.own._command = words
        assert refused(await api.chat())
        later = await api.chat()
        assert later.status == 503
        await api.until(api.client.ended.is_set)
        await api.until(lambda: api.own.failure)
        assert isinstance(api.own.failure, kind) and why in str(api.own.failure)
        assert (await api.call("GET", "/health")).status == 503

    with_host(scenario, hang_after=1)


# --- the rule ---------------------------------------------------------------------------------


def test_only_answers_to_the_oldest_request_show_that_a_host_goes_on() -> None:
    pending, limits = PendingRequests(), SilenceLimits()
    first, second = (protocol.Reply(id=number, messages=(), sampling=protocol.SamplingSettings()) for number in (1, 2))
    assert pending.allowed_s(limits) is None
    assert pending.add(first) and not pending.add(second)
    assert pending.hear(protocol.Measuring(id=1, message="m"))
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
    pending.clear()
    assert pending.allowed_s(limits) is None
