"""A message to the built-in model gets a coloured reply: the real window, host, model and drafter, end to end."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from PySide6.QtCore import Qt
from PySide6.QtGui import QTextCursor
from PySide6.QtTest import QTest
from PySide6.QtWidgets import QApplication, QTextEdit

from app.protocol import Pair, SamplingSettings
from app.store import Store
from app.store.records import ChatSettings
from app.window.chat import Controller
from app.window.chat.host_process import HostProcess
from app.window.common.appearance import DARK, LIGHT
from app.window.main_window.main_window import MainWindow
from app.window.markdown import TOKEN
from tests.app.window.chats import end
from tests.app.window.waiting import until


@pytest.fixture
def window(app: QApplication, tmp_path: Path) -> Iterator[MainWindow]:
    opened = Store.open(tmp_path / "conversations.db")
    window = MainWindow(controller := Controller(opened.store, HostProcess()), tmp_path / "conversations.db")
    controller.open_last()
    window.show()
    controller.start()
    yield window
    end(window)
    controller.close()


def coloured(window: MainWindow) -> list[tuple[str, int, str]]:
    """(character, token, tint) of all that is on screen and came from a token; the tint is "" where it has none."""
    found = []
    for page in window.parts.transcript.findChildren(QTextEdit):
        cursor = QTextCursor(page.document())
        while not cursor.atEnd():
            cursor.movePosition(QTextCursor.MoveOperation.NextCharacter, QTextCursor.MoveMode.KeepAnchor)
            form = cursor.charFormat()
            if form.hasProperty(TOKEN):
                tinted = form.background().style() != Qt.BrushStyle.NoBrush
                colour = form.background().color().name() if tinted else ""
                found.append((cursor.selectedText(), int(form.property(TOKEN)), colour))
            cursor.clearSelection()
    return found


@pytest.mark.real_model
def test_a_message_to_the_built_in_model_gets_a_coloured_reply(window: MainWindow) -> None:
    parts, controller = window.parts, window.controller
    settings = ChatSettings(pair=Pair(drafter="eagle3"), sampling=SamplingSettings(max_tokens=20, draft_length=2))
    controller.change_settings(settings)
    until(lambda: controller.loaded_pair is not None and controller.status.state == "on", 120)
    assert controller.status.drafter == "eagle3"
    QTest.keyClicks(parts.composer.editor, "Why is the sky blue?")
    QTest.keyClick(parts.composer.editor, Qt.Key.Key_Return)
    until(lambda: len(controller.path) == 2 and controller.path[1].state != "streaming", 120)

    reply = controller.path[1]
    assert reply.state == "complete", reply.note
    told = controller.rounds_of(reply.id)
    assert "".join(text for each in told for text in each.round.texts) == reply.text
    origins = {origin for each in told for origin in each.round.origins}
    assert {"accepted", "corrected"} <= origins
    assert reply.statistics is not None and reply.statistics.tokens == 20
    until(lambda: len({colour for _, _, colour in coloured(window)} - {""}) >= 2, 10)
    shown = coloured(window)
    assert "".join("".join(character for character, _, _ in shown).split()) == "".join(reply.text.split())
    assert {colour for _, _, colour in shown} - {""} <= {*LIGHT.tints.values(), *DARK.tints.values()}
