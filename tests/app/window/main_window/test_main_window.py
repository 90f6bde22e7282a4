"""The main window: requests, the status of speculation in words, the first run, and what the next start restores."""

import re
import traceback
from itertools import product
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from PySide6.QtCore import QCoreApplication, QLocale, QPoint, Qt
from PySide6.QtGui import QInputMethodEvent, QTextCursor
from PySide6.QtTest import QTest
from PySide6.QtWidgets import QApplication

import app
from app.protocol import Pair
from app.reply import Change
from app.store import StoreError
from app.store.records import ChatSettings
from app.window.chat import Controller, SpeculationStatus
from app.window.common import theme
from app.window.common.preferences import PLACES, Places, read
from app.window.main_window.header import STATE_TEXTS
from app.window.main_window.main_window import SAVE_PLACES_MS, MainWindow
from app.window.main_window.welcome import PROMPTS
from app.window.transcript.message_tile import LayoutSlice
from app.window.transcript.question_tile import QuestionTile
from app.window.transcript.receipt_badge import ReceiptPopover
from app.window.transcript.text_page import document_font
from tests.app.window.chat.fake_host import command, go_line
from tests.app.window.chats import end, make_controller, open_chat, open_window, show_loaded
from tests.app.window.stepped_clock import SteppedClock
from tests.app.window.waiting import HANG_S, until

APP = Path(app.__file__).parent


def test_requests_of_the_transcript_reach_the_controller(window: MainWindow, controller: Controller) -> None:
    question, reply = open_chat(controller, "Why?", "So.", state="stopped")
    transcript = window.parts.transcript
    transcript.regenerate.emit(reply.id)
    assert controller.busy and controller.path[1].versions == 2
    controller.stop()
    transcript.resume.emit(controller.path[1].id)
    assert controller.busy
    controller.stop()
    transcript.select.emit(reply.id)
    assert controller.path[1].text == "So."
    transcript.edit.emit(question.id, "Why not?")
    assert controller.path[0].text == "Why not?"


@pytest.mark.slow
def test_an_edit_that_is_refused_stays_open_with_its_text(
    window: MainWindow, controller: Controller, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object) -> None:
        raise StoreError("the disk is full")

    open_chat(controller, "Why?", "So.")
    column = window.parts.transcript.column
    tile = column.shown_tiles()[0]
    assert isinstance(tile, QuestionTile)
    tile.footer.buttons["Edit"].click()
    assert tile.editor is not None
    field = tile.editor.field
    field.setPlainText("Why not?")
    with monkeypatch.context() as patch:
        patch.setattr(controller.library.store, "add_question", refuse)
        QTest.keyClick(field, Qt.Key.Key_Return)
    assert controller.path[0].text == "Why?"
    assert tile.editor is not None and field.toPlainText() == "Why not?"
    QTest.keyClick(field, Qt.Key.Key_Return)
    assert controller.path[0].text == "Why not?" and tile not in column.shown_tiles()


def test_what_is_typed_over_the_transcript_becomes_the_message(window: MainWindow, controller: Controller) -> None:
    open_chat(controller, "Why?", "So.")
    editor = window.parts.composer.editor
    for key, text in ((Qt.Key.Key_H, "h"), (Qt.Key.Key_End, "h"), (Qt.Key.Key_I, "hi")):
        window.parts.transcript.setFocus()
        QTest.keyClick(window.parts.transcript, key)
        assert editor.toPlainText() == text
    QTest.keyClick(window.parts.transcript, Qt.Key.Key_H, Qt.KeyboardModifier.AltModifier)
    assert editor.toPlainText() == "hi"


def test_the_inspector_is_filled_and_phases_are_timed_only_while_it_is_in_sight(
    window: MainWindow, controller: Controller, monkeypatch: pytest.MonkeyPatch
) -> None:
    filled: list[str] = []
    monkeypatch.setattr(window.parts.inspector, "show_reply", lambda reply, statistics: filled.append("reply"))
    monkeypatch.setattr(window.parts.inspector, "grow", lambda: filled.append("rounds"))
    _, reply = open_chat(controller, "Why?", "So.")
    controller.replies.changed.emit(reply.id, Change(0, 0, 0))
    assert filled == [] and not controller.replies.times_phases
    window.commands["inspector"].trigger()
    controller.replies.changed.emit(reply.id, Change(0, 0, 0))
    controller.replies.changed.emit(reply.id + 7, Change(0, 0, 0))
    assert filled == ["reply", "rounds"] and controller.replies.times_phases
    window.show_side("")
    assert not controller.replies.times_phases


