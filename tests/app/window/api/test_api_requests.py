"""Programs and the window share one loaded model: who is served when, and what happens when the host hangs or dies."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace as changed
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from app.protocol import BUSY, CANCELLED, NOT_LOADED, OTHER_MODEL, Load, Pair, Reply, Stop, Working
from app.protocol.api_messages import PassedReply
from app.window.api.api_requests import GAVE_UP, SILENT, STUCK
from app.window.chat.reply_controller import SERVED_FIRST
from tests.app.window.api.programs import Requests
from tests.app.window.chat.fake_host import text_of
from tests.app.window.chat.scene import Scene
from tests.app.window.stepped_clock import LongWaitsClock
from tests.app.window.waiting import HANG_S, QUICK, until

TEXT = text_of(12)  # of a reply of 4 rounds
REFUSED = (CANCELLED, STUCK)


@contextmanager
def chat_and_programs(folder: Path, timeouts: Any = QUICK, **behaviour: Any) -> Iterator[tuple[Scene, Requests]]:
    """A window, and programs that ask it. behaviour: of the fake host, whose replies have 4 rounds."""
    with Scene(folder, timeouts, **{"rounds": 4, **behaviour}) as scene:
        yield scene, Requests(scene)


def until_running(programs: Requests, waiting: int = 0, tokens: int = 6) -> None:
    """Returns once the host has told a program so many tokens, while others wait."""
    until(lambda: (programs.queue.running_tokens, programs.queue.waiting) == (tokens, waiting))


def order(scene: Scene) -> list[bool]:
    """Returns, of each reply that the host was asked for, whether it was a program's."""
    return [isinstance(one, PassedReply) for one in scene.requests if isinstance(one, Reply | PassedReply)]


def test_the_window_goes_before_programs_that_wait_and_cuts_none(tmp_path: Path) -> None:
    with chat_and_programs(tmp_path, hold_after=2) as (scene, programs):
        asked = [programs.ask() for _ in range(3)]
        until_running(programs, waiting=2)
        assert scene.controller.send("Hello?")
        assert scene.controller.status.detail == SERVED_FIRST
        scene.go_on(2)
        scene.streaming(6)
        assert scene.controller.status.state == "on"
        assert programs.queue.running_tokens is None and programs.queue.waiting == 2
        scene.go_on()
        assert [programs.text(number) for number in asked] == [TEXT] * 3
        assert scene.ended[0].text == TEXT and scene.ended[0].state == "complete"
        assert order(scene) == [True, False, True, True]
        assert scene.notices == []


@pytest.mark.slow
def test_stop_in_the_window_leaves_programs_alone(tmp_path: Path) -> None:
    with chat_and_programs(tmp_path, hold_after=2) as (scene, programs):
        asked = programs.ask()
        until_running(programs)
        assert scene.controller.send("Hello?")
        scene.controller.stop()
        scene.go_on()
        until(lambda: scene.ended)
        assert (scene.ended[0].state, scene.ended[0].text) == ("stopped", "")
        assert programs.text(asked) == TEXT


@pytest.mark.slow
def test_one_that_waits_and_leaves_is_never_asked(tmp_path: Path) -> None:
    with chat_and_programs(tmp_path, hold_after=2) as (scene, programs):
        first, leaves = programs.ask(), programs.ask()
        until_running(programs, waiting=1)
        programs.queue.stop(leaves)
        assert programs.queue.waiting == 0
        scene.go_on()
        assert programs.text(first) == programs.text(programs.ask()) == TEXT
        assert len(order(scene)) == 2 and programs.answers[leaves] == []


@pytest.mark.slow
def test_a_host_that_is_killed_fails_one_request_and_answers_the_next(tmp_path: Path) -> None:
    with chat_and_programs(tmp_path, hold_after=2) as (scene, programs):
        cut, waits = programs.ask(), programs.ask()
        until_running(programs, waiting=1)
        scene.kill_host()
        kind, why = programs.failure(cut)
        assert kind == CANCELLED and "SIGKILL" in why
        until_running(programs)
        scene.go_on()
        assert programs.text(waits) == TEXT


# --- the host hangs ---------------------------------------------------------------------------


