"""The race's window: asked for, replayed, paused, scrubbed, slowed, opened from a file."""

from pathlib import Path

import pytest
from PySide6.QtCore import QPoint, Qt
from PySide6.QtTest import QTest
from PySide6.QtWidgets import QFileDialog

from app.race.race_document import open_race, race_json
from app.race.race_page import race_page
from app.window.common import theme
from app.window.common.appearance import DARK, LIGHT
from app.window.race.race_board import RaceBoard
from app.window.race.race_request import RaceRequest
from app.window.race.race_window import DRAWING, RaceWindow
from tests.app.race.sample_races import RACE, race, simple, steady
from tests.app.window.inspector.inspector_views import colours
from tests.app.window.stepped_clock import SteppedClock


def board_of(window: RaceWindow) -> RaceBoard:
    assert window.board is not None
    return window.board


def at(window: RaceWindow) -> float:
    """The time that is shown."""
    return round(board_of(window).state.time_s, 3)


# --- the replay -------------------------------------------------------------------------------


def test_a_race_plays_by_the_clock_to_its_end_and_stops(window: RaceWindow, clock: SteppedClock) -> None:
    window.show_race(simple())
    assert window.controls.player.playing
    clock.advance(0.5)
    assert at(window) == pytest.approx(0.5, abs=0.02)
    assert window.controls.play_button.accessibleName() == "Pause"
    assert window.controls.time.text() == "0.5 / 1.2 s"
    clock.advance(5)
    assert not window.controls.player.playing
    assert at(window) == 1.2
    assert board_of(window).state.done
    assert window.controls.play_button.accessibleName() == "Play"


def test_pause_holds_it_and_play_at_the_end_begins_anew(window: RaceWindow, clock: SteppedClock) -> None:
    window.show_race(simple())
    clock.advance(0.4)
    QTest.mouseClick(window.controls.play_button, Qt.MouseButton.LeftButton)
    clock.advance(3)
    window.controls.tick()
    assert at(window) == 0.4
    window.controls.seek(9)
    QTest.mouseClick(window.controls.play_button, Qt.MouseButton.LeftButton)
    assert at(window) == 0.0
    assert window.controls.player.playing
    window.still = True  # where nothing should move, the end is shown at once
    window.show_race(simple())
    assert (at(window), window.controls.player.playing) == (1.2, False)


def test_slower_is_slower_and_says_so(window: RaceWindow, clock: SteppedClock) -> None:
    window.show_race(simple())
    window.controls.speed.setCurrentIndex(window.controls.speed.findData("0.25"))
    window.controls.speed.activated.emit(0)
    clock.advance(2)
    window.controls.tick()
    assert at(window) == 0.5
    assert "side by side, at a quarter of its speed" in board_of(window).about.text()
    window.show_race(simple())
    assert window.controls.player.speed == 0.25
    assert "at a quarter of its speed" in board_of(window).about.text()
    window.close()
    assert not window.controls.player.playing


