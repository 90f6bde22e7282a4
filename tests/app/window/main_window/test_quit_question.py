"""Quitting while part of a conversation is not on disk: the user is asked, and can save it elsewhere."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from PySide6.QtWidgets import QApplication, QMessageBox

from app.window.main_window import files
from app.window.main_window.main_window import MainWindow
from tests.app.window.chat.fake_host import text_of
from tests.app.window.chat.scene import Disk, Scene, reopened
from tests.app.window.chats import end, open_window
from tests.app.window.waiting import until

pytestmark = pytest.mark.usefixtures("app")


@pytest.fixture
def full(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[Scene, MainWindow]]:
    """A window whose two replies go on while the disk is full. Quitting does nothing."""
    monkeypatch.setattr(QApplication, "quit", lambda: None)
    store = reopened(tmp_path)
    disk = Disk(store)
    with Scene(tmp_path, store=store, rounds=100_000, pause_s=0.003) as scene:
        window = open_window(scene.controller)
        scene.controller.send("first")
        scene.streaming()
        scene.controller.new()
        scene.controller.send("second")
        scene.streaming()
        with disk:
            until(lambda: len(scene.controller.replies.unsaved()) == 2)
            yield scene, window
        scene.controller.replies.save()
        end(window)


def press(window: MainWindow, name: str) -> None:
    box = window.quit_question.box
    assert isinstance(box, QMessageBox)
    next(button for button in box.buttons() if button.text().replace("&", "") == name).click()


def test_a_window_with_everything_on_disk_closes_without_a_word(window: MainWindow) -> None:
    assert window.close() and window.quit_question.box is None


def test_quitting_on_a_full_disk_asks_first_and_can_be_called_off(full: tuple[Scene, MainWindow]) -> None:
    scene, window = full
    assert not window.close() and window.isVisible()
    box = window.quit_question.box
    assert box is not None and "“first” and “second” could not be written" in box.informativeText()
    press(window, "Cancel")
    assert window.quit_question.box is None and scene.controller.busy and not window.close()
    press(window, "Quit Without Saving")
    assert window.close()


def test_every_reply_that_the_disk_refuses_can_be_saved_elsewhere(
    full: tuple[Scene, MainWindow], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of two that are written at once, the second goes on when its dialog is called off."""
    scene, window = full
    first, second = (one.record for one in scene.controller.replies.running)
    targets: dict[str, Path | None] = {"first": tmp_path / "first.json", "second": None}
    monkeypatch.setattr(files, "ask_export_path", lambda _, title, kind: targets[title])
    assert not window.close()
    box = window.quit_question.box
    assert box is not None and "“first” and “second” could not be written" in box.informativeText()
    press(window, "Save Elsewhere…")
    assert [one.record for one in scene.controller.replies.running] == [second]
    shown = len(scene.tokens(second.id))
    until(lambda: len(scene.tokens(second.id)) > shown)
    targets["second"] = tmp_path / "second.json"
    assert not window.close()
    press(window, "Save Elsewhere…")
    assert window.close()
    other = reopened(tmp_path / "other")
    for message, target in ((first.id, targets["first"]), (second.id, targets["second"])):
        assert target is not None
        record = other.path(other.import_json(target.read_text()).id)[-1]
        assert record.text == text_of(len(scene.tokens(message))) and record.state == "stopped"
    other.close()
