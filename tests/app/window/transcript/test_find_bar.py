"""Find in a chat: every match is counted, reached and marked, wherever it is."""

from itertools import count

import pytest
from msgspec.structs import replace
from PySide6.QtCore import Qt
from PySide6.QtTest import QTest

from app.window.chat import Controller
from app.window.main_window.main_window import MainWindow
from app.window.transcript import find_bar
from app.window.transcript.find_bar import FindBar
from tests.app.window.stepped_clock import SteppedClock
from tests.app.window.transcript.samples import rounds
from tests.programs.screenshots import answered, ask, made_up, path

SEA = (
    "The sea is **wide**.\n\n" + "A line of words that fills the page.\n\n" * 60 + "At the end there is the SEA again."
)


pytestmark = pytest.mark.usefixtures("clock")


def open_chat(window: MainWindow, controller: Controller, *texts: str) -> FindBar:
    """Shows a chat of questions and replies in turn; returns its find bar."""
    told = {id: made_up(text, id) for id, text in enumerate(texts, 1) if id % 2 == 0}
    controller.open(1)
    path(
        controller, [answered(id, told[id]) if id in told else ask(id, text) for id, text in enumerate(texts, 1)], told
    )
    window.show()
    return window.parts.transcript.find_bar


@pytest.fixture
def bar(window: MainWindow, controller: Controller) -> FindBar:
    """A chat of three questions; "sea" is in the second one, and at both ends of its long reply."""
    return open_chat(window, controller, "Why?", "Nothing here.", "Tell me of the sea", SEA, "And now?", "Done.")


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


def find(bar: FindBar, window: MainWindow, clock: SteppedClock, term: str) -> None:
    window.commands["find"].trigger()
    bar.field.clear()
    QTest.keyClicks(bar.field, term)
    clock.advance(1)


def test_every_match_is_reached_in_turn_and_seen(bar: FindBar, window: MainWindow, clock: SteppedClock) -> None:
    bar._column.verticalScrollBar().setValue(0)
    find(bar, window, clock, "sea")
    seen = []
    for _ in range(4):
        seen.append(bar.count.text())
        assert marked(bar).count("SEA") == 1
        page = next(p for t in bar._column.shown_tiles() for p in t.pages.values() if p._found)
        assert page.isVisible()
        QTest.keyClick(bar.field, Qt.Key.Key_Return)
        clock.settle()
    assert seen == ["1 of 3", "2 of 3", "3 of 3", "1 of 3"]
    QTest.keyClick(bar.field, Qt.Key.Key_Return, Qt.KeyboardModifier.ShiftModifier)
    assert bar.count.text() == "1 of 3"
    window.commands["find previous"].trigger()
    assert bar.count.text() == "3 of 3"
    clock.settle()
    assert marked(bar).count("SEA") == 1 and bar._column.verticalScrollBar().value() > 0


def test_nothing_found_is_said_and_escape_takes_bar_and_marks_away(
    bar: FindBar, window: MainWindow, clock: SteppedClock
) -> None:
    for term, said in ((".*", "Not found"), ("TELL ME OF", "1 of 1"), ("nowhere", "Not found")):  # no pattern, no case
        find(bar, window, clock, term)
        assert bar.count.text() == said and bar.next.isEnabled() == (said != "Not found")
    find(bar, window, clock, "sea")
    assert marked(bar)
    QTest.keyClick(bar.field, Qt.Key.Key_Escape)
    assert bar.isHidden() and not marked(bar) and bar.term == ""
    window.commands["find next"].trigger()
    assert bar.isVisible() and bar.field.selectedText() == "sea"


@pytest.mark.slow
def test_a_match_in_a_folded_thought_unfolds_it(
    window: MainWindow, controller: Controller, clock: SteppedClock
) -> None:
    told = list(rounds("Yes.", thought="The tide decides."))
    controller.open(1)
    path(controller, [ask(1, "Why?"), answered(2, told, text="Yes.", thought="The tide decides.")], {2: told})
    window.show()
    bar = window.parts.transcript.find_bar
    find(bar, window, clock, "tide")
    assert bar._column.entries[-1].unfolded and "TIDE" in marked(bar)
    assert bar.count.text() == "1 of 1"


@pytest.mark.slow
def test_another_chat_closes_the_bar(
    bar: FindBar, window: MainWindow, controller: Controller, clock: SteppedClock
) -> None:
    find(bar, window, clock, "sea")
    controller.new()
    controller.open(2)
    path(controller, [replace(ask(1, "Something else"), conversation=2)], {})
    assert bar.isHidden()


@pytest.mark.slow
def test_a_match_in_a_long_reply_is_reached_though_it_is_read_in_turns(
    window: MainWindow, controller: Controller, clock: SteppedClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(find_bar, "_TRIES", 2)
    monkeypatch.setattr(clock, "work_s", count().__next__)  # each look at the clock takes a second
    part = "A line of words that fills the page.\n\n" * 300
    bar = open_chat(window, controller, "Why?", f"{part}Here is the zebra.\n\n{part}", "And?")
    find(bar, window, clock, "zebra")
    assert "ZEBRA" in marked(bar)
