"""The window as a whole: who hears what, the state of speculation in words, what is found again at the next start."""

from __future__ import annotations

from itertools import product

import pytest
from PySide6.QtCore import QCoreApplication, QPoint, QRect, QSize, Qt
from PySide6.QtTest import QTest
from PySide6.QtWidgets import QApplication

from app.window.controller import Speculating
from app.window.shell.header import SHORT, WORDS
from app.window.shell.preferences import PLACES, Places, read
from app.window.shell.welcome import PROMPTS
from app.window.shell.window import MainWindow
from tests.window.control.waiting import until
from tests.window.shell.conftest import end, open_window
from tests.window.shell.fakes import FakeController, message


def test_what_the_controller_tells_reaches_the_transcript(window: MainWindow, controller: FakeController) -> None:
    reply = message(2, "assistant", "", state="streaming")
    heard = window.parts.transcript.heard
    heard.clear()
    controller.show([message(1, "user", "Why?")])
    controller.reply_began.emit(reply)
    controller.told.emit(2, [])
    controller.reply_ended.emit(reply)
    assert [given[0] for given in heard] == ["show_path", "begin", "tell", "end"]


def test_what_the_reader_asks_of_a_message_reaches_the_controller(
    window: MainWindow, controller: FakeController
) -> None:
    transcript = window.parts.transcript
    transcript.regenerate.emit(2)
    transcript.resume.emit(3)
    transcript.edit.emit(4, "Why not?")
    transcript.select.emit(5)
    asked = [given for given in controller.asked if given[0] != "draft_changed"]
    assert asked == [("regenerate", 2), ("resume", 3), ("edit", 4, "Why not?"), ("select", 5)]


def test_the_inspector_is_told_only_while_it_is_in_sight(
    window: MainWindow, controller: FakeController, monkeypatch: pytest.MonkeyPatch
) -> None:
    shown: list[object] = []
    monkeypatch.setattr(window.parts.inspector, "show_reply", lambda told, statistics: shown.append("reply"))
    monkeypatch.setattr(window.parts.inspector, "tell", lambda told: shown.append("tell"))
    controller.show([message(1, "user", "Why?"), message(2, "assistant", "So.")])
    controller.told.emit(2, [])
    assert shown == []
    window.commands["inspector"].trigger()
    controller.told.emit(2, [])
    controller.told.emit(9, [])
    assert shown == ["reply", "tell"]


# --- speculation is never silent --------------------------------------------------------------


def test_the_state_of_speculation_is_said_in_words_with_its_reason(
    window: MainWindow, controller: FakeController
) -> None:
    chip = window.parts.header.chip
    for state, word in WORDS.items():
        controller.say(Speculating(state, "Target", "eagle3", f"because of {state}"))  # type: ignore[arg-type]
        for said in (chip.accessibleName(), chip.toolTip(), window.parts.panel.state.text()):
            assert word in said
            assert f"because of {state}" in said


def test_each_state_has_an_icon_of_its_own_and_the_chip_shows_it(
    window: MainWindow, controller: FakeController
) -> None:
    seen = set()
    for state in WORDS:
        controller.say(Speculating(state, "T", "d", "r"))  # type: ignore[arg-type]
        chip = window.parts.header.chip
        picture = window.grab(QRect(chip.mapTo(window, QPoint(8, 0)), QSize(14, chip.height()))).toImage()
        dark = [picture.pixelColor(x, y).lightness() < 200 for x in range(14) for y in range(chip.height())]
        assert any(dark)
        seen.add(tuple(dark))
    assert len(seen) == len(WORDS) == len(SHORT)


def test_the_chip_opens_the_settings_of_the_chat(window: MainWindow) -> None:
    window.parts.header.chip.click()
    assert window.panes.side == "chat settings"
    assert window.parts.panel.isVisible()
    window.parts.panel.close_button.click()
    assert window.panes.side == ""
    assert window.parts.composer.editor.hasFocus()


# --- the first run ----------------------------------------------------------------------------


def test_the_first_run_says_what_redline_is_and_offers_something_to_try(app: QApplication) -> None:
    controller = FakeController()
    window = open_window(controller)
    welcome = window.parts.welcome
    assert welcome.isVisible()
    assert len([line for line in welcome.what if line.isVisible()]) == 2
    controller.load()
    assert "SmolLM2-135M-Instruct is ready" in welcome.model.text()
    welcome.cards[1].click()
    assert controller.asked_for("send") == [(PROMPTS[1].text, ())]
    controller.show([message(1, "user", PROMPTS[1].text)])
    assert not welcome.isVisible()
    end(window)


def test_later_new_chats_do_not_explain_again(window: MainWindow) -> None:
    assert window.parts.welcome.cards[0].isVisible()
    assert not any(line.isVisible() for line in window.parts.welcome.what)


# --- places -----------------------------------------------------------------------------------


def test_the_window_is_found_as_it_was_left(window: MainWindow, controller: FakeController) -> None:
    window.resize(780, 640)  # the screen has 800
    window.commands["sidebar"].trigger()
    window.commands["inspector"].trigger()
    window.panes.setSizes([0, 420, 360])
    window.panes.splitterMoved.emit(0, 0)
    sizes = window.panes.sizes()
    window.close()
    second = open_window(controller)
    assert (second.width(), second.height()) == (780, 640)
    assert second.panes.side == "inspector"
    assert second.panes.sizes() == sizes
    end(second)


def test_a_hidden_sidebar_stays_hidden_and_a_new_chat_is_still_a_click_away(
    window: MainWindow, controller: FakeController
) -> None:
    window.commands["sidebar"].trigger()
    assert not window.panes.sidebar
    assert window.parts.header.new.isVisible()
    until(lambda: not read(controller.values.get(PLACES), Places).sidebar, 5)
    second = open_window(controller)
    assert not second.panes.sidebar
    assert not second.commands["sidebar"].isChecked()
    end(second)


@pytest.mark.parametrize("value", ["{", '{"geometry": "?"}', '{"geometry": "AAAA", "sidebar_width": 100000}'])
def test_damaged_places_are_forgotten(app: QApplication, value: str) -> None:
    controller = FakeController()
    controller.values[PLACES] = value
    window = open_window(controller)
    assert window.width() >= 640
    assert window.panes.sizes()[1] >= 320
    end(window)


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


def test_in_a_narrow_window_what_was_asked_for_last_is_shown_and_the_rest_returns(window: MainWindow) -> None:
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


def test_the_legend_is_there_while_there_are_tints_to_explain(window: MainWindow, controller: FakeController) -> None:
    assert not window.legend.isVisible()
    controller.show([message(1, "user", "Why?"), message(2, "assistant", "So.")])
    assert window.legend.isVisible()
    window.commands["tints"].trigger()
    assert not window.legend.isVisible()


def test_the_title_of_the_window_is_the_conversations(window: MainWindow, controller: FakeController) -> None:
    controller.open(1)
    assert window.windowTitle() == "Why the sky is blue"
    controller.rename(1, "Rayleigh")
    assert window.windowTitle() == window.parts.header.title.text() == "Rayleigh"


def test_draft_and_verify_are_timed_apart_while_the_inspector_shows_them(
    window: MainWindow, controller: FakeController
) -> None:
    window.show_side("inspector")
    assert controller.timed
    window.show_side("")
    assert not controller.timed


def test_escape_stops_wherever_the_keyboard_is(window: MainWindow, controller: FakeController) -> None:
    controller.be_busy(True)
    window.parts.sidebar.list.setFocus()
    QTest.keyClick(window.parts.sidebar.list, Qt.Key.Key_Escape)
    assert controller.asked_for("stop") == [()]
