"""Failures of engine and disk while a reply streams: nothing is lost, and every failure is reported."""

from __future__ import annotations

import json
import os
import random
import signal
import sqlite3
import time
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from PySide6.QtGui import QGuiApplication

from app.protocol import LONGEST_LINE, Count, Message, SamplingSettings
from app.store.records import ChatSettings
from app.window.chat.host_process import Timeouts
from tests.app.window.chat.fake_host import text_of
from tests.app.window.chat.scene import Disk, Scene, reopened, whole_path
from tests.app.window.waiting import for_a_while, until

FOREVER: dict[str, Any] = {"rounds": 1_000_000, "pause_s": 0.002}


# --- the engine dies --------------------------------------------------------------------------


@pytest.mark.slow
def test_a_host_killed_at_random_moments_loses_nothing(tmp_path: Path) -> None:
    chance = random.Random(4)
    kept: dict[int, str] = {}
    with Scene(tmp_path, **FOREVER) as scene:
        for number in range(10):
            scene.ready()
            assert scene.controller.send(f"question {number}")
            message = scene.controller.path[-1].id
            before = len(scene.ended)
            moment = time.monotonic() + chance.random() * 0.4
            until(lambda moment=moment: scene.process.phase == "ready" and time.monotonic() >= moment)
            os.kill(scene.process.pid, signal.SIGKILL)
            until(lambda before=before: len(scene.ended) > before)
            cut = scene.ended[-1]
            assert cut.id == message and cut.state == "cut" and "was killed (SIGKILL" in cut.note
            assert cut.text == scene.text(message) == text_of(len(scene.tokens(message)))
            assert (cut.statistics.tokens if cut.statistics else 0) == len(scene.tokens(message))
            assert scene.states[-1] == "host down" and scene.notice("The text so far is saved")
            kept[message] = cut.text
        assert max(len(text) for text in kept.values()) > 100
    path = whole_path(tmp_path)
    assert {record.id: record.text for record in path if record.role == "assistant"} == kept
    assert all(record.state == "cut" for record in path if record.role == "assistant")


@pytest.mark.slow
def test_a_cut_reply_can_be_continued_before_the_engine_is_back(tmp_path: Path) -> None:
    with Scene(tmp_path, rounds=40, pause_s=0.005, kill_after=8) as scene:
        scene.controller.send("go on")
        for cuts in range(1, 4):
            until(lambda cuts=cuts: len(scene.ended) == cuts)
            assert scene.process.phase in ("down", "starting")
            scene.press("The text so far is saved", "Continue")
        until(lambda: len(scene.ended) == 4)
        assert scene.ended[-1].text == scene.text(scene.ended[0].id) == text_of(8 * 3 * 4)
        assert len({record.id for record in scene.ended}) == 1 and len(scene.controller.path) == 2


@pytest.mark.slow
def test_a_cut_reply_of_a_deleted_conversation_is_not_offered(tmp_path: Path) -> None:
    with Scene(tmp_path, rounds=40, pause_s=0.005) as scene:
        scene.controller.send("go on")
        until(lambda: scene.tokens(scene.controller.path[-1].id))
        os.kill(scene.process.pid, signal.SIGKILL)
        scene.controller.delete(scene.controller.conversation.id)
        scene.ready()
        for_a_while(0.2)
        assert not scene.notice("The text so far is saved")


def test_a_death_without_a_reply_is_reported_and_the_engine_restarts(tmp_path: Path) -> None:
    with Scene(tmp_path, stderr="out of tea\n") as scene:
        scene.ready()
        os.kill(scene.process.pid, signal.SIGKILL)
        until(lambda: scene.notice("is restarting"))
        assert scene.controller.status.state == "host down"
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
        assert (
            scene.notice("each time it was restarted") and "not restart automatically" in scene.controller.status.detail
        )
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
        assert scene.states[-1] == "fell back" and scene.controller.status.detail == "The drafter broke"
        scene.ask("again")
        assert scene.states[-1] == "on"


# --- the engine hangs or is late --------------------------------------------------------------


@pytest.mark.slow_for("*no progress")
@pytest.mark.parametrize(
    ("timeouts", "behaviour", "text"),
    [
        ({"ready_s": 0.1}, {"ready_s": 30.0}, "has not started after"),
        ({"load_s": 0.1}, {"load_s": 60.0}, "no progress"),
    ],
)
def test_a_slow_engine_is_reported_and_can_be_restarted(
    tmp_path: Path, timeouts: dict[str, float], behaviour: dict[str, float], text: str
) -> None:
    with Scene(tmp_path, Timeouts(restart_s=(0.01,) * 9, quit_s=0.2, **timeouts), **behaviour) as scene:
        until(lambda: scene.notice(text))
        assert scene.controller.status.state == "loading"
        assert scene.controller.host.stuck
        pid = scene.process.pid
        scene.press(text, "Restart Engine")
        until(lambda: scene.process.pid not in (0, pid))
        assert "host down" not in scene.states