def test_a_round_takes_the_calls_that_the_readme_names_from_the_hosts_line_to_the_document(
    window: MainWindow, controller: Controller, monkeypatch: pytest.MonkeyPatch
) -> None:
    insert, taken = QTextCursor.insertText, list[list[str]]()

    def insert_and_note(cursor: QTextCursor, *content: Any) -> None:
        taken.append([call.name for call in traceback.extract_stack() if call.filename.startswith(str(APP))])
        insert(cursor, *content)

    controller.host.process.command = command(hold_after=1)
    controller.start()
    controller.send("Why?")
    monkeypatch.setattr(LayoutSlice, "LONGEST_S", HANG_S)  # a slow machine needs no other turn for it
    monkeypatch.setattr(QTextCursor, "insertText", insert_and_note)
    named = re.findall(r"^ +\d+  \w+\.(\w+) ", (APP / "README.md").read_text(), re.MULTILINE)
    assert len(named) <= 12
    until(lambda: any(named[0] in calls for calls in taken))  # the first round; pages are also prepared meanwhile
    taken.clear()
    controller.host.process._process.write(go_line(3))
    until(lambda: named in taken)  # what is left of the first round may come before


# --- speculation is never silent --------------------------------------------------------------


def test_the_status_of_speculation_is_shown_in_words_with_its_reason_and_an_icon(
    window: MainWindow, controller: Controller
) -> None:
    chip, shapes = window.parts.header.chip, set()
    for state, (word, _) in STATE_TEXTS.items():
        controller.pair.status_changed.emit(SpeculationStatus(state, "Target", "eagle3", f"because of {state}"))  # type: ignore[arg-type]
        for text in (chip.accessibleName(), chip.toolTip(), window.parts.panel.state.text()):
            assert word in text
            assert f"because of {state}" in text
        icon = chip._icon.grab().toImage()
        dark = [icon.pixelColor(x, y).lightness() < 200 for x in range(icon.width()) for y in range(icon.height())]
        assert any(dark)
        shapes.add(tuple(dark))
    assert len(shapes) == len(STATE_TEXTS)


def test_the_settings_of_the_chat_open_and_close(window: MainWindow) -> None:
    window.commands["chat settings"].trigger()
    assert window.panes.side == "chat settings" and window.parts.panel.isVisible()
    window.parts.panel.close_button.click()
    assert window.panes.side == "" and window.parts.composer.editor.hasFocus()


# --- the first run ----------------------------------------------------------------------------


def test_the_first_run_alone_says_what_redline_is_and_offers_something_to_try(tmp_path: Path) -> None:
    controller = make_controller(tmp_path)
    window = open_window(controller)
    welcome = window.parts.welcome
    assert welcome.isVisible() and welcome.cards[0].isVisible()
    assert len([line for line in welcome.introduction if line.isVisible()]) == 2
    show_loaded(controller)
    assert "SmolLM2-135M-Instruct is ready" in welcome.model.text()
    welcome.cards[1].click()
    assert controller.path[0].text == PROMPTS[1].text
    assert not welcome.isVisible()
    controller.new()
    assert welcome.cards[0].isVisible() and not any(line.isVisible() for line in welcome.introduction)
    end(window)
    controller.close()


# --- places -----------------------------------------------------------------------------------


def test_the_arrangement_of_the_window_is_restored(
    clock: SteppedClock, window: MainWindow, controller: Controller
) -> None:
    window.resize(780, 640)  # the screen has 800
    window.commands["sidebar"].trigger()
    assert window.parts.header.new.isVisible()  # a new chat is still a click away
    window.commands["inspector"].trigger()
    window.panes.setSizes([0, 420, 360])
    window.panes.splitterMoved.emit(0, 0)
    sizes = window.panes.sizes()
    clock.advance(SAVE_PLACES_MS / 1000)
    assert not read(controller.library.value(PLACES), Places).sidebar  # without being closed
    window.close()
    second = open_window(controller)
    assert (second.width(), second.height()) == (780, 640)
    assert second.panes.side == "inspector" and second.panes.sizes() == sizes
    assert not second.panes.sidebar and not second.commands["sidebar"].isChecked()
    end(second)


def test_every_size_leaves_room_for_the_conversation(window: MainWindow) -> None:
    sizes = [(640, 480), (900, 600), (1280, 800), (3840, 1200)]
    for (width, height), side in product(sizes, ("inspector", "chat settings", "")):
        window.resize(width, height)
        window.show_side(side)  # type: ignore[arg-type]
        QCoreApplication.processEvents()
        left, centre, right = window.panes.sizes()
        assert window.width() == width
        assert centre >= 320
        assert bool(right) == bool(side)
        assert bool(left) == window.panes.sidebar
        assert window.parts.composer.editor.width() > 150


