"""Failures of engine and disk while a reply streams: nothing is lost, and every failure is reported."""

import json
import os
import random
import signal
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from PySide6.QtGui import QGuiApplication

from app.protocol import LONGEST_LINE, Count, Message, RoundDone, SamplingSettings, Working
from app.reply import Reply
from app.store import Store
from app.store.records import ChatSettings
from app.window.common.timer import call_later
from engine.events import Round
from tests.app.store.toys import crash
from tests.app.window.chat.fake_host import text_of
from tests.app.window.chat.scene import Disk, Scene, reopened, whole_path
from tests.app.window.stepped_clock import LongWaitsClock
from tests.app.window.waiting import HANG_S, QUICK, until

# --- the engine dies --------------------------------------------------------------------------


@pytest.mark.slow
def test_a_host_killed_at_random_moments_loses_nothing(tmp_path: Path) -> None:
    chance = random.Random(4)
    kept: dict[int, str] = {}
    with Scene(tmp_path, rounds=200, hold_after=1) as scene:
        for number in range(6):
            scene.ready()
            assert scene.controller.send(f"question {number}")
            message = scene.controller.path[-1].id
            rounds = chance.randrange(60)
            scene.go_on(rounds)
            until(lambda number=number: scene.process.phase == "ready" and len(scene.began) > number)
            if number % 2:
                scene.streaming(3 * rounds)
            scene.kill_host()
            until(lambda number=number: len(scene.ended) > number)
            cut = scene.ended[-1]
            assert cut.id == message and cut.state == "cut" and "was killed (SIGKILL" in cut.note
            assert cut.text == scene.text(message) == text_of(len(scene.tokens(message)))
            assert (cut.statistics.tokens if cut.statistics else 0) == len(scene.tokens(message))
            assert scene.states[-1] == "host down" and scene.notice("The text so far is saved")
            kept[message] = cut.text
    path = whole_path(tmp_path)
    assert {record.id: record.text for record in path if record.role == "assistant"} == kept
    assert all(record.state == "cut" for record in path if record.role == "assistant")


@pytest.mark.slow
def test_a_cut_reply_can_be_continued_before_the_engine_is_back(tmp_path: Path) -> None:
    with Scene(tmp_path, replace(QUICK, restart_s=(HANG_S,) * 4), rounds=40, kill_after=8) as scene:
        scene.controller.send("go on")
        for cuts in range(1, 4):
            until(lambda cuts=cuts: len(scene.ended) == cuts)
            assert scene.process.phase == "down"
            scene.press("The text so far is saved", "Continue")
        until(lambda: len(scene.ended) == 4)
        assert scene.ended[-1].text == scene.text(scene.ended[0].id) == text_of(8 * 3 * 4)
        assert len({record.id for record in scene.ended}) == 1 and len(scene.controller.path) == 2


@pytest.mark.slow
def test_a_cut_reply_of_a_deleted_conversation_is_not_offered(tmp_path: Path) -> None:
    with Scene(tmp_path, rounds=40, hold_after=2) as scene:
        scene.controller.send("go on")
        scene.streaming()
        scene.kill_host()
        scene.controller.deletion.delete(scene.controller.conversation.id)
        until(lambda: "host down" in scene.states)
        scene.ready()
        assert not scene.notice("The text so far is saved")


def test_a_death_without_a_reply_is_reported_and_the_engine_restarts(tmp_path: Path) -> None:
    with Scene(tmp_path, stderr="out of tea\n") as scene:
        scene.ready()
        scene.kill_host()
        until(lambda: scene.notice("is restarting"))
        assert scene.controller.pair.status.state == "host down"
        assert "out of tea" in scene.controller.host.error_report()
        scene.press("is restarting", "Copy Report")
        assert "out of tea" in QGuiApplication.clipboard().text()
        scene.ready()
        assert scene.ask().state == "complete"


@pytest.mark.slow
def test_an_engine_that_keeps_dying_is_given_up_and_a_waiting_reply_ends(tmp_path: Path) -> None:
    with Scene(tmp_path, kill_on_load=True) as scene:
        scene.controller.send("hi")
        until(lambda: scene.ended)
        assert scene.process.phase == "failed" and scene.ended[0].state == "cut"
        assert "before writing this reply" in scene.ended[0].note
        assert scene.notice("each time it was restarted")
        assert "not restart automatically" in scene.controller.pair.status.detail
        scene.notices.clear()
        scene.controller.resume(scene.ended[0].id)  # asks for another engine, too
        until(lambda: scene.notice("each time it was restarted"))
        scene.notices.clear()
        scene.controller.host.restart()
        until(lambda: scene.notice("each time it was restarted"))


