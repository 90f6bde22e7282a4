"""What goes wrong with engine and disk while a reply streams: nothing told is lost, nothing happens in silence."""

from __future__ import annotations

import os
import random
import signal
import sqlite3
import time
from pathlib import Path
from typing import Any

import pytest
from PySide6.QtGui import QGuiApplication
from PySide6.QtWidgets import QApplication

from app.protocol import LONGEST_LINE
from app.store import Store
from app.window.patience import Patience
from tests.window.control.fake_host import text_of
from tests.window.control.scene import Scene, reopened, whole_path
from tests.window.control.waiting import QUICK, for_a_while, until

FOREVER: dict[str, Any] = {"rounds": 1_000_000, "pause_s": 0.002}


@pytest.fixture(autouse=True)
def _app(app: QApplication) -> None:
    """Every test here needs the event loop."""


# --- the engine dies --------------------------------------------------------------------------


def test_a_host_killed_at_ten_random_moments_loses_nothing(tmp_path: Path) -> None:
    chance = random.Random(4)
    kept: dict[int, str] = {}
    with Scene(tmp_path, **FOREVER) as scene:
        for number in range(10):
            scene.ready()
            assert scene.controller.send(f"question {number}")
            message = scene.controller.path[-1].id
            before = len(scene.ended)
            moment = time.monotonic() + chance.random() * 0.4
            until(lambda moment=moment: scene.client.phase == "ready" and time.monotonic() >= moment)
            os.kill(scene.client.pid, signal.SIGKILL)
            until(lambda before=before: len(scene.ended) > before)
            cut = scene.ended[-1]
            assert cut.id == message and cut.state == "cut" and "was killed (SIGKILL" in cut.note
            assert cut.text == scene.text(message) == text_of(len(scene.shown(message)))
            assert (cut.statistics.tokens if cut.statistics else 0) == len(scene.shown(message))
            assert scene.states[-1] == "host down" and scene.said("What was written is kept")
            kept[message] = cut.text
        assert max(len(text) for text in kept.values()) > 100
    path = whole_path(tmp_path)
    assert {record.id: record.text for record in path if record.role == "assistant"} == kept
    assert all(record.state == "cut" for record in path if record.role == "assistant")


def test_a_cut_reply_goes_on_at_a_press_even_before_the_engine_is_back(tmp_path: Path) -> None:
    with Scene(tmp_path, rounds=40, pause_s=0.005, kill_after=8) as scene:
        scene.controller.send("go on")
        for cuts in range(1, 4):
            until(lambda cuts=cuts: len(scene.ended) == cuts)
            assert scene.client.phase == "down"
            scene.act("What was written is kept", "Continue")
        until(lambda: len(scene.ended) == 4)
        assert scene.ended[-1].text == scene.text(scene.ended[0].id) == text_of(8 * 3 * 4)
        assert len({record.id for record in scene.ended}) == 1 and len(scene.controller.path) == 2


def test_a_death_without_a_reply_is_said_and_healed(tmp_path: Path) -> None:
    with Scene(tmp_path, complaint="out of tea\n") as scene:
        scene.ready()
        os.kill(scene.client.pid, signal.SIGKILL)
        until(lambda: scene.said("is being started again"))
        assert scene.controller.speculating.state == "host down"
        assert "out of tea" in scene.controller.report()
        scene.act("is being started again", "Copy Report")
        assert "out of tea" in QGuiApplication.clipboard().text()
        scene.ready()
        assert scene.ask().state == "complete"


def test_an_engine_that_keeps_dying_is_left_and_the_reply_that_waited_fails_aloud(tmp_path: Path) -> None:
    with Scene(tmp_path, kill_on_load=True) as scene:
        scene.controller.send("hi")
        until(lambda: scene.ended)
        assert scene.client.phase == "left" and scene.ended[0].state == "cut"
        assert "before it could write this" in scene.ended[0].note
        assert (
            scene.said("each time it was started")
            and "not started again by itself" in scene.controller.speculating.said
        )
        scene.notices.clear()
        scene.controller.resume(scene.ended[0].id)  # asks for another engine, too
        until(lambda: scene.said("each time it was started"))
        scene.notices.clear()
        scene.controller.engine.restart()
        until(lambda: scene.said("each time it was started"))


def test_an_engine_that_fails_in_the_middle_says_why_and_keeps_the_text(tmp_path: Path) -> None:
    with Scene(tmp_path, rounds=40, fail_after=5) as scene:
        record = scene.ask()
        assert record.state == "failed" and record.text == text_of(15)
        assert record.note == "the device is gone: plug it in"