def test_the_timeline_goes_where_it_is_pressed_and_follows_the_mouse(window: RaceWindow) -> None:
    window.show_race(simple())
    window.controls.pause()
    slider = window.controls.slider
    half = QPoint(round(slider.x_of(60)), slider.height() // 2)
    QTest.mousePress(slider, Qt.MouseButton.LeftButton, pos=half)
    assert at(window) == pytest.approx(0.6, abs=0.01)
    QTest.mouseMove(slider, QPoint(slider.width() + 50, 5))
    assert at(window) == 1.2
    QTest.mouseRelease(slider, Qt.MouseButton.LeftButton, pos=QPoint(0, 5))
    QTest.mouseMove(slider, half)
    assert at(window) == 1.2


@pytest.mark.parametrize("end_s", [1.2, 3.4049, 0.0123])
def test_the_end_of_the_timeline_is_the_end_of_the_race(window: RaceWindow, end_s: float) -> None:
    window.show_race(race([(steady(0, 1, range(12), 1, end_s / 12), steady(1, 1, range(12), 3, end_s / 13))]))
    window.controls.pause()
    slider = window.controls.slider
    slider.setValue(slider.maximum())
    assert board_of(window).state.done
    window.controls.replay()
    window.controls.seek(end_s + 1)
    assert slider.value() == slider.maximum()


def test_keys_play_step_and_go_to_the_difference(window: RaceWindow) -> None:
    window.show_race(simple(parts_at=4))
    window.setFocus()
    QTest.keyClick(window, Qt.Key.Key_Space)
    assert not window.controls.player.playing
    QTest.keyClick(window, Qt.Key.Key_Right)
    assert at(window) == 0.012
    QTest.keyClick(window, Qt.Key.Key_D)
    assert at(window) == 0.5
    assert board_of(window).state.differs_at == 4
    QTest.keyClick(window, Qt.Key.Key_R)
    assert window.controls.player.playing
    assert at(window) == 0.0


def test_the_difference_is_on_the_timeline_and_its_button_there_only_then(window: RaceWindow) -> None:
    window.show_race(simple())
    assert not window.controls.difference.isVisible()
    assert window.controls.slider.mark is None
    window.show_race(simple(parts_at=4))
    assert window.controls.slider.mark == 50
    window.controls.difference.click()
    assert (at(window), window.controls.player.playing) == (0.5, False)


def test_a_look_reaches_everything(window: RaceWindow) -> None:
    window.show_race(simple(parts_at=4))
    window.controls.seek(1.2)
    for look, other in ((LIGHT, DARK), (DARK, LIGHT)):
        theme.show(look)
        seen = colours(window)
        assert {look.background, *look.tints.values()} <= seen and not set(other.tints.values()) & seen


def test_the_prompt_stands_above_the_replay_unless_it_is_in_the_form(window: RaceWindow) -> None:
    document = simple()
    window.form.prompt.setPlainText(document.prompt)
    window.show_race(document)
    assert not board_of(window).prompt.isVisible()
    window.form.prompt.setPlainText("Another")
    assert board_of(window).prompt.isVisible()


def test_a_prompt_that_is_being_written_is_not_replaced(window: RaceWindow) -> None:
    window.suggest("The last question")
    assert window.form.prompt.toPlainText() == "The last question"
    window.suggest("Another question")
    assert window.form.prompt.toPlainText() == "The last question"


@pytest.mark.parametrize("busy", [True, False])
def test_while_a_race_is_measured_no_key_starts_opens_or_replays_another(
    busy: bool, window: RaceWindow, monkeypatch: pytest.MonkeyPatch
) -> None:
    raced, asked = list[str](), list[str]()
    monkeypatch.setattr(RaceRequest, "busy", busy)
    monkeypatch.setattr(RaceRequest, "begin", lambda self, prompt, *_: raced.append(prompt))
    monkeypatch.setattr(QFileDialog, "getOpenFileName", lambda *_: asked.append("asked") or ("", ""))
    window.still = True
    window.show_race(simple(parts_at=4))
    window.form.prompt.setPlainText("Why?")
    window.form.set_busy(busy)
    if busy:
        window._show(window.measuring)
    for key in (Qt.Key.Key_Left, Qt.Key.Key_D):
        QTest.keyClick(window, key)
    assert at(window) == (1.2 if busy else 0.5)
    window.open()
    window.form.race()
    assert (raced, asked) == (([], []) if busy else (["Why?"], ["asked"]))


def test_a_race_waits_for_what_it_would_be_slowed_down_by(window: RaceWindow, monkeypatch: pytest.MonkeyPatch) -> None:
    raced, why = list[str](), ["A reply is being written."]
    monkeypatch.setattr(RaceRequest, "begin", lambda self, prompt, *_: raced.append(prompt))
    window._wait = lambda: why[0]
    window.form.prompt.setPlainText("Why?")
    window.form.start.click()
    assert (raced, window.form.error.text()) == ([], why[0])
    why[0] = ""
    monkeypatch.setattr(type(window.exporter), "busy", True)
    window.form.start.click()
    assert (raced, window.form.error.text()) == ([], DRAWING)
    monkeypatch.setattr(type(window.exporter), "busy", False)
    window.form.start.click()
    assert raced == ["Why?"]


# --- files ------------------------------------------------------------------------------------


def test_a_race_that_was_saved_is_opened_and_replayed(window: RaceWindow, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(QFileDialog, "getOpenFileName", lambda *_: (str(RACE), ""))
    window.form.open.click()
    document = open_race(RACE)
    assert window.document == document
    assert window.form.prompt.toPlainText() == document.prompt
    assert [side.side().drafter for side in window.form.sides] == ["none", "auto"]
    assert window.controls.player.end_s == board_of(window).replay.end_s


def test_a_file_that_is_no_race_is_refused_in_a_line(
    window: RaceWindow, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "race.json"
    path.write_bytes(b'{"format": "else"}')
    monkeypatch.setattr(QFileDialog, "getOpenFileName", lambda *_: (str(path), ""))
    window.open()
    assert window.line.isVisible()
    assert window.line.text.text() == "This is not a race saved by Redline: choose another file."
    assert window.board is None


def test_a_race_is_saved_as_it_was_read(window: RaceWindow, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "kept"
    monkeypatch.setattr(QFileDialog, "getSaveFileName", lambda *_: (str(path), ""))
    document = simple(parts_at=3, pairs=2)
    window.show_race(document)
    window.save("json")
    assert path.with_name("kept.json").read_bytes() == race_json(document)
    assert window.line.text.text() == "Exported to “kept.json”."
    window.save("html")
    assert path.with_name("kept.html").read_bytes() == race_page(document)


def test_what_cannot_be_written_is_said(window: RaceWindow, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(QFileDialog, "getSaveFileName", lambda *_: (str(tmp_path / "no folder" / "race.json"), ""))
    window.show_race(simple())
    window.save("json")
    assert "cannot be written" in window.line.text.text()