def test_a_failure_during_a_reply_keeps_the_text_and_the_reason(tmp_path: Path) -> None:
    with Scene(tmp_path, rounds=40, fail_after=5) as scene:
        record = scene.ask()
        assert record.state == "failed" and record.text == text_of(15)
        assert record.note == "The device is gone: plug it in."


def test_falling_back_is_a_status_and_a_note(tmp_path: Path) -> None:
    with Scene(tmp_path, rounds=9, fall_back_after=4) as scene:
        record = scene.ask()
        assert record.state == "complete" and record.note == "Fell back to plain decoding: the drafter broke."
        assert scene.states[-1] == "fell back" and scene.controller.pair.status.detail == "The drafter broke"
        scene.ask("again")
        assert scene.states[-1] == "on"


def test_the_status_says_why_nothing_was_drafted_for_the_last_reply(tmp_path: Path) -> None:
    plain = Reply()
    plain.metrics.add(Round(0, (1,), (), 0, (1.0,), (), 1, 0.1, "drafting is not worthwhile here"))
    with Scene(tmp_path, rounds=3) as scene:
        scene.ask()
        before = scene.controller.pair.status
        scene.controller.replies._show_drafting(Reply())
        assert scene.controller.pair.status == before
        scene.controller.replies._show_drafting(plain)
        detail = "In the last reply nothing was drafted: drafting is not worthwhile here."
        assert scene.controller.pair.status == replace(before, detail=detail)
        scene.ask("again")  # whose rounds have drafts
        assert scene.controller.pair.status == before


# --- the engine hangs or is late --------------------------------------------------------------


@pytest.mark.parametrize(("place", "text"), [("ready", "has not started after"), ("load", "no progress")])
def test_a_slow_engine_is_reported_and_can_be_restarted(
    tmp_path: Path, long_waits: LongWaitsClock, place: str, text: str
) -> None:
    with Scene(tmp_path, hold_at=(place,)) as scene:
        if place == "load":
            until(lambda: scene.controller.pair.status.detail == "Reading weights")
        long_waits.advance(HANG_S)
        assert scene.notice(text)
        assert scene.controller.pair.status.state == "loading"
        assert scene.controller.host.stuck
        pid = scene.process.pid
        scene.press(text, "Restart Engine")
        until(lambda: scene.process.pid not in (0, pid))
        assert "host down" not in scene.states


def test_a_silent_engine_is_reported_and_a_restart_keeps_the_reply(
    tmp_path: Path, long_waits: LongWaitsClock, activities: list[str]
) -> None:
    with Scene(tmp_path, rounds=40, hang_after=5) as scene:
        scene.controller.send("hi")
        scene.streaming(15)
        long_waits.advance(HANG_S)
        assert scene.notice("has not responded for")
        assert activities[-1] == "ends"  # the Mac may sleep
        scene.controller.stop()
        long_waits.advance(HANG_S)
        scene.press("has not stopped yet", "Restart Engine")
        until(lambda: scene.ended)
        assert scene.ended[0].state == "stopped" and scene.ended[0].text == text_of(15)
        scene.ready()
        assert scene.controller.pair.status.state == "on"


@pytest.mark.slow
def test_an_engine_that_was_stuck_before_a_request_is_reported(tmp_path: Path, long_waits: LongWaitsClock) -> None:
    with Scene(tmp_path) as scene:
        scene.ready()
        host = scene.controller.host
        os.kill(scene.process.pid, signal.SIGSTOP)
        try:
            asked = (Message(role="user", content="hi"),)
            host.request(Count(id=0, messages=asked, sampling=SamplingSettings()), lambda _: None)
            long_waits.advance(HANG_S)
            assert host.stuck and not scene.notices
            scene.controller.send("hi")
            later: list[bool] = []
            call_later(host, lambda: later.append(True))
            until(lambda: later)
            assert scene.notice("has not responded for")
        finally:
            os.kill(scene.process.pid, signal.SIGCONT)


@pytest.mark.slow
def test_an_engine_that_says_that_it_works_is_not_reported(tmp_path: Path, long_waits: LongWaitsClock) -> None:
    with Scene(tmp_path, works=3, hold_at=("work",)) as scene:
        scene.controller.send("hi")
        for number in range(1, 4):
            long_waits.advance(0.9 * HANG_S)
            scene.go_on(1)
            until(lambda number=number: sum(isinstance(one, Working) for one in scene.answers) == number)
        until(lambda: scene.ended)
        assert scene.ended[0].state == "complete" and not scene.notices