def test_a_silent_engine_is_reported_and_a_restart_keeps_the_reply(tmp_path: Path, activities: list[str]) -> None:
    timeouts = Timeouts(silent_s=0.2, stop_s=0.2, restart_s=(0.01,) * 9, quit_s=0.2)
    with Scene(tmp_path, timeouts, rounds=40, hang_after=5) as scene:
        scene.controller.send("hi")
        until(lambda: scene.notice("has not responded for"))
        assert activities[-1] == "ends"  # the Mac may sleep
        scene.controller.stop()
        until(lambda: scene.notice("has not stopped yet"))
        scene.press("has not stopped yet", "Restart Engine")
        until(lambda: scene.ended)
        assert scene.ended[0].state == "stopped" and scene.ended[0].text == text_of(15)
        scene.ready()
        assert scene.controller.status.state == "on"


@pytest.mark.slow
def test_an_engine_that_was_stuck_before_a_request_is_reported(tmp_path: Path) -> None:
    with Scene(tmp_path, Timeouts(silent_s=0.3)) as scene:
        scene.ready()
        host = scene.controller.host
        os.kill(scene.process.pid, signal.SIGSTOP)
        try:
            asked = (Message(role="user", content="hi"),)
            host.request(Count(id=0, messages=asked, sampling=SamplingSettings()), lambda _: None)
            until(lambda: host.stuck)
            assert not scene.notices
            scene.controller.send("hi")
            until(lambda: scene.notice("has not responded for"))
        finally:
            os.kill(scene.process.pid, signal.SIGCONT)


@pytest.mark.slow
def test_an_engine_that_says_that_it_works_is_not_reported(tmp_path: Path) -> None:
    with Scene(tmp_path, Timeouts(silent_s=0.3), measure_s=0.9) as scene:
        assert scene.ask().state == "complete"
        assert not scene.notices