def test_falling_back_is_a_state_and_a_note(tmp_path: Path) -> None:
    with Scene(tmp_path, rounds=9, fall_back_after=4) as scene:
        record = scene.ask()
        assert record.state == "complete" and record.note == "Fell back to plain decoding: the drafter broke"
        assert scene.states[-1] == "fell back" and scene.controller.speculating.said == "The drafter broke"
        scene.ask("again")
        assert scene.states[-1] == "on"


# --- the engine hangs or is late --------------------------------------------------------------


def test_an_engine_that_does_not_start_is_said_and_can_be_restarted(tmp_path: Path) -> None:
    with Scene(tmp_path, Patience(ready_s=0.1, again_s=(0.01,) * 9, quit_s=0.2), ready_s=30.0) as scene:
        until(lambda: scene.said("has not answered for"))
        assert scene.controller.speculating.state == "loading" and "long" in scene.controller.speculating.said
        pid = scene.client.pid
        scene.act("has not answered for", "Restart the Engine")
        until(lambda: scene.client.pid not in (0, pid))


def test_an_engine_that_hangs_in_a_reply_is_said_and_a_restart_keeps_the_reply(tmp_path: Path) -> None:
    patience = Patience(silent_s=0.2, stop_s=0.2, again_s=(0.01,) * 9, quit_s=0.2)
    with Scene(tmp_path, patience, rounds=40, hang_after=5) as scene:
        scene.controller.send("hi")
        until(lambda: scene.said("has said nothing for"))
        scene.controller.stop()
        until(lambda: scene.said("has not stopped yet"))
        scene.act("has not stopped yet", "Restart the Engine")
        until(lambda: scene.ended)
        assert scene.ended[0].state == "stopped" and scene.ended[0].text == text_of(15)
        scene.ready()
        assert scene.controller.speculating.state == "on"


@pytest.mark.parametrize("stuck", [False, True])
def test_quitting_while_a_reply_streams_writes_all_and_takes_two_seconds_at_most(tmp_path: Path, stuck: bool) -> None:
    manner = {"hang_after": 30} if stuck else {}
    with Scene(tmp_path, Patience(), **FOREVER | manner) as scene:
        scene.controller.send("hi")
        message = scene.streaming(90)
        pid, began = scene.client.pid, time.monotonic()
        scene.controller.close()
        assert time.monotonic() - began < 2
        with pytest.raises(ProcessLookupError):
            os.kill(pid, 0)
    record = whole_path(tmp_path)[-1]
    assert record.state == "stopped" and record.text == text_of(len(scene.shown(message)))
    assert "quit" in record.note and record.statistics is not None


# --- the engine talks nonsense ----------------------------------------------------------------


@pytest.mark.parametrize(
    "strange",
    [
        '{"type": "Told"}',
        '{"type":"Counted","id":1e99,"tokens":1,"context":1}',
        '{"type":"Counted","id":99,"tokens":1,"context":1}',
        '{"type":"Ended","id":77,"finished":{"reason":"eos","tokens":0,"time_s":1},"seed":1}',
        '{"type":"Malformed","said":"no such request","line":"x"}',
        "[" * 50_000,
    ],
)
def test_a_strange_line_costs_nothing_and_is_said(tmp_path: Path, strange: str) -> None:
    with Scene(tmp_path, rounds=10, strange=strange) as scene:
        record = scene.ask()
        assert record.state == "complete" and record.text == text_of(30)
        assert len(scene.notices) == 1 and scene.notices[0].level == "warning"


def test_a_line_that_is_too_long_costs_nothing_and_is_said(tmp_path: Path) -> None:
    with Scene(tmp_path, rounds=10, endless=LONGEST_LINE + 1) as scene:
        record = scene.ask()
        assert record.state == "complete" and record.text == text_of(30)
        assert "longer than" in scene.notices[0].text


def test_rounds_that_do_not_follow_each_other_end_the_reply_aloud(tmp_path: Path) -> None:
    with Scene(tmp_path, rounds=20, skip_after=6) as scene:
        record = scene.ask()
        assert record.state == "failed" and record.text == text_of(18)
        assert "round 7 came where round 6 was due" in record.note and scene.said("did not fit together")


