"""What a board shows at a time: it follows from the document and the time alone."""

from dataclasses import replace

import pytest
from PySide6.QtCore import QCoreApplication, QEvent, QObject
from PySide6.QtWidgets import QApplication, QLabel, QScrollArea

from app.race.race_document import RaceDocument, open_race
from app.race.race_text import NUMBERS
from app.window.common import theme
from app.window.common.appearance import DARK, LIGHT
from app.window.common.preferences import LARGEST, Preferences
from app.window.markdown.text_formats import APPEARANCE
from app.window.markdown.token_tints import token_list
from app.window.race.race_board import RaceBoard
from app.window.race.side_pane import LEAST_TEXT, SidePane
from tests.app.race.sample_races import RACE, race, run, simple, steady

LATE = "\N{EN DASH}"


pytestmark = pytest.mark.usefixtures("app")


def open_board(document: RaceDocument, width: int = 1100) -> RaceBoard:
    board = RaceBoard(document)
    board.resize(width, 640)
    board.show()
    QCoreApplication.processEvents()
    return board


def snapshot(board: RaceBoard) -> list[object]:
    """Everything of it that changes with time."""
    panes = [(pane.reader.toPlainText(), pane.bar.share, values(pane), tints(pane)) for pane in board.panes]
    return [*panes, board.comparison.same.text(), board.comparison.below.text(), marks(board)]


def values(pane: SidePane) -> list[str]:
    """The numbers of a side."""
    return [tile.value.text() for tile in pane.numbers.tiles]


def tints(pane: SidePane) -> list[tuple[str, int, str]]:
    """(character, token, colour behind it) of the text."""
    document = pane.reader.document()
    look = document.property(APPEARANCE)
    return [
        (document.characterAt(place), run.token, look.tints[run.origin] if run.origin else "")
        for run in token_list(document).runs
        for place in range(run.start, run.end)
    ]


def marks(board: RaceBoard) -> list[str]:
    """The marked text of each side."""
    return ["".join(one.cursor.selectedText() for one in pane.reader.extraSelections()) for pane in board.panes]  # type: ignore[attr-defined]


def test_the_result_is_shown_at_the_end_and_not_before() -> None:
    board = open_board(simple(pairs=3))
    result = (board.comparison.winner, board.comparison.total, board.comparison.decode)
    for time_s, hidden in ((0.35, True), (9.0, False), (0.5, True)):
        board.show_time(time_s)
        assert {widget.isHidden() for widget in result} == {hidden}
    board.show_time(9.0)
    assert board.comparison.winner.text() == "Prompt lookup is faster"
    assert board.comparison.total.text() == "2.00\N{MULTIPLICATION SIGN}"
    assert board.comparison.noise.isHidden()


def test_runs_that_disagree_name_no_winner_and_say_so() -> None:
    slow, quick = steady(0, 1, range(12), 1, 0.1), steady(1, 1, range(12), 3, 0.2)
    pairs = [(slow, quick), (steady(0, 2, range(12), 3, 0.2), steady(1, 2, range(12), 1, 0.1))]
    board = open_board(race(pairs))
    board.show_time(9.0)
    assert board.comparison.winner.text() == "Too close to call"
    assert board.comparison.noise.text() == "The runs varied a lot. Close other programs and race again."
    assert not board.comparison.noise.isHidden()


def test_every_number_of_the_issue_is_shown_for_both_sides() -> None:
    board = open_board(simple(pairs=3))
    board.show_time(9)
    assert NUMBERS == ("tokens", "decode tok/s", "TTFT", "target passes", "tokens/pass")
    shown = [values(pane) for pane in board.panes]
    assert shown == [["12 / 12", "10.0", "0.10 s", "12", "1.00"], ["12 / 12", "24.4", "0.15 s", "4", "3.00"]]
    assert [pane.bar.share for pane in board.panes] == [1.0, 1.0]
    assert board.comparison.decode.text() == "2.00\N{MULTIPLICATION SIGN}"
    assert "pair 2 of 3\nthe median\nAB BA AB" in [label.text() for label in board.comparison.findChildren(QLabel)]
    assert "Measured one after the other, then replayed side by side. Texts identical" in board.about.text()