@pytest.mark.slow
def test_a_host_that_hangs_fails_all_requests_until_it_is_restarted(tmp_path: Path, long_waits: LongWaitsClock) -> None:
    with chat_and_programs(tmp_path, hang_after=6) as (scene, programs):
        assert programs.text(programs.ask()) == TEXT
        asked = [programs.ask(), programs.ask()]
        until_running(programs, waiting=1)
        assert scene.notices == []
        long_waits.advance(HANG_S)
        asked.append(programs.ask())  # it would wait for ever in the queue
        assert [programs.failure(number) for number in asked] == [REFUSED] * 3
        assert [notice.text for notice in scene.notices] == [SILENT]
        scene.press(SILENT, "Restart Engine")
        until(lambda: programs.queue.running_tokens is None)
        assert programs.text(programs.ask()) == TEXT


@pytest.mark.slow
def test_a_host_that_answers_again_after_it_hung_serves_the_next_request(
    tmp_path: Path, long_waits: LongWaitsClock
) -> None:
    with chat_and_programs(tmp_path, hold_after=2) as (scene, programs):
        cut = programs.ask()
        until_running(programs)
        os.kill(scene.process.pid, signal.SIGSTOP)
        long_waits.advance(HANG_S)
        assert programs.failure(cut) == REFUSED
        long_waits.advance(HANG_S)
        assert [notice.text for notice in scene.notices] == [SILENT]
        os.kill(scene.process.pid, signal.SIGCONT)
        until(lambda: programs.queue.running_tokens is None)
        scene.go_on()
        assert programs.text(programs.ask()) == TEXT
        assert len(scene.requested(Stop)) == 1


@pytest.mark.slow
def test_programs_wait_for_a_host_that_stops_late(tmp_path: Path, long_waits: LongWaitsClock) -> None:
    """One program leaves, and the host does not stop in time, as in a long pass; but it does stop."""
    with chat_and_programs(tmp_path, changed(QUICK, stop_s=HANG_S / 2), hold_after=2) as (scene, programs):
        leaves, waits = programs.ask(), programs.ask()
        until_running(programs, waiting=1)
        os.kill(scene.process.pid, signal.SIGSTOP)
        programs.queue.stop(leaves)
        long_waits.advance(HANG_S / 2)
        assert [notice.text for notice in scene.notices] == [SILENT] and programs.queue.waiting == 1
        os.kill(scene.process.pid, signal.SIGCONT)
        until_running(programs)
        scene.go_on()
        assert programs.text(waits) == TEXT


@pytest.mark.slow
@pytest.mark.parametrize("how", ["reply", "stopped reply", "check"])
def test_programs_behind_what_the_window_asked_and_hangs_are_refused(
    tmp_path: Path, long_waits: LongWaitsClock, how: str
) -> None:
    with chat_and_programs(tmp_path, hang_after=6) as (scene, programs):
        record = scene.ask()
        if how == "check":
            os.kill(scene.process.pid, signal.SIGSTOP)
            assert scene.controller.verify(record.id)
        else:
            assert scene.controller.send("Hello?")
            scene.streaming(6)
        if how == "stopped reply":
            scene.controller.stop()
        asked = [programs.ask(), programs.ask()]
        assert programs.queue.waiting == 2
        long_waits.advance(HANG_S)
        asked.append(programs.ask())
        assert [programs.failure(number) for number in asked] == [REFUSED] * 3
        assert order(scene) == [False] * (1 if how == "check" else 2) and len(scene.ended) == 1
        scene.controller.host.restart()
        until(lambda: not scene.controller.host.stuck and not scene.controller.in_use)
        assert programs.text(programs.ask()) == TEXT


@pytest.mark.slow
def test_programs_may_ask_again_once_the_windows_reply_goes_on(tmp_path: Path, long_waits: LongWaitsClock) -> None:
    with chat_and_programs(tmp_path, hold_after=2) as (scene, programs):
        assert scene.controller.send("Hello?")
        scene.streaming(6)
        long_waits.advance(HANG_S)
        assert programs.failure(programs.ask()) == REFUSED
        scene.go_on()
        until(lambda: not scene.controller.host.stuck)
        assert programs.text(programs.ask()) == TEXT
        assert scene.ended[0].state == "complete" and scene.ended[0].text == TEXT