def test_answers_behind_the_end_of_a_reply_are_left_out(tmp_path: Path) -> None:
    with Scene(tmp_path, rounds=20, skip_after=6, pause_s=0.0) as scene:
        first = scene.ask()
        scene.controller.new()
        for_a_while(0.05)
        assert scene.controller.told_of(first.id)[-1].round.index == 5 and len(scene.notices) == 1


# --- the disk ---------------------------------------------------------------------------------


class Full:
    """The disk of a store is full while this is entered."""

    def __init__(self, store: Store) -> None:
        self._connection: sqlite3.Connection = store._database.connection

    def __enter__(self) -> None:
        pages = self._connection.execute("PRAGMA page_count").fetchone()[0]
        self._connection.execute(f"PRAGMA max_page_count = {pages}")

    def __exit__(self, *_: object) -> None:
        self._connection.execute("PRAGMA max_page_count = 1000000")


def test_a_full_disk_stops_no_reply_and_all_is_written_when_there_is_room(tmp_path: Path) -> None:
    store = reopened(tmp_path)
    with Scene(tmp_path, store=store, rounds=900, pause_s=0.001) as scene:
        scene.controller.send("hi")
        message = scene.streaming()
        with Full(store):
            until(lambda: scene.said("the disk is full"))
            shown = len(scene.shown(message))
            until(lambda: len(scene.shown(message)) > shown + 60)
            assert [notice.level for notice in scene.notices] == ["error"]
            assert len(scene.controller.told_of(message)) * 3 >= shown
        scene.act("the disk is full", "Try Now")
        assert scene.said("with all that had waited")
        until(lambda: scene.ended)
        assert scene.ended[0].text == text_of(2700)
    assert whole_path(tmp_path)[-1] == scene.ended[0]


def test_a_reply_that_ends_on_a_full_disk_stays_on_screen_and_is_written_later(tmp_path: Path) -> None:
    store = reopened(tmp_path)
    with Scene(tmp_path, store=store, rounds=400, pause_s=0.001) as scene:
        scene.controller.send("hi")
        message = scene.streaming()
        with Full(store):
            until(lambda: scene.ended)
            assert scene.ended[0].state == "complete" and scene.ended[0].text == text_of(1200)
            conversation = scene.controller.conversation.id
            scene.controller.new()
            scene.controller.open(conversation)
            assert scene.controller.path[-1] == scene.ended[0]
            assert len(scene.controller.told_of(message)) == 400
        until(lambda: scene.said("with all that had waited"))
    assert whole_path(tmp_path)[-1].text == text_of(1200)


def test_a_question_that_cannot_be_kept_is_not_taken_and_can_be_sent_again(tmp_path: Path) -> None:
    store = reopened(tmp_path)
    with Scene(tmp_path, store=store, rounds=2) as scene:
        scene.ready()
        store._database.connection.execute("PRAGMA query_only = ON")
        assert not scene.controller.send("keep me")
        assert scene.said("can only be read") and scene.controller.path == []
        store._database.connection.execute("PRAGMA query_only = OFF")
        scene.act("can only be read", "Try Again")
        until(lambda: scene.ended)
        assert [record.text for record in scene.controller.path] == ["keep me", text_of(6)]


def test_every_verb_on_a_read_only_store_says_so_once_and_breaks_nothing(tmp_path: Path) -> None:
    store = reopened(tmp_path)
    with Scene(tmp_path, store=store, rounds=2) as scene:
        reply = scene.ask()
        controller, conversation = scene.controller, scene.controller.conversation.id
        store._database.connection.execute("PRAGMA query_only = ON")
        verbs: list[Any] = [
            lambda: controller.rename(conversation, "x"),
            lambda: controller.pin(conversation, True),
            lambda: controller.delete(conversation),
            lambda: controller.regenerate(reply.id),
            lambda: controller.edit(controller.path[0].id, "y"),
            lambda: controller.select(reply.id),
            lambda: controller.save_preset("p"),
            lambda: controller.import_json(controller.export_json(conversation)),
        ]
        for verb in verbs:
            before = len(scene.notices)
            verb()
            assert len(scene.notices) == before + 1 and "can only be read" in scene.notices[-1].text
        before = len(scene.notices)
        for number in range(20):
            controller.set_value("window", str(number))
        assert len(scene.notices) == before + 1
        assert controller.path[-1] == reply and not controller.busy
        store._database.connection.execute("PRAGMA query_only = OFF")


def test_the_patience_of_users_is_not_that_of_tests() -> None:
    assert Patience() != QUICK and Patience().quit_s + 2 * Patience().terminate_s < 2