@pytest.mark.slow
def test_an_engine_is_not_stuck_where_the_window_stood_still(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As after the computer slept: what the engine said meanwhile has not been read yet."""
    monkeypatch.setattr("app.window.chat.host_connection.LATE_S", 0.1)
    stuck: list[bool] = []
    with Scene(tmp_path, Timeouts(silent_s=0.5), rounds=10, pause_s=0.1) as scene:
        scene.controller.host.became_stuck.connect(lambda: stuck.append(True))
        scene.controller.send("Hello?")
        scene.streaming(3)
        time.sleep(0.9)
        until(lambda: scene.ended)
        assert scene.ended[0].state == "complete" and not stuck


@pytest.mark.slow_for("True")
@pytest.mark.parametrize("stuck", [False, True])
def test_quitting_during_a_reply_saves_it_and_takes_two_seconds_at_most(tmp_path: Path, stuck: bool) -> None:
    behaviour = {"hang_after": 30} if stuck else {}
    with Scene(tmp_path, Timeouts(), **FOREVER | behaviour) as scene:
        scene.controller.send("hi")
        message = scene.streaming(90)
        pid, began = scene.process.pid, time.monotonic()
        scene.controller.close()
        assert time.monotonic() - began < 2
        with pytest.raises(ProcessLookupError):
            os.kill(pid, 0)
    record = whole_path(tmp_path)[-1]
    assert record.state == "stopped" and record.text == text_of(len(scene.tokens(message)))
    assert "quit" in record.note and record.statistics is not None


# --- the engine talks nonsense ----------------------------------------------------------------


@pytest.mark.slow_for("bad[12]")
@pytest.mark.parametrize(
    "bad",
    [
        {"bad_line": '{"type": "Told"}'},
        {"bad_line": '{"type":"ReplyDone","id":77,"finished":{"reason":"eos","tokens":0,"time_s":1},"seed":1}'},
        {"overlong_bytes": LONGEST_LINE + 1},
        *(
            pytest.param({"bad_line": line}, marks=pytest.mark.slow)
            for line in (
                '{"type":"Counted","id":1e99,"tokens":1,"context":1}',
                '{"type":"Counted","id":99,"tokens":1,"context":1}',
                '{"type":"Malformed","reason":"no such request","line":"x"}',
                "[" * 50_000,
                "one bad line\nand another",
            )
        ),
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
        until(lambda: len(scene.ended) == 1)
        assert scene.ended[0].state == "failed" and "longer than the 8 MB" in scene.ended[0].note
        scene.controller.new()
        assert scene.controller.send("short")
        until(lambda: len(scene.ended) == 2)
        assert scene.ended[1].state == "complete"


@pytest.mark.slow
def test_a_missing_round_ends_the_reply_and_what_follows_is_ignored(tmp_path: Path) -> None:
    with Scene(tmp_path, rounds=20, skip_after=6, pause_s=0.0) as scene:
        record = scene.ask()
        assert record.state == "failed" and record.text == text_of(18)
        assert "received round 7, expected round 6" in record.note and scene.notice("inconsistent data")
        scene.controller.new()
        for_a_while(0.05)
        assert scene.controller.rounds_of(record.id)[-1].round.index == 5 and len(scene.notices) == 1


# --- the disk ---------------------------------------------------------------------------------


def test_nothing_is_shown_before_it_is_on_disk(tmp_path: Path) -> None:
    with Scene(tmp_path, rounds=60, pause_s=0.001) as scene:
        beside = sqlite3.connect(tmp_path / "conversations.sqlite")
        missing: list[str] = []

        def compare(message: int, _: object) -> None:
            ((saved,),) = beside.execute("SELECT text FROM message WHERE id = ?", (message,)).fetchall()
            if not saved.startswith(scene.text(message)):
                missing.append(scene.text(message).removeprefix(saved))

        scene.controller.rounds_received.connect(compare)
        assert scene.ask().text == text_of(180)
        assert missing == [] and scene.text(scene.ended[0].id) == text_of(180)
        beside.close()


@pytest.mark.slow
def test_a_window_that_stalls_keeps_nothing_from_the_disk(tmp_path: Path) -> None:
    with Scene(tmp_path, **FOREVER) as scene:
        scene.controller.send("hi")
        message = scene.streaming(30)
        shown = scene.text(message)
        scene.controller.replies.flush()
        time.sleep(0.3)  # no event of Qt is handled
        assert reopened_beside(tmp_path, message).startswith(shown)


def reopened_beside(folder: Path, message: int) -> str:
    """Returns the text of a message as another process reads it."""
    with closing(sqlite3.connect(folder / "conversations.sqlite")) as beside:
        return str(beside.execute("SELECT text FROM message WHERE id = ?", (message,)).fetchone()[0])


@pytest.mark.slow
def test_a_reply_continues_on_a_full_disk_and_is_saved_when_there_is_room(tmp_path: Path) -> None:
    store = reopened(tmp_path)
    disk = Disk(store)
    with Scene(tmp_path, store=store, rounds=900, pause_s=0.001) as scene:
        scene.controller.send("hi")
        message = scene.streaming()
        with disk:
            until(lambda: scene.notice("the disk is full"))
            shown = len(scene.tokens(message))
            until(lambda: len(scene.tokens(message)) > shown + 60)
            assert [notice.level for notice in scene.notices] == ["error"]
            assert len(scene.controller.rounds_of(message)) * 3 >= shown
        scene.press("the disk is full", "Try Now")
        until(lambda: scene.notice("all pending changes have been saved"))
        until(lambda: scene.ended)
        assert scene.ended[0].text == text_of(2700)
    assert whole_path(tmp_path)[-1] == scene.ended[0]


@pytest.mark.slow
def test_a_reply_that_ends_on_a_full_disk_stays_on_screen_and_is_saved_later(tmp_path: Path) -> None:
    store = reopened(tmp_path)
    disk = Disk(store)
    with Scene(tmp_path, store=store, rounds=400, pause_s=0.001) as scene:
        scene.controller.send("hi")
        message = scene.streaming()
        with disk:
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
        exported = tmp_path / "exported.json"
        exported.write_text(controller.library.export_json(conversation))
        controller.change_settings(ChatSettings(sampling=SamplingSettings(temperature=1.0)))
        store._database.connection.execute("PRAGMA query_only = ON")
        verbs: list[Any] = [
            lambda: controller.library.rename(conversation, "x"),
            lambda: controller.library.pin(conversation, True),
            lambda: controller.delete(conversation),
            lambda: controller.regenerate(reply.id),
            lambda: controller.edit(controller.path[0].id, "y"),
            lambda: controller.select(reply.id),
            lambda: controller.library.save_preset("p", controller.conversation.settings),
            lambda: controller.import_file(str(exported)),
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