@pytest.mark.slow
def test_an_engine_is_not_stuck_where_the_window_stood_still(tmp_path: Path, long_waits: LongWaitsClock) -> None:
    """As after the computer slept: what the engine said meanwhile has not been read yet."""
    with Scene(tmp_path, rounds=10, hold_after=3) as scene:
        scene.controller.send("Hello?")
        scene.streaming(9)
        long_waits.time_s += 2 * HANG_S
        long_waits.advance(0.0)
        assert not scene.controller.host.stuck
        scene.go_on()
        until(lambda: scene.ended)
        assert scene.ended[0].state == "complete"


def test_quitting_during_a_reply_saves_it(tmp_path: Path) -> None:
    with Scene(tmp_path, rounds=1000, hold_after=30) as scene:
        scene.controller.send("hi")
        message, pid = scene.streaming(90), scene.process.pid
        scene.controller.close()
        with pytest.raises(ProcessLookupError):
            os.kill(pid, 0)
    record = whole_path(tmp_path)[-1]
    assert record.state == "stopped" and record.text == text_of(len(scene.tokens(message)))
    assert "quit" in record.note and record.statistics is not None


# --- the engine talks nonsense ----------------------------------------------------------------


@pytest.mark.slow_for("unknown", "late", "overlong", "deep", "several")
@pytest.mark.parametrize(
    "bad",
    [
        pytest.param({"bad_line": '{"type": "Told"}'}, id="no answer"),
        pytest.param({"bad_line": '{"type":"Counted","id":99,"tokens":1,"context":1}'}, id="unknown"),
        pytest.param({"bad_line": '{"type":"Malformed","reason":"no such request","line":"x"}'}, id="late"),
        pytest.param({"overlong_bytes": LONGEST_LINE + 1}, id="overlong"),
        pytest.param({"bad_line": "[" * 50_000}, id="deep"),
        pytest.param({"bad_line": "one bad line\nand another"}, id="several"),
    ],
)
def test_a_bad_line_is_reported_once_and_loses_nothing(tmp_path: Path, bad: dict[str, Any]) -> None:
    with Scene(tmp_path, rounds=10, **bad) as scene:
        record = scene.ask()
        assert record.state == "complete" and record.text == text_of(30)
        assert len(scene.notices) == 1 and scene.notices[0].level == "warning"


@pytest.mark.slow
def test_a_conversation_too_long_for_the_protocol_fails_at_once_and_the_next_is_answered(tmp_path: Path) -> None:
    with Scene(tmp_path, rounds=2) as scene:
        scene.ready()
        assert scene.controller.send("x" * LONGEST_LINE)
        until(lambda: scene.ended)
        assert scene.ended[0].state == "failed" and "longer than the 8 MB" in scene.ended[0].note
        scene.controller.new()
        assert scene.ask("short").state == "complete"


@pytest.mark.slow
def test_a_missing_round_ends_the_reply_and_what_follows_is_ignored(tmp_path: Path) -> None:
    with Scene(tmp_path, rounds=20, skip_after=6) as scene:
        record = scene.ask()
        assert record.state == "failed" and record.text == text_of(18)
        assert "received round 7, expected round 6" in record.note and scene.notice("inconsistent data")
        scene.controller.new()
        assert scene.ask("next").state == "complete"  # all that followed was read before
        assert scene.controller.rounds_of(record.id)[-1].round.index == 5 and len(scene.notices) == 1


# --- the disk ---------------------------------------------------------------------------------


def test_nothing_is_shown_before_it_is_on_disk(tmp_path: Path) -> None:
    with Scene(tmp_path, rounds=60) as scene:
        beside = reopened(tmp_path)
        missing: list[list[RoundDone]] = []

        def compare(message: int, _: object) -> None:
            if (saved := beside.rounds(message)) != scene.rounds[message]:
                missing.append(scene.rounds[message][len(saved) :])

        scene.controller.replies.changed.connect(compare)
        assert scene.ask().text == text_of(180)
        assert missing == [] and scene.text(scene.ended[0].id) == text_of(180)
        beside.close()


