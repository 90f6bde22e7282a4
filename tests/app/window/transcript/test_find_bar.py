"""Find in a chat: every match is counted, reached and marked, wherever it is."""

from __future__ import annotations

from pathlib import Path

import pytest
from msgspec.structs import replace
from PySide6.QtCore import Qt
from PySide6.QtTest import QTest

from app.window.chat import Controller
from app.window.main_window.main_window import MainWindow
from app.window.transcript import find_bar
from app.window.transcript.find_bar import FindBar
from tests.app.window.stepped_clock import SteppedClock
from tests.programs.screenshots import answered, ask, made_up, path

SEA = (
    "The sea is **wide**.\n\n" + "A line of words that fills the page.\n\n" * 60 + "At the end there is the SEA again."
)


@pytest.fixture
def bar(window: MainWindow, controller: Controller) -> FindBar:
    """A chat of three questions; "sea" is in the second one, and at both ends of its long reply."""
    told = {2: made_up("Nothing here.", 1), 4: made_up(SEA, 2), 6: made_up("Done.", 3)}
    shown = [ask(1, "Why?"), answered(2, told[2]), ask(3, "Tell me of the sea"), answered(4, told[4])]
    controller.open(1)
    path(controller, [*shown, ask(5, "And now?"), answered(6, told[6])], told)
    window.show()
    return window.parts.transcript.find_bar


def marked(bar: FindBar) -> list[str]:
    """Returns what is marked in the pages that are laid out, the current one in capitals."""
    found = []
    accent = bar._column.options.appearance.accent
    for tile in bar._column.shown_tiles():
        for page in tile.pages.values():
            for mark in page._found:
                current = mark.format.background().color().name() == accent
                found.append(mark.cursor.selectedText().upper() if current else mark.cursor.selectedText().lower())
    return found


def find(bar: FindBar, window: MainWindow, term: str) -> None:
    window.commands["find"].trigger()
    bar.field.clear()
    QTest.keyClicks(bar.field, term)
    until(lambda: not bar._typed.isActive() and not bar._settle.isActive())


def test_every_match_is_reached_in_turn_and_seen(bar: FindBar, window: MainWindow) -> None:
    bar._column.verticalScrollBar().setValue(0)
    find(bar, window, "sea")
    seen = []
    for _ in range(4):
        until(lambda: not bar._settle.isActive() and "SEA" in marked(bar))
        seen.append(bar.count.text())
        page = next(p for t in bar._column.shown_tiles() for p in t.pages.values() if p._found)
        assert page.isVisible()
        QTest.keyClick(bar.field, Qt.Key.Key_Return)
    assert seen == ["1 of 3", "2 of 3", "3 of 3", "1 of 3"]
    QTest.keyClick(bar.field, Qt.Key.Key_Return, Qt.KeyboardModifier.ShiftModifier)
    assert bar.count.text() == "1 of 3"
    window.commands["find previous"].trigger()
    assert bar.count.text() == "3 of 3"
    until(lambda: not bar._settle.isActive() and marked(bar).count("SEA") == 1)
    assert bar._column.at_end or bar._column.verticalScrollBar().value() > 1000


def test_nothing_found_is_said_and_escape_takes_bar_and_marks_away(bar: FindBar, window: MainWindow) -> None:
    find(bar, window, "nowhere")
    assert bar.count.text() == "Not found" and not bar.next.isEnabled()
    find(bar, window, "sea")
    until(lambda: marked(bar))
    QTest.keyClick(bar.field, Qt.Key.Key_Escape)
    assert bar.isHidden() and not marked(bar) and bar.term == ""
    window.commands["find next"].trigger()
    assert bar.isVisible() and bar.field.selectedText() == "sea"


@pytest.mark.slow
def test_what_is_looked_for_is_no_pattern_and_case_does_not_matter(bar: FindBar, window: MainWindow) -> None:
    find(bar, window, ".*")
    assert bar.count.text() == "Not found"
    find(bar, window, "TELL ME OF")
    assert bar.count.text() == "1 of 1"


@pytest.mark.slow
def test_a_match_in_a_folded_thought_unfolds_it(window: MainWindow, controller: Controller, tmp_path: Path) -> None:
    told = made_up("<think>The tide decides.</think>Yes.", 4)
    controller.open(1)
    path(controller, [ask(1, "Why?"), answered(2, told)], {2: told})
    window.show()
    bar = window.parts.transcript.find_bar
    find(bar, window, "tide")
    entry = bar._column.entries[-1]
    until(lambda: entry.unfolded and "TIDE" in marked(bar))
    assert bar.count.text() == "1 of 1"


@pytest.mark.slow
def test_another_chat_closes_the_bar(bar: FindBar, window: MainWindow, controller: Controller) -> None:
    find(bar, window, "sea")
    controller.new()
    controller.open(2)
    path(controller, [replace(ask(1, "Something else"), conversation=2)], {})
    assert bar.isHidden()


@pytest.mark.slow
def test_a_match_in_a_long_reply_is_reached_though_it_is_read_in_turns(
    window: MainWindow, controller: Controller, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(find_bar, "_TRIES", 2)
    part = "A line of words that fills the page.\n\n" * 2000
    told = {2: made_up(f"{part}Here is the zebra.\n\n{part}", 1)}
    controller.open(1)
    path(controller, [ask(1, "Why?"), answered(2, told[2]), ask(3, "And?")], told)
    window.show()
    bar = window.parts.transcript.find_bar
    find(bar, window, "zebra")
    until(lambda: "ZEBRA" in marked(bar))
