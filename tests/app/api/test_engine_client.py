"""Programs and the app share one engine: whose turn it is, and what programs get when it hangs or has no models."""

import asyncio
import json

import pytest

from app import protocol
from app.api.engine_client import CHECK_S, LOADING, RESTART, SLOW_LOAD
from app.protocol.watchdog import LATE_S, PendingRequests, WatchdogLimits
from tests.app.api.api_calls import CHAT, Answer
from tests.app.api.gated_engine import PAIR, TEXT, GatedApi, with_engine
from tests.app.api.stepped_loop import advance, until
from tests.app.window.chat.fake_host import text_of

LIMITS = WatchdogLimits()
OTHER = protocol.Pair(target="another")


def text(answer: Answer) -> str:
    content: str = answer.json["choices"][0]["message"]["content"]
    return content


def is_refused(answer: Answer, message: str = RESTART, code: str = "engine_unavailable") -> bool:
    error = answer.json["error"]
    return (answer.status, error["code"], error["message"]) == (503, code, message)


async def wait(seconds: float) -> None:
    """Lets so much time pass, as the watchdog sees it."""
    for _ in range(round(seconds / CHECK_S) + 1):
        await advance(CHECK_S)


# --- whose turn it is -------------------------------------------------------------------------


def test_the_app_goes_before_programs_that_wait_and_cuts_none() -> None:
    async def scenario(api: GatedApi) -> None:
        api.worker.steps = 2
        calls = [await api.begin() for _ in range(3)]
        await api.until_tokens(6)
        assert api.client.waiting == 2
        answers = api.ask()
        api.worker.go_on(3)
        await until(lambda: answers and api.client.running_tokens is None and api.client.waiting == 2)
        api.worker.go_on()
        assert [text(await call) for call in calls] == [TEXT] * 3
        assert isinstance(answers[-1], protocol.ReplyDone) and answers[-1].finished.reason == "eos"

    with_engine(scenario)


def test_a_program_that_leaves_frees_the_engine_and_one_that_waits_is_never_asked() -> None:
    async def scenario(api: GatedApi) -> None:
        api.worker.steps = 2
        gone = [asyncio.Event(), asyncio.Event()]
        running = asyncio.create_task(api.post("/v1/chat/completions", {**CHAT, "stream": True}, gone=gone[0]))
        await api.until_tokens(6)
        waiting = asyncio.create_task(api.post("/v1/chat/completions", CHAT, gone=gone[1]))
        await until(lambda: api.client.waiting)
        for one in reversed(gone):
            one.set()
        await asyncio.gather(running, waiting)
        api.worker.go_on(1)
        await until(lambda: api.client.running_tokens is None)
        assert api.worker.steps == 0
        api.worker.go_on()
        assert text(await api.chat()) == TEXT

    with_engine(scenario)


def test_a_program_is_never_answered_by_another_pair_than_the_apps_choice() -> None:
    async def scenario(api: GatedApi) -> None:
        api.load(OTHER)
        call = await api.begin()
        await until(lambda: api.worker.pair == OTHER and not api.tasks.running)
        assert api.client.waiting == 1
        api.load()
        assert text(await call) == TEXT

    with_engine(scenario)


# --- no models --------------------------------------------------------------------------------


def test_requests_wait_for_the_first_model_and_health_says_so() -> None:
    async def scenario(api: GatedApi) -> None:
        api.worker.steps = 0
        calls = [asyncio.create_task(api.chat()), asyncio.create_task(api.call("GET", "/v1/models"))]
        api.load()
        await advance(0.0)
        assert is_refused(await api.call("GET", "/health"), LOADING)
        api.worker.go_on()
        chat, models = await asyncio.gather(*calls)
        assert text(chat) == TEXT and models.json["data"][0]["id"] == "Fake"
        assert (await api.call("GET", "/health")).status == 200

    with_engine(scenario, loads=False)