def test_in_a_narrow_window_the_pane_requested_last_is_shown_and_the_other_returns(window: MainWindow) -> None:
    window.resize(640, 480)
    window.show_side("inspector")
    assert (window.panes.sidebar, window.panes.side) == (False, "inspector")
    window.commands["sidebar"].trigger()
    assert (window.panes.sidebar, window.panes.side) == (True, "")
    window.resize(1280, 800)
    QCoreApplication.processEvents()
    assert (window.panes.sidebar, window.panes.side) == (True, "inspector")
    assert window.commands["inspector"].isChecked()


def test_search_shows_the_sidebar_first(window: MainWindow) -> None:
    window.commands["sidebar"].trigger()
    window.commands["search"].trigger()
    assert window.parts.sidebar.field.hasFocus()


def test_the_legend_is_there_while_there_are_tints_to_explain(window: MainWindow) -> None:
    assert not window.legend.isVisible()
    open_chat(window.controller, "Why?", "So.")
    assert window.legend.isVisible()
    window.commands["tints"].trigger()
    assert not window.legend.isVisible()


def test_the_title_of_the_window_is_the_conversations(window: MainWindow, controller: Controller) -> None:
    controller.open(1)
    assert window.windowTitle() == "Why the sky is blue"
    controller.library.rename(1, "Rayleigh")
    assert window.windowTitle() == window.parts.header.title.text() == "Rayleigh"


def test_escape_stops_wherever_the_focus_is(window: MainWindow, controller: Controller) -> None:
    controller.send("Why?")
    window.parts.sidebar.list.setFocus()
    QTest.keyClick(window.parts.sidebar.list, Qt.Key.Key_Escape)
    assert not controller.busy and controller.path[1].state == "stopped"


@pytest.mark.slow
def test_the_inspector_estimates_the_network_of_replies_by_the_loaded_machines_alone(
    window: MainWindow, controller: Controller
) -> None:
    window.show_side("inspector")
    controller.host.process.command = command(rounds=100_000, pause_s=0.003)
    controller.change_settings(ChatSettings(pair=Pair(target="large", drafter="lookup", hosts="hosts.json")))
    controller.start()
    controller.send("Why?")
    until(lambda: any(len(one.reply.rounds) > 3 for one in controller.replies.running))
    controller.stop()
    until(lambda: not controller.busy)
    about = window.parts.inspector._detail._about
    until(lambda: "ms on the network" in about.text())
    assert "about 1.0 of " in about.text()
    assert "on 2 machines" in window.parts.header.chip.toolTip()
    controller.change_settings(ChatSettings())
    until(lambda: controller.host.loaded is not None and controller.host.loaded.machines is None)
    assert "network" not in about.text() and "verified" in about.text()


def test_a_key_typed_elsewhere_is_not_inserted_into_a_word_that_is_composed(window: MainWindow) -> None:
    editor = window.parts.composer.editor
    QTest.keyClicks(editor, "A")
    QApplication.sendEvent(editor, QInputMethodEvent("に", []))
    window.parts.sidebar.new.setFocus()
    QTest.keyClick(window, Qt.Key.Key_H)
    assert editor.toPlainText() == "A" and editor.hasFocus()


@pytest.mark.parametrize(("language", "typed"), [("JA", ""), ("ZH", ""), ("KO", ""), ("DE", "h")])
def test_a_key_that_an_input_method_would_compose_is_not_inserted_raw(
    window: MainWindow, monkeypatch: pytest.MonkeyPatch, language: str, typed: str
) -> None:
    keyboard = SimpleNamespace(locale=lambda: QLocale(language.lower()))
    monkeypatch.setattr("app.window.main_window.main_window.QGuiApplication.inputMethod", lambda: keyboard)
    window.setFocus()
    QTest.keyClick(window, Qt.Key.Key_H)
    editor = window.parts.composer.editor
    assert editor.toPlainText() == typed and editor.hasFocus()


def test_text_has_a_size_and_notes_a_place_without_a_screen(
    window: MainWindow, controller: Controller, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As for a moment when displays are plugged in."""
    question, _ = open_chat(controller, "Why?", "So.")
    for name in ("primaryScreen", "screenAt", "focusWindow"):
        monkeypatch.setattr(f"app.window.common.screens.QGuiApplication.{name}", lambda *_: None)
    assert document_font(theme.current()).pointSizeF() > 0
    note = ReceiptPopover(question, "why", window)
    note.show_at(QPoint(5, 5))
    assert note.isVisible()
