"""Quitting while part of a conversation is not on disk: the user is asked, and can save it elsewhere."""

from __future__ import annotations

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
    """A window whose reply goes on while the disk is full. Quitting does nothing."""
    monkeypatch.setattr(QApplication, "quit", lambda: None)
    store = reopened(tmp_path)
    disk = Disk(store)
    with Scene(tmp_path, store=store, rounds=100_000, pause_s=0.003) as scene:
        window = open_window(scene.controller)
        scene.controller.send("hi")
        message = scene.streaming()
        with disk:
            until(lambda: scene.notice("the disk is full"))
            shown = len(scene.tokens(message))
            until(lambda: len(scene.tokens(message)) > shown)
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
    assert box is not None and "“hi” could not be written" in box.informativeText()
    press(window, "Cancel")
    assert window.quit_question.box is None and scene.controller.busy and not window.close()
    press(window, "Quit Without Saving")
    assert window.close()


@pytest.mark.slow
def test_what_the_disk_refuses_can_be_saved_elsewhere(
    full: tuple[Scene, MainWindow], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    scene, window = full
    target = tmp_path / "elsewhere.json"
    monkeypatch.setattr(files, "ask_export_path", lambda *_: target)
    assert not window.close()
    press(window, "Save Elsewhere…")
    assert window.close()
    other = reopened(tmp_path / "other")
    record = other.path(other.import_json(target.read_text()).id)[-1]
    other.close()
    shown = len(scene.tokens(scene.ended[0].id))
    assert record.text == scene.ended[0].text == text_of(shown) and shown > 0