@pytest.mark.slow
def test_a_reply_that_was_cut_continued_and_killed_with_the_window_has_the_numbers_of_all_of_it(tmp_path: Path) -> None:
    with Scene(tmp_path, rounds=400, hold_after=20) as scene:
        scene.controller.send("hi")
        message = scene.streaming(60)
        scene.kill_host()
        until(lambda: scene.ended)
        assert scene.ended[0].statistics is not None and scene.ended[0].statistics.tokens == 60
        scene.press("The text so far is saved", "Continue")
        scene.streaming(120)
        whole = crash(scene.controller.library.store, tmp_path / "conversations.sqlite", tmp_path / "killed")
    opened = Store.open(whole).store
    cut = opened.message(message)
    assert cut.state == "cut" and cut.text == text_of(120)
    assert cut.statistics is not None and (cut.statistics.tokens, cut.statistics.rounds) == (120, 40)
    assert cut.statistics.prompt_tokens == 30
    opened.close()


@pytest.mark.slow
def test_a_reply_continues_on_a_full_disk_and_is_saved_when_there_is_room(tmp_path: Path) -> None:
    store = reopened(tmp_path)
    disk = Disk(store)
    with Scene(tmp_path, store=store, rounds=900, hold_after=2) as scene:
        scene.controller.send("hi")
        message = scene.streaming()
        with disk:
            scene.go_on(400)
            until(lambda: scene.notice("the disk is full"))
            shown = len(scene.tokens(message))
            scene.go_on(20)
            until(lambda: len(scene.tokens(message)) > shown)
            assert [notice.level for notice in scene.notices] == ["error"]
            assert len(scene.controller.rounds_of(message)) * 3 >= shown
        scene.press("the disk is full", "Try Now")
        until(lambda: scene.notice("all pending changes have been saved"))
        scene.go_on()
        until(lambda: scene.ended)
        assert scene.ended[0].text == text_of(2700)
    assert whole_path(tmp_path)[-1] == scene.ended[0]


@pytest.mark.slow
def test_a_reply_that_ends_on_a_full_disk_stays_on_screen_and_is_saved_later(tmp_path: Path) -> None:
    store = reopened(tmp_path)
    disk = Disk(store)
    with Scene(tmp_path, store=store, rounds=400, hold_after=2) as scene:
        scene.controller.send("hi")
        message = scene.streaming()
        with disk:
            scene.go_on()
            until(lambda: scene.ended)
            assert scene.ended[0].state == "complete" and scene.ended[0].text == text_of(1200)
            conversation = scene.controller.conversation.id
            scene.controller.new()
            scene.controller.open(conversation)
            assert scene.controller.path[-1] == scene.ended[0]
            assert len(scene.controller.rounds_of(message)) == 400
            exported = json.loads(scene.controller.library.export_json(conversation))["messages"][-1]
            assert (exported["state"], len(exported["rounds"])) == ("complete", 400)
            assert "Cut." not in scene.controller.library.export_markdown(conversation)
        until(lambda: scene.notice("all pending changes have been saved"))
    assert whole_path(tmp_path)[-1].text == text_of(1200)


def test_a_message_that_cannot_be_saved_is_not_taken_and_can_be_sent_again(tmp_path: Path) -> None:
    store = reopened(tmp_path)
    with Scene(tmp_path, store=store, rounds=2) as scene:
        scene.ready()
        store._database.connection.execute("PRAGMA query_only = ON")
        assert not scene.controller.send("keep me")
        assert scene.notice("can only be read") and scene.controller.path == []
        store._database.connection.execute("PRAGMA query_only = OFF")
        scene.press("can only be read", "Try Again")
        until(lambda: scene.ended)
        assert [record.text for record in scene.controller.path] == ["keep me", text_of(6)]


def test_every_action_on_a_read_only_store_is_reported_once(tmp_path: Path) -> None:
    store = reopened(tmp_path)
    with Scene(tmp_path, store=store, rounds=2) as scene:
        reply = scene.ask()
        controller, conversation = scene.controller, scene.controller.conversation.id
        controller.change_settings(ChatSettings(sampling=SamplingSettings(temperature=1.0)))
        store._database.connection.execute("PRAGMA query_only = ON")
        verbs: list[Any] = [
            lambda: controller.library.rename(conversation, "x"),
            lambda: controller.library.pin(conversation, True),
            lambda: controller.deletion.delete(conversation),
            lambda: controller.regenerate(reply.id),
            lambda: controller.edit(controller.path[0].id, "y"),
            lambda: controller.select(reply.id),
            lambda: controller.library.save_preset("p", controller.conversation.settings),
        ]
        for verb in verbs:
            before = len(scene.notices)
            verb()
            assert len(scene.notices) == before + 1 and "can only be read" in scene.notices[-1].text
        before = len(scene.notices)
        for number in range(20):
            controller.library.set_value("window", str(number))
        assert len(scene.notices) == before + 1
        assert controller.path[-1] == reply and not controller.busy
        store._database.connection.execute("PRAGMA query_only = OFF")