@pytest.mark.parametrize("loads", [False, True])
def test_models_that_cannot_be_loaded_are_the_error_of_what_waits_and_what_comes(loads: bool) -> None:
    async def scenario(api: GatedApi) -> None:
        api.tasks.admit_programs(None)
        calls = [asyncio.create_task(api.chat())]
        await advance(0.0)
        api.client.update(None, "it does not fit")
        calls.append(asyncio.create_task(api.chat()))
        for call in calls:
            assert is_refused(await call, "it does not fit", "model_not_loaded")
        api.client.update(None)
        api.tasks.admit_programs(PAIR)
        api.load()
        assert text(await api.chat()) == TEXT

    with_engine(scenario, loads)


# --- the engine hangs -------------------------------------------------------------------------


def test_an_engine_that_hangs_fails_what_it_has_what_waits_and_what_comes_until_it_goes_on() -> None:
    async def scenario(api: GatedApi) -> None:
        api.worker.steps = 2
        calls = [await api.begin(stream=True), await api.begin()]
        await api.until_tokens(6)
        claude = {"model": "Fake", "max_tokens": 60, "stream": True, **CHAT}
        calls.append(asyncio.create_task(api.post("/v1/messages", claude)))
        await until(lambda: api.client.waiting == 2)
        await wait(LIMITS.silent_s)
        assert all(call.done() for call in calls)
        streamed, whole, waited = await asyncio.gather(*calls)
        assert is_refused(whole) and whole.headers["retry-after"]
        said = "".join(event["choices"][0]["delta"].get("content", "") for event in streamed.events[:-1])
        assert streamed.complete and said == text_of(6)
        assert streamed.events[-1]["error"]["message"] == RESTART  # its head was sent long before
        error = {"type": "error", "error": {"type": "overloaded_error", "message": RESTART}}
        assert waited.events[-1] == error
        assert is_refused(await api.chat()) and is_refused(await api.call("GET", "/health"))
        assert api.stuck == [False]
        api.worker.go_on()
        await until(lambda: not api.tasks.running)
        await wait(CHECK_S)
        assert text(await api.chat()) == TEXT and api.stuck == [False]

    with_engine(scenario)


@pytest.mark.parametrize("whose", ["of a program that left", "of the app"])
def test_an_engine_that_hangs_with_what_no_program_waits_for_is_noticed(whose: str) -> None:
    async def scenario(api: GatedApi) -> None:
        api.worker.steps = 2
        if whose == "of the app":
            answers = api.ask()
            await until(lambda: len(answers) == 2)
        else:
            gone = asyncio.Event()
            left = asyncio.create_task(api.post("/v1/chat/completions", CHAT, gone=gone))
            await api.until_tokens(6)
            gone.set()
            await left
        call = await api.begin()
        await wait(LIMITS.silent_s)
        assert is_refused(await call) and api.stuck == [False]

    with_engine(scenario)


def test_an_engine_that_goes_on_or_a_process_that_stood_still_is_not_stuck() -> None:
    async def scenario(api: GatedApi) -> None:
        api.worker.steps = 1
        call = await api.begin()
        for tokens in (3, 6):
            await api.until_tokens(tokens)
            await wait(LIMITS.silent_s - 3 * CHECK_S)
            api.worker.go_on(1)
        await api.until_tokens(9)
        await advance(LIMITS.silent_s + 2 * LATE_S)  # as after Ctrl-Z
        api.worker.go_on()
        assert text(await call) == TEXT and api.stuck == []

    with_engine(scenario)


def test_a_load_that_makes_no_progress_is_waited_for_but_not_by_programs() -> None:
    async def scenario(api: GatedApi) -> None:
        api.worker.steps = 0
        api.load(OTHER)
        await until(lambda: api.tasks.running)
        call = await api.begin()
        await wait(LIMITS.silent_s)
        assert not call.done()
        await wait(LIMITS.load_s - LIMITS.silent_s)
        assert is_refused(await call, SLOW_LOAD) and is_refused(await api.call("GET", "/health"), SLOW_LOAD)
        assert is_refused(await api.chat(), SLOW_LOAD) and api.stuck == [True]
        api.load()
        api.worker.go_on()
        await until(lambda: not api.tasks.running)
        await wait(CHECK_S)
        assert text(await api.chat()) == TEXT

    with_engine(scenario)


