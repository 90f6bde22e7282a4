"""A reply verified through the controller: what is asked of the host, what is told, and what stays on disk."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from PySide6.QtWidgets import QApplication

from app.protocol import Load, Loaded, Pair, Reply, Requests, Verify
from app.records import ChatSettings, MessageRecord
from engine.receipt import Receipt
from tests.window.control.scene import Scene, whole_path
from tests.window.control.waiting import until

TOKENS = 6  # of a reply of two rounds


@pytest.fixture(autouse=True)
def _app(app: QApplication) -> None:
    """Every test here needs the event loop."""


class Checks:
    """What a scene tells of its checks, and what it asks of its host."""

    def __init__(self, scene: Scene) -> None:
        self.said: list[tuple[int, str]] = []
        self.kept: list[MessageRecord] = []
        self.refused: list[tuple[int, str]] = []
        self.asked: list[Requests] = []
        controller, send = scene.controller, scene.client.send
        controller.verifying.connect(lambda *told: self.said.append(told))
        controller.verified.connect(self.kept.append)
        controller.unverified.connect(lambda *told: self.refused.append(told))

        def noted(request: Requests) -> None:
            self.asked.append(request)
            send(request)

        scene.client.send = noted  # type: ignore[method-assign]

    @property
    def over(self) -> bool:
        return bool(self.said) and self.said[-1][1] == ""

    def of(self, kind: type[Any]) -> list[Any]:
        """Requests of a kind."""
        return [request for request in self.asked if isinstance(request, kind)]


def test_a_receipt_is_told_kept_and_there_at_the_next_start(tmp_path: Path) -> None:
    with Scene(tmp_path, rounds=2) as scene:
        record = scene.ask("Why?")
        checks = Checks(scene)
        assert scene.controller.verify(record.id) and scene.controller.checked_now == record.id
        until(lambda: checks.over)
        assert [said for _, said in checks.said] == [
            *("Verifying", "Reading the prompt"),
            *(f"Verifying, {done} of {TOKENS} tokens" for done in (0, 3, 6)),
            "",
        ]
        (kept,) = checks.kept
        assert kept.receipt is not None and kept.receipt.receipt == Receipt(TOKENS) and kept.receipt.made_s > 1e9
        assert scene.controller.path[1] == kept and scene.controller.checked_now is None
        (wanted,) = checks.of(Verify)
        assert [m.content for m in wanted.messages] == ["Why?"] and wanted.law == record.law and wanted.whole
        assert [token for said in wanted.rounds for token in said.tokens] == list(range(TOKENS))
        assert checks.of(Load) == []  # the pair that was there is good for it
    assert whole_path(tmp_path)[1] == kept


def test_a_difference_survives_restart_export_and_import(tmp_path: Path) -> None:
    with Scene(tmp_path, rounds=2, differ="other") as scene:
        record, checks = scene.ask("Why?"), Checks(scene)
        scene.controller.verify(record.id)
        until(lambda: checks.over)
        exported = scene.controller.library.store.export_json(record.conversation)
    (found,) = [message.receipt for message in whole_path(tmp_path) if message.receipt]
    assert found.receipt.near_tie and found.receipt.differences[0].plain_text == "other" and not found.elsewhere
    with Scene(tmp_path / "other") as scene:
        taken = scene.controller.library.store.import_json(exported)
        scene.controller.open(taken.id)
        receipt = scene.controller.path[1].receipt
        assert receipt is not None and receipt.receipt == found.receipt and receipt.elsewhere


def test_a_check_can_be_stopped_and_had_again(tmp_path: Path) -> None:
    with Scene(tmp_path, rounds=30, check_s=0.02) as scene:
        record, checks = scene.ask(), Checks(scene)
        scene.controller.verify(record.id)
        until(lambda: len(checks.said) > 3)
        assert not scene.controller.verify(record.id)  # the same again lets it be
        until(lambda: checks.over)
        assert checks.kept == [] == checks.refused and scene.controller.path[1].receipt is None
        assert scene.controller.verify(record.id)
        until(lambda: checks.kept)
    assert whole_path(tmp_path)[1].receipt is not None


def test_a_reply_that_begins_ends_the_check(tmp_path: Path) -> None:
    with Scene(tmp_path, rounds=30, check_s=0.05) as scene:
        record, checks = scene.ask(), Checks(scene)
        scene.controller.verify(record.id)
        until(lambda: len(checks.said) > 3)
        assert scene.ask("And?").state == "complete"
        assert checks.over and checks.kept == [] and scene.controller.path[1].receipt is None
        assert not any(notice.level == "error" for notice in scene.notices)


def test_while_a_reply_is_written_none_is_checked(tmp_path: Path) -> None:
    with Scene(tmp_path, rounds=100) as scene:
        record = scene.ask()
        scene.controller.send("And?")
        assert not scene.controller.verify(record.id) and scene.said("A reply is being written") is not None
        until(lambda: len(scene.ended) == 2)


def test_one_check_at_a_time_and_the_first_can_be_stopped(tmp_path: Path) -> None:
    with Scene(tmp_path, rounds=30, check_s=0.05) as scene:
        first, second, checks = scene.ask(), scene.ask("And?"), Checks(scene)
        scene.controller.verify(first.id)
        assert not scene.controller.verify(second.id)
        scene.act("Another reply is being verified", "Stop It")
        until(lambda: checks.over)
        assert scene.controller.checked_now is None and checks.kept == []


def test_another_model_is_loaded_for_it_and_then_the_old_one(tmp_path: Path) -> None:
    """The conversation went over to another model since; a drafter has no part in a check."""
    with Scene(tmp_path, rounds=2) as scene:
        record = scene.ask()
        old = scene.controller.conversation.settings
        scene.controller.change_settings(ChatSettings(pair=Pair(target="models/another", drafter="lookup")))
        until(lambda: (there := scene.controller.loaded_pair) and there.pair.target == "models/another")
        checks = Checks(scene)
        scene.controller.verify(record.id)
        until(lambda: checks.kept)
        until(lambda: (there := scene.controller.loaded_pair) and there.pair.target == "models/another")
        loads = [load.pair for load in checks.of(Load)]
        assert loads == [Pair(target=old.pair.target, drafter="none"), Pair(target="models/another", drafter="lookup")]
        assert any("which wrote this" in said for _, said in checks.said)


def test_another_context_keeps_the_drafter_that_is_there(tmp_path: Path) -> None:
    with Scene(tmp_path, rounds=2) as scene:
        record = scene.ask()
        pair = scene.controller.conversation.settings.pair
        scene.controller.change_settings(ChatSettings(pair=Pair(target=pair.target, drafter="lookup", context=512)))
        loaded: list[Loaded] = []
        scene.controller.loaded.connect(loaded.append)
        until(lambda: loaded and loaded[-1].pair.context == 512)
        checks = Checks(scene)
        scene.controller.verify(record.id)
        until(lambda: checks.kept)
        assert [(load.pair.drafter, load.pair.context) for load in checks.of(Load)][:1] == [("lookup", None)]


def test_a_model_that_is_not_here_is_said_and_the_chat_goes_on(tmp_path: Path) -> None:
    with Scene(tmp_path, rounds=2, fail_load="none") as scene:
        record = scene.ask()
        scene.controller.change_settings(ChatSettings(pair=Pair(target="models/another", drafter="lookup")))
        until(lambda: (there := scene.controller.loaded_pair) and there.pair.target == "models/another")
        checks = Checks(scene)
        scene.controller.verify(record.id)
        until(lambda: checks.refused)
        assert "the model that wrote it cannot be loaded (none does not fit)" in checks.refused[0][1]
        notice = scene.said("The reply could not be verified")
        assert notice is not None and dict(notice.actions).keys() == {"Try Again"}
        assert [n.text for n in scene.notices if n.level == "error"] == []
        until(lambda: (there := scene.controller.loaded_pair) and there.pair.target == "models/another")
        until(lambda: scene.controller.speculating.state == "on")
        assert scene.ask("And?").state == "complete" and checks.kept == []


def test_a_state_that_cannot_be_had_again_is_no_failure_of_the_reply(tmp_path: Path) -> None:
    with Scene(tmp_path, rounds=2, refuse_check="the prompt reads otherwise now") as scene:
        record, checks = scene.ask(), Checks(scene)
        scene.controller.verify(record.id)
        until(lambda: checks.over)
        assert checks.refused == [(record.id, "the prompt reads otherwise now")] and checks.kept == []
        assert scene.said("could not be verified: the prompt reads otherwise now.") is not None
    assert whole_path(tmp_path)[1].receipt is None


def test_an_engine_that_dies_takes_the_check_along_and_nothing_else(tmp_path: Path) -> None:
    with Scene(tmp_path, rounds=2, kill_after=2) as scene:
        record, checks = scene.ask(), Checks(scene)
        scene.controller.verify(record.id)
        until(lambda: checks.over)
        assert scene.controller.checked_now is None and scene.said("is being started again") is not None
    assert whole_path(tmp_path)[1].state == "complete"


def test_a_reply_of_no_known_rounds_is_refused_with_the_reason(tmp_path: Path) -> None:
    with Scene(tmp_path, rounds=2) as scene:
        record, checks = scene.ask(), Checks(scene)
        document = scene.controller.library.store.export_json(record.conversation)
        start = document.index('"rounds":[{')
        taken = scene.controller.library.store.import_json(document[:start] + '"rounds":[]}]}')
        scene.controller.open(taken.id)
        reply = scene.controller.path[1]
        assert not scene.controller.verify(reply.id)
        assert checks.refused[0][0] == reply.id and "nothing is kept of how it was made" in checks.refused[0][1]
        assert checks.of(Verify) == [] == checks.of(Reply)


def test_what_it_was_told_of_the_system_is_what_is_checked(tmp_path: Path) -> None:
    """The prompt that the reply was given, not the one that the conversation has now."""
    with Scene(tmp_path, rounds=2) as scene:
        scene.controller.change_settings(ChatSettings(system="Be brief."))
        record, checks = scene.ask("Why?"), Checks(scene)
        scene.controller.change_settings(ChatSettings(system="Be long."))
        scene.controller.verify(record.id)
        until(lambda: checks.kept)
        (wanted,) = checks.of(Verify)
        assert [message.content for message in wanted.messages] == ["Be brief.", "Why?"]


def test_while_a_race_is_measured_nothing_is_checked_loaded_or_let_go(tmp_path: Path) -> None:
    """All of it would slow the race down, or wait for its end without a word; what a chat needs is loaded then."""
    with Scene(tmp_path, rounds=2) as scene:
        record, controller = scene.ask(), scene.controller
        controller.engine.racing = True
        assert not controller.verify(record.id) and scene.said("A race is being measured") is not None
        controller.unload()
        another = ChatSettings(pair=Pair(target="models/another", drafter="lookup"))
        controller.change_settings(another)
        assert controller.loaded_pair is not None
        controller.engine.racing = False
        controller.engine.race_over.emit()
        until(lambda: (there := controller.loaded_pair) and there.pair == another.pair)
