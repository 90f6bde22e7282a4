"""The window with everything real but the model: a recording plays the engine."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from PySide6.QtCore import Qt
from PySide6.QtTest import QTest

from app.store import Store
from app.window.chat import Controller
from app.window.chat.host_process import HostProcess
from app.window.common import theme
from app.window.common.appearance import DARK, LIGHT
from app.window.common.preferences import Draft
from app.window.main_window.main_window import MainWindow
from tests.app.window.chats import end
from tests.app.window.waiting import until

RECORDED = Path(__file__).parents[2] / "host/recorded.jsonl"
HOST = [sys.executable, "-m", "app.host", "--replay", str(RECORDED), "--speed", "8"]


@pytest.fixture
def place(tmp_path: Path) -> Path:
    return tmp_path / "conversations.db"


@pytest.fixture
def window(place: Path) -> Iterator[MainWindow]:
    controller = Controller(Store.open(place).store, HostProcess(HOST))
    window = MainWindow(controller, place)
    controller.open_last()
    window.show()
    window.activateWindow()
    controller.start()
    yield window
    end(window)
    controller.close()


@pytest.mark.slow
def test_a_conversation_from_the_first_prompt_to_the_next_start(window: MainWindow, place: Path) -> None:
    parts, controller = window.parts, window.controller
    assert parts.welcome.isVisible()
    until(lambda: controller.loaded_pair, 30)
    assert "Speculation on" in parts.header.chip.accessibleName()
    QTest.keyClicks(parts.composer.editor, "Why is the sky blue?")
    until(lambda: window.meter.value() > 0)
    QTest.keyClick(parts.composer.editor, Qt.Key.Key_Return)
    assert parts.composer.send.accessibleName() == "Stop"
    assert window.commands["stop"].isEnabled()
    assert parts.transcript.isVisible()
    until(lambda: not controller.busy, 30)
    assert parts.composer.send.accessibleName() == "Send"
    assert window.windowTitle() == "Why is the sky blue?"
    assert window.legend.isVisible()

    parts.sidebar.start_search()
    QTest.keyClicks(parts.sidebar.field, "rayleigh")
    until(lambda: parts.sidebar.list.model() is parts.sidebar.hits)
    assert parts.sidebar.hits.rowCount() == 1

    controller.library.rename(controller.conversation.id, "Blue")
    parts.composer.set_draft(Draft(text="And red?"))
    parts.composer.changed.emit(parts.composer.draft)
    window.commands["inspector"].trigger()
    window.close()
    second = MainWindow(controller, place)
    controller.open_last()
    assert second.windowTitle() == "Blue"
    assert second.parts.composer.editor.toPlainText() == "And red?"
    assert second.panes.side == "inspector"
    end(second)


@pytest.mark.slow
def test_the_background_of_the_transcript_follows_the_appearance(window: MainWindow) -> None:
    """Checked in pixels, as style sheets and palettes around it could hide it."""
    controller = window.controller
    until(lambda: controller.loaded_pair, 30)
    window.parts.composer.sent.emit("Hello", ())
    until(lambda: controller.conversation.id and not controller.busy, 30)
    for look in (DARK, LIGHT, DARK):
        theme.show(look)
        image = window.parts.transcript.grab().toImage()
        assert image.pixelColor(4, image.height() - 4).name() == look.background