@pytest.mark.slow
def test_programs_wait_for_a_window_that_says_that_it_works(tmp_path: Path, long_waits: LongWaitsClock) -> None:
    heard: list[Any] = []
    with chat_and_programs(tmp_path, works=2, hold_at=("work",)) as (scene, programs):
        scene.process.answered.connect(heard.extend)
        assert scene.controller.send("Hello?")
        asked = programs.ask()
        for number in (1, 2):
            long_waits.advance(0.9 * HANG_S)
            scene.go_on(1)
            until(lambda number=number: sum(isinstance(one, Working) for one in heard) == number)
        scene.go_on()
        assert programs.text(asked) == TEXT == scene.ended[0].text and scene.notices == []


@pytest.mark.slow
def test_programs_behind_a_load_that_makes_no_progress_are_refused(tmp_path: Path, long_waits: LongWaitsClock) -> None:
    with chat_and_programs(tmp_path, hold_at=("load",)) as (scene, programs):
        waits = programs.ask()
        until(lambda: scene.controller.status.detail == "Reading weights")
        long_waits.advance(HANG_S)
        assert programs.failure(waits) == programs.failure(programs.ask()) == REFUSED
        scene.go_on()
        until(lambda: not scene.controller.host.stuck)
        assert programs.text(programs.ask()) == TEXT


# --- no host, no models, other models ---------------------------------------------------------


@pytest.mark.slow
def test_a_host_that_is_given_up_fails_all_requests(tmp_path: Path) -> None:
    with chat_and_programs(tmp_path, changed(QUICK, quick_s=HANG_S, restart_s=()), kill_after=3) as (scene, programs):
        assert programs.failure(programs.ask())[0] == CANCELLED
        until(lambda: scene.controller.host.gave_up)
        assert programs.failure(programs.ask()) == (NOT_LOADED, GAVE_UP)


def test_another_model_of_the_window_is_never_answered_with_silently(tmp_path: Path) -> None:
    with chat_and_programs(tmp_path, hold_after=2) as (scene, programs):
        first = programs.ask()
        until_running(programs)
        settings = scene.controller.conversation.settings
        scene.controller.change_settings(replace(settings, pair=Pair(target="another")))
        old = programs.ask(target=settings.pair.target)
        scene.go_on()
        assert programs.text(first) == TEXT
        assert programs.failure(old)[0] == OTHER_MODEL
        assert scene.loaded_pair() == Pair(target="another") and programs.text(programs.ask()) == TEXT


@pytest.mark.slow
def test_a_request_loads_models_that_were_unloaded(tmp_path: Path) -> None:
    with chat_and_programs(tmp_path) as (scene, programs):
        scene.ready()
        scene.controller.pair.unload()
        assert programs.text(programs.ask()) == TEXT
        assert len(scene.requested(Load)) == 2


@pytest.mark.slow
def test_models_that_do_not_load_are_an_error_for_programs(tmp_path: Path) -> None:
    with chat_and_programs(tmp_path, fail_load="broken") as (scene, programs):
        settings = scene.controller.conversation.settings
        scene.controller.change_settings(replace(settings, pair=Pair(drafter="broken")))
        until(lambda: scene.controller.host.failure)
        kind, why = programs.failure(programs.ask())
        assert kind == NOT_LOADED and "broken does not fit" in why


@pytest.mark.slow
def test_programs_wait_for_a_race(tmp_path: Path) -> None:
    with chat_and_programs(tmp_path) as (scene, programs):
        scene.ready()
        scene.controller.host.racing = True
        asked = programs.ask()
        programs.queue._retry.timeout.emit()
        assert programs.queue.running_tokens is None and programs.queue.waiting == 1 and order(scene) == []
        scene.controller.host.racing = False
        assert programs.text(asked) == TEXT


@pytest.mark.slow
def test_the_window_is_kept_awake_while_programs_wait(tmp_path: Path, activities: list[str]) -> None:
    with chat_and_programs(tmp_path, hold_after=2) as (scene, programs):
        until(lambda: activities and activities[-1] == "ends")
        asked = [programs.ask(), programs.ask()]
        until_running(programs, waiting=1)
        assert activities[-1] == "begins"
        scene.go_on()
        assert [programs.text(number) for number in asked] == [TEXT] * 2
        until(lambda: activities == ["begins", "ends"] * (len(activities) // 2))


@pytest.mark.slow
def test_no_more_waits_than_memory_should_hold(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("app.window.api.api_requests.MAX_WAITING_BYTES", 250)
    with chat_and_programs(tmp_path) as (_, programs):
        asked = [programs.ask() for _ in range(3)]
        assert programs.failure(asked[2])[0] == BUSY
        assert [programs.text(number) for number in asked[:2]] == [TEXT] * 2