# --- the same as the window sees it -----------------------------------------------------------


def test_only_answers_to_the_oldest_request_and_heartbeats_for_programs_show_progress() -> None:
    pending, limits = PendingRequests(), WatchdogLimits()
    first, second = (protocol.Reply(id=number, messages=(), sampling=protocol.SamplingSettings()) for number in (1, 2))
    assert pending.allowed_s(limits) is None
    assert pending.add(first) and not pending.add(second)
    assert not pending.note(protocol.Failed(id=2, kind=protocol.CANCELLED, message="stopped"))
    assert not pending.note(protocol.Failed(id=3, kind=protocol.BUSY, message="unknown"))
    assert pending.note(protocol.Working(id=1)) and not pending.note(protocol.Working(id=2))
    assert pending.note(protocol.Working(id=0)) and not pending.note(protocol.Serving(tokens=3))
    assert pending.allowed_s(limits) == limits.silent_s
    assert not pending.add(protocol.Load(id=4, pair=PAIR)) and not pending.loading
    assert pending.note(protocol.Failed(id=1, kind="BackendError", message="m"))
    assert pending.loading and pending.allowed_s(limits) == limits.load_s
    assert pending.note(protocol.Loading(id=4, message="m")) and pending.loading
    third = protocol.Reply(id=5, messages=(), sampling=protocol.SamplingSettings())
    assert not pending.add(third) and pending.note(protocol.FellBack(id=5, reason="r")) and not pending.loading
    count = protocol.Count(id=6, messages=())
    assert not pending.add(count) and pending.note(protocol.Counted(id=6, tokens=1, context=9))  # within the reply
    pending.clear()
    assert pending.allowed_s(limits) is None
    pending.serves = True
    assert pending.allowed_s(limits) == limits.silent_s


def test_a_reply_that_waits_does_not_end_what_stands_before_it() -> None:
    pending = PendingRequests()
    pending.add(protocol.Load(id=1, pair=PAIR))
    pending.add(protocol.Reply(id=2, messages=(), sampling=protocol.SamplingSettings()))
    pending.note(protocol.Waiting(id=2, reason="it waits"))
    assert pending.loading


def test_n_replies_and_several_clients_are_written_at_once_and_each_gets_its_own_text() -> None:
    async def scenario(api: GatedApi) -> None:
        api.worker.steps, api.tasks.places = 0, 4
        calls = [await api.begin(n=2), await api.begin(), await api.begin(stream=True)]
        await until(lambda: api.client.pending == 4)
        api.worker.go_on(3)  # a round of each that had begun by then, after which the others begin
        await until(lambda: len(api.tasks.running) == 4)
        api.worker.go_on()
        both, one, streamed = await asyncio.gather(*calls)
        assert [choice["message"]["content"] for choice in both.json["choices"]] == [TEXT, TEXT]
        assert text(one) == TEXT and streamed.status == 200

    with_engine(scenario)


def test_the_chunks_of_n_replies_come_mixed_and_each_is_whole() -> None:
    async def scenario(api: GatedApi) -> None:
        api.tasks.places = 2
        answer = await api.chat(n=2, stream=True)
        events = [json.loads(line[6:]) for line in answer.body.decode().splitlines() if line.startswith("data: {")]
        chunks = [choice for event in events for choice in event["choices"] if choice["delta"].get("content")]
        order = [chunk["index"] for chunk in chunks]
        assert order != sorted(order)
        for index in (0, 1):
            assert "".join(one["delta"]["content"] for one in chunks if one["index"] == index) == TEXT

    with_engine(scenario)