def test_nothing_is_shown_before_the_first_token_and_a_faster_side_is_ahead_in_the_middle() -> None:
    board = open_board(simple())
    assert [pane.reader.toPlainText() for pane in board.panes] == ["", ""]
    assert values(board.panes[0]) == ["0 / 12", LATE, LATE, "0", LATE]
    assert (board.comparison.same.text(), board.comparison.below.text()) == ("0", "identical tokens so far")
    board.show_time(0.35)
    assert [values(pane)[0] for pane in board.panes] == ["3 / 12", "6 / 12"]
    assert [pane.reader.toPlainText() for pane in board.panes] == ["The sky is blue", "The sky is blue, and so"]
    assert (board.comparison.same.text(), board.comparison.below.text()) == ("3", "identical tokens so far")


LONG = [*range(12)] * 40  # more than one piece of Markdown, whose first stays as it is when the text grows


@pytest.mark.parametrize(
    "document",
    [open_race(RACE), simple(parts_at=10), race([(steady(0, 1, LONG, 12, 0.1), steady(1, 1, LONG, 12, 0.1))])],
    ids=["a paragraph", "paragraphs and a list", "several pieces"],
)
def test_whatever_was_shown_before_the_same_time_looks_the_same(document: RaceDocument) -> None:
    played, jumped = open_board(document), open_board(document)
    end_s = played.replay.end_s
    for step in range(21):
        played.show_time(end_s * step / 20)
        if step % 5 == 3:
            jumped.show_time(end_s)  # and back
            jumped.show_time(end_s * step / 20)
            assert snapshot(jumped) == snapshot(played)


def test_drafted_tokens_are_tinted_and_plain_ones_are_not() -> None:
    board = open_board(simple())
    board.show_time(9)
    plain, drafted = (tints(pane) for pane in board.panes)
    assert {colour for *_, colour in plain} <= {""}
    assert {LIGHT.tints["accepted"], LIGHT.tints["bonus"]} <= {colour for *_, colour in drafted}


# --- differences ------------------------------------------------------------------------------


def test_a_difference_is_marked_in_both_once_both_have_shown_it() -> None:
    document = race([(steady(0, 1, [0, 1, 2, 3, 4], 1, 0.1), steady(1, 1, [0, 1, 6, 7, 4], 1, 0.2))])
    board = open_board(document)
    board.show_time(0.45)
    assert marks(board) == ["", ""]
    assert board.comparison.below.text() == "identical tokens so far"
    board.show_time(0.65)
    assert marks(board) == [" blue", " is"]
    assert board.comparison.same.text() == "2"
    said = "identical tokens, then “blue” / “is”: a near-tie, gap 1 ULPs, rounding noise 1 ULPs"
    assert board.comparison.below.text() == said
    board.show_time(0.45)
    assert marks(board) == ["", ""]


@pytest.mark.parametrize(
    ("receipts", "colour", "said"),
    [
        ({}, "warning", "a near-tie"),
        ({"near_tie": False}, "error", "a failure"),
        ({"promised": False}, "accent", "the same text is not promised"),
    ],
)
def test_a_difference_is_as_bad_as_it_is(receipts: dict[str, bool], colour: str, said: str) -> None:
    board = open_board(simple(parts_at=5, **receipts))
    board.show_time(9)
    assert board.comparison.same.property("tone") == colour
    assert said in board.comparison.below.text()
    assert "identical over" not in board.about.text()


# --- looks ------------------------------------------------------------------------------------


