"""Everything can be reached and named without a mouse; what the mouse selects goes through pages."""

import pytest
from msgspec.structs import replace
from PySide6.QtCore import QEvent, QPoint, QPointF, Qt
from PySide6.QtGui import QGuiApplication, QMouseEvent
from PySide6.QtTest import QTest
from PySide6.QtWidgets import QAbstractButton, QApplication, QWidget

from app.reply import Reply
from app.window.transcript.message_tile import MessageTile
from app.window.transcript.text_page import TextPage
from tests.app.window.transcript.conftest import MakeStage, Stage
from tests.app.window.transcript.samples import NOTES, PARAGRAPH, REPLY, THOUGHT, conversation, question, reply

PATH = [
    replace(question(1), attachments=(NOTES,)),
    reply(2, REPLY, 1),
    question(3, "And?", 2),
    reply(4, PARAGRAPH, 3, thought=THOUGHT),
]


def open_at_top(stage: MakeStage) -> Stage:
    """A conversation scrolled to its top, with the focus on the column."""
    one = stage().open(*PATH)
    one.transcript.activateWindow()
    one.scroll_to(0)
    one.idle()
    one.transcript.column.setFocus()
    return one


def walk(stage: Stage, key: Qt.Key, most: int = 80) -> list[QWidget]:
    """Where the focus goes, key by key, until it leaves the column or comes back."""
    found: list[QWidget] = []
    for _ in range(most):
        QTest.keyClick(QApplication.focusWidget() or stage.transcript.column, key)
        stage.settle()
        now = QApplication.focusWidget()
        if now is None or now in found[:-1] or not stage.transcript.column.isAncestorOf(now):
            break
        if now not in found:  # within a page, Tab goes from link to link
            found.append(now)
    return found


def tile_of(widget: QWidget | None) -> MessageTile | None:
    while widget is not None and not isinstance(widget, MessageTile):
        widget = widget.parentWidget()
    return widget


def test_tab_goes_through_all_that_can_be_used_in_order_and_back(stage: MakeStage) -> None:
    one = open_at_top(stage)
    reached = walk(one, Qt.Key.Key_Tab)
    messages = [tile.entry.record.id for widget in reached if (tile := tile_of(widget))]
    assert messages == sorted(messages)
    assert set(messages) == {1, 2, 3, 4}
    names = [stop.accessibleName() for stop in reached[:5]]
    assert names == ["Attached file notes.md", "Your message", "Copy Message", "Race This Prompt", "Edit"]
    for tile in one.tiles:
        assert all(stop in reached for stop in tile.focus_widgets())
    reached[-1].setFocus()
    assert walk(one, Qt.Key.Key_Backtab)[: len(reached) - 1] == reached[-2::-1]


def test_every_control_has_a_name(stage: MakeStage) -> None:
    one = open_at_top(stage)
    one.scroll_to(0)
    one.tiles[0].footer.buttons["Edit"].click()
    one.settle()
    controls = [w for w in one.transcript.findChildren(QWidget) if w.focusPolicy() & Qt.FocusPolicy.TabFocus]
    buttons = one.transcript.findChildren(QAbstractButton)
    assert len(controls) > 12
    for control in {*controls, *buttons}:
        if control.isVisibleTo(one.transcript):
            assert control.accessibleName() or (isinstance(control, QAbstractButton) and control.text())


def test_actions_are_seen_when_the_focus_is_within(stage: MakeStage) -> None:
    one = open_at_top(stage)
    first = one.tiles[1]
    copy = first.footer.buttons["Copy Message"]
    assert not copy.shown
    first.focus_widgets()[0].setFocus()
    one.settle()
    assert copy.shown
    one.transcript.column.setFocus()
    one.settle()
    assert not copy.shown


def test_ctrl_down_and_up_go_from_message_to_message(stage: MakeStage) -> None:
    one = open_at_top(stage)
    found = []
    for _ in range(3):
        QTest.keyClick(QApplication.focusWidget(), Qt.Key.Key_Down, Qt.KeyboardModifier.ControlModifier)
        one.idle()
        tile = tile_of(QApplication.focusWidget())
        assert tile is not None
        found.append(tile.entry.record.id)
    QTest.keyClick(QApplication.focusWidget(), Qt.Key.Key_Up, Qt.KeyboardModifier.ControlModifier)
    back = tile_of(QApplication.focusWidget())
    assert found == [1, 2, 3] and back is not None and back.entry.record.id == 2


@pytest.mark.slow
def test_ctrl_up_reaches_the_first_of_many_messages(stage: MakeStage) -> None:
    one = stage()
    path, told = conversation(40, 8000)
    one.transcript.show_branch(path, lambda message: Reply(told[message]))
    one.idle()
    one.transcript.column.setFocus()
    for _ in range(40):
        QTest.keyClick(QApplication.focusWidget(), Qt.Key.Key_Up, Qt.KeyboardModifier.ControlModifier)
        one.idle()
    tile = tile_of(QApplication.focusWidget())
    assert tile is not None and tile.entry.record.id == 1


def test_keys_scroll(stage: MakeStage) -> None:
    one = open_at_top(stage)
    column = one.transcript.column
    bar = column.verticalScrollBar()
    column.setFocus()
    QTest.keyClick(column, Qt.Key.Key_Home)
    assert bar.value() == 0
    QTest.keyClick(column, Qt.Key.Key_PageDown)
    assert bar.value() > column.viewport().height() // 2
    QTest.keyClick(column, Qt.Key.Key_End)
    assert bar.value() == bar.maximum()
    QTest.keyClick(column, Qt.Key.Key_Up)
    assert bar.value() < bar.maximum()


def test_select_all_takes_every_page_of_the_message(stage: MakeStage) -> None:
    one = stage(800, 3000)
    text = (PARAGRAPH + "\n\n") * 20
    one.open(question(1), reply(2, text, 1))
    tile = one.tiles[1]
    page = tile.focus_widgets()[0]
    page.setFocus()
    QTest.keySequence(page, "Ctrl+A")
    QTest.keySequence(page, "Ctrl+C")
    assert QGuiApplication.clipboard().text().count("Speculative decoding") == 20


def test_the_raw_source_is_copied_as_it_is(stage: MakeStage) -> None:
    one = stage(800, 3000)
    text = (REPLY + "\n\n") * 2 + "word " * 1500 + "\n\n```text\n" + "a line\n" * 900 + "```"
    one.transcript.change_options(raw=True)
    one.open(question(1), reply(2, text, 1))
    tile = one.tiles[-1]
    tile.arrange(700, -100_000, 200_000)
    assert len(tile.focus_widgets()) > 4
    tile.selection.select_all()
    tile.copy()
    assert QGuiApplication.clipboard().text() == text


def test_a_drag_selects_from_one_page_into_the_next(stage: MakeStage) -> None:
    one = stage(800, 3000)
    text = "\n\n".join(f"Paragraph {n}. {PARAGRAPH}" for n in range(20))
    one.open(question(1), reply(2, text, 1))
    tile = one.tiles[1]
    first, second = (stop for stop in tile.focus_widgets()[:2])
    assert isinstance(first, TextPage) and isinstance(second, TextPage)
    view = first.viewport()
    start, goal = place_of(first, first.document().characterCount() - 12), place_of(second, 300)
    goal = view.mapFromGlobal(second.viewport().mapToGlobal(goal))
    QTest.mousePress(view, Qt.MouseButton.LeftButton, pos=start)
    for place in ((start + goal) / 2, goal):
        drag(view, place)
    QTest.mouseRelease(view, Qt.MouseButton.LeftButton, pos=goal)
    assert first.textCursor().hasSelection() and second.textCursor().hasSelection()
    QTest.keySequence(first, "Ctrl+C")
    copied = QGuiApplication.clipboard().text()
    assert copied.startswith(first.selected_text()) and copied.endswith(second.selected_text())
    QTest.mouseClick(second.viewport(), Qt.MouseButton.LeftButton, pos=QPoint(5, 5))
    assert not first.textCursor().hasSelection()


def place_of(page: TextPage, character: int) -> QPoint:
    cursor = page.textCursor()
    cursor.setPosition(character)
    return page.cursorRect(cursor).center()


def drag(widget: QWidget, place: QPoint) -> None:
    """A move with the button held, which QTest.mouseMove does not do."""
    left, none = Qt.MouseButton.LeftButton, Qt.KeyboardModifier.NoModifier
    there = QPointF(widget.mapToGlobal(place))
    QApplication.sendEvent(widget, QMouseEvent(QEvent.Type.MouseMove, QPointF(place), there, left, left, none))


def test_what_gets_the_focus_comes_into_view(stage: MakeStage) -> None:
    one = open_at_top(stage)
    column = one.transcript.column
    for _ in range(30):
        QTest.keyClick(QApplication.focusWidget(), Qt.Key.Key_Tab)
        one.settle()
        now = QApplication.focusWidget()
        if now is None or not column.isAncestorOf(now):
            break
        top = now.mapTo(column.viewport(), QPoint(0, 0)).y()
        assert top < column.viewport().height() and top + now.height() > 0
    assert column.verticalScrollBar().value() > 0