def test_another_look_changes_nothing_but_colours() -> None:
    board = open_board(simple(parts_at=5))
    board.show_time(9)
    before = [pane.reader.toPlainText() for pane in board.panes], marks(board), board.comparison.below.text()
    theme.show(DARK)
    assert ([pane.reader.toPlainText() for pane in board.panes], marks(board), board.comparison.below.text()) == before
    assert {colour for *_, colour in tints(board.panes[1])} & set(DARK.tints.values())
    assert not {colour for *_, colour in tints(board.panes[1])} & set(LIGHT.tints.values())


def test_numbers_that_do_not_fit_side_by_side_take_two_rows_and_none_is_cut_off() -> None:
    board = open_board(open_race(RACE), width=4000)
    board.show_time(board.replay.end_s)
    numbers = board.panes[0].numbers
    one_row = sum(tile.minimumSizeHint().width() for tile in numbers.tiles)
    for width, rows in ((4000, 1), (4000 - 2 * (numbers.width() - one_row), 2)):
        board.resize(width, 640)
        QCoreApplication.processEvents()
        for pane in board.panes:
            assert len({tile.y() for tile in pane.numbers.tiles}) == rows
            assert all(tile.value.width() >= tile.value.sizeHint().width() for tile in pane.numbers.tiles)


def test_no_text_of_a_race_steers_the_window(monkeypatch: pytest.MonkeyPatch) -> None:
    words = ("<img src='file:///etc/passwd'>", "<b>bold</b>", "\u202eback", "[x](javascript:1)")
    monkeypatch.setattr("tests.app.race.sample_races.WORDS", words)
    board = open_board(race([(run(0, 1, [(0.1, [0, 1, 2, 3])]), run(1, 1, [(0.1, [0, 1, 2, 3])]))]))
    board.show_time(9)
    text = board.panes[0].reader.toPlainText()
    assert "<b>bold</b>" in text
    assert "\u202e" not in text
    assert not [one for one in board.panes[0].reader.document().allFormats() if one.isImageFormat()]


class LayoutRequests(QObject):
    """Counts the layouts that widgets request in a turn of the event loop."""

    count = 0

    def eventFilter(self, watched: QObject, event: object) -> bool:
        self.count += isinstance(event, QEvent) and event.type() == QEvent.Type.LayoutRequest
        return False


def await_layout(app: QApplication) -> None:
    """Runs the event loop until no widget requests another layout."""
    requests, turns = LayoutRequests(), 0
    app.installEventFilter(requests)
    while not turns or requests.count:
        requests.count, turns = 0, turns + 1
        assert turns < 1000, "widgets request layouts for ever"
        QCoreApplication.processEvents()
    app.removeEventFilter(requests)


@pytest.mark.parametrize("size", [(1240, 520), (900, 380)])
def test_large_text_cuts_nothing_and_the_board_scrolls(app: QApplication, size: tuple[int, int]) -> None:
    board = open_board(open_race(RACE))
    board.show_time(board.replay.end_s)
    theme.show(replace(LIGHT, scale=Preferences(zoom=LARGEST).scale))
    board.resize(*size)
    await_layout(app)
    texts = [one for one in board.comparison.findChildren(QLabel) if one.isVisible() and one.text()]
    assert len(texts) > 6
    for text in texts:
        assert text.height() >= text.heightForWidth(text.width()), text.text()
        assert text.width() >= text.minimumSizeHint().width(), text.text()
    for pane in board.panes:
        assert pane.reader.height() >= LEAST_TEXT
        assert all(tile.width() >= tile.minimumSizeHint().width() for tile in pane.numbers.tiles)
    scroll = board.findChild(QScrollArea)
    assert scroll is not None
    beyond = scroll.widget().size() - scroll.viewport().size()
    for pixels, bar in ((beyond.width(), scroll.horizontalScrollBar()), (beyond.height(), scroll.verticalScrollBar())):
        assert bar.maximum() == max(0, pixels) and bar.isVisible() == (pixels > 0)
