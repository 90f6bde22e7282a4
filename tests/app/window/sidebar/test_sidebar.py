"""The sidebar: groups, search, rename, pin, delete with undo, and thousands of rows."""

from __future__ import annotations

import time
from datetime import date, datetime

import pytest
from PySide6.QtCore import QCoreApplication, QModelIndex, Qt
from PySide6.QtTest import QTest
from PySide6.QtWidgets import QLineEdit

from app.window.chat import Controller
from app.window.common.section_list import ITEM
from app.window.main_window.main_window import MainWindow
from app.window.sidebar.conversation_list import ConversationModel, group_of
from app.window.sidebar.sidebar import Sidebar
from tests.app.window.chats import add_conversation, conversation, open_chat
from tests.app.window.waiting import until


@pytest.fixture
def sidebar(window: MainWindow) -> Sidebar:
    return window.parts.sidebar


def rows(sidebar: Sidebar) -> list[str]:
    model = sidebar.list.model()
    return [model.index(row, 0).data() for row in range(model.rowCount())]


def index_of(sidebar: Sidebar, which: int) -> QModelIndex:
    return sidebar.conversations.index_of(which)


def search(sidebar: Sidebar, text: str) -> None:
    """Types into the search field, and waits for the results."""
    sidebar.start_search()
    QTest.keyClicks(sidebar.field, text)
    until(lambda: sidebar.list.model() is sidebar.hits, 5)


# --- the list ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("day", "hour", "group"),
    [
        (15, 0, "Today"),
        (14, 23, "Yesterday"),
        (13, 23, "Previous 7 days"),
        (8, 0, "Previous 7 days"),
        (7, 23, "Older"),
        (16, 1, "Today"),
    ],
)
def test_conversations_are_grouped_by_the_day_of_their_last_change(day: int, hour: int, group: str) -> None:
    changed = datetime(2026, 5, day, hour, 30).timestamp()
    assert group_of(conversation(1, "a", changed), date(2026, 5, 15)) == group
    assert group_of(conversation(1, "a", changed, pinned=True), date(2026, 5, 15)) == "Pinned"


def test_the_list_is_newest_first_under_headings_that_cannot_be_chosen(
    sidebar: Sidebar, controller: Controller
) -> None:
    now = time.time()
    assert ConversationModel().neighbour(1, 1) is None
    sidebar.show_all([conversation(1, "old", 0), conversation(2, "new", now), conversation(3, "top", 1, True)])
    assert rows(sidebar) == ["Pinned", "top", "Today", "new", "Older", "old"]
    heading = sidebar.conversations.index(0)
    assert sidebar.conversations.flags(heading) == Qt.ItemFlag.NoItemFlags


def test_a_click_and_enter_open_a_conversation(sidebar: Sidebar, controller: Controller) -> None:
    sidebar.list.setCurrentIndex(index_of(sidebar, 3))
    sidebar.list.setFocus()
    QTest.keyClick(sidebar.list, Qt.Key.Key_Return)
    assert controller.conversation.id == 3
    at = sidebar.list.visualRect(index_of(sidebar, 2)).center()
    QTest.mouseClick(sidebar.list.viewport(), Qt.MouseButton.LeftButton, Qt.KeyboardModifier.NoModifier, at)
    assert controller.conversation.id == 2


def test_the_open_conversation_stays_marked_when_the_list_changes(sidebar: Sidebar, controller: Controller) -> None:
    controller.open(3)
    controller.library.pin(1, True)
    assert sidebar.list.currentIndex().data(ITEM).id == 3


@pytest.mark.timing
def test_thousands_of_conversations_are_shown_and_scrolled_at_once(sidebar: Sidebar) -> None:
    now = time.time()
    records = [conversation(n + 1, f"Conversation {n}", now - 600 * n) for n in range(5000)]
    began = time.perf_counter()
    sidebar.show_all(records)
    QCoreApplication.processEvents()
    assert time.perf_counter() - began < 0.5
    began = time.perf_counter()
    sidebar.list.scrollToBottom()
    sidebar.list.viewport().repaint()
    assert time.perf_counter() - began < 0.1


def test_keys_open_the_conversation_above_and_below(window: MainWindow, controller: Controller) -> None:
    controller.open(2)
    window.commands["next"].trigger()
    assert controller.conversation.id == 3
    window.commands["previous"].trigger()
    window.commands["previous"].trigger()
    assert controller.conversation.id == 1


# --- rename, pin, delete ----------------------------------------------------------------------


def test_a_title_is_edited_in_its_row_and_an_empty_one_is_refused(sidebar: Sidebar, controller: Controller) -> None:
    sidebar.list.setCurrentIndex(index_of(sidebar, 2))
    sidebar.list.setFocus()
    QTest.keyClick(sidebar.list, Qt.Key.Key_F2)
    editor = sidebar.list.findChild(QLineEdit)
    assert editor is not None and editor.text() == "Counting to thirty"
    assert not sidebar.conversations.setData(index_of(sidebar, 2), "  ")
    editor.setText("  Counting   on ")
    QTest.keyClick(editor, Qt.Key.Key_Return)
    until(lambda: "Counting on" in rows(sidebar), 5)
    assert controller.library.store.conversation(2).title == "Counting on"


def test_a_conversation_is_pinned_and_unpinned_from_its_menu(sidebar: Sidebar) -> None:
    menu = sidebar.menu_of(index_of(sidebar, 3))
    next(action for action in menu.actions() if action.text() == "Pin").trigger()
    assert rows(sidebar)[:2] == ["Pinned", "Bread"]
    menu = sidebar.menu_of(index_of(sidebar, 3))
    next(action for action in menu.actions() if action.text() == "Unpin").trigger()
    assert "Pinned" not in rows(sidebar)


def test_delete_removes_a_conversation_and_undo_restores_it(
    window: MainWindow, sidebar: Sidebar, controller: Controller
) -> None:
    sidebar.list.setCurrentIndex(index_of(sidebar, 3))
    sidebar.list.setFocus()
    QTest.keyClick(sidebar.list, Qt.Key.Key_Delete)
    assert "Bread" not in rows(sidebar)
    window.commands["undo"].trigger()
    assert "Bread" in rows(sidebar)


@pytest.mark.slow
def test_undo_in_the_composer_undoes_typing_only(window: MainWindow, controller: Controller) -> None:
    controller.delete(2)
    window.parts.composer.editor.setFocus()
    QTest.keyClicks(window.parts.composer.editor, "ab")
    window.commands["undo"].trigger()
    assert len(controller.library.conversations()) == 3
    assert window.parts.composer.editor.toPlainText() == ""


# --- search -----------------------------------------------------------------------------------


def test_enter_opens_the_first_hit_on_its_branch_at_its_message(
    window: MainWindow, sidebar: Sidebar, controller: Controller, monkeypatch: pytest.MonkeyPatch
) -> None:
    revealed: list[int] = []
    monkeypatch.setattr(window.parts.transcript, "reveal", revealed.append)
    question, _ = open_chat(controller, "Why is a heron grey?", "So.")
    controller.edit(question.id, "Why not?")
    controller.stop()
    controller.new()
    search(sidebar, "heron")
    assert sidebar.hits.rowCount() >= 1
    QTest.keyClick(sidebar.field, Qt.Key.Key_Return)
    assert controller.conversation.id == question.conversation
    hit = sidebar.hits.index(0).data(ITEM)
    if hit.message is not None:
        assert revealed == [question.id] and controller.path[0].id == question.id


@pytest.mark.slow
def test_a_hit_on_the_current_branch_only_scrolls(
    window: MainWindow, sidebar: Sidebar, controller: Controller, monkeypatch: pytest.MonkeyPatch
) -> None:
    revealed: list[int] = []
    monkeypatch.setattr(window.parts.transcript, "reveal", revealed.append)
    question = open_chat(controller, "What does a heron eat?", "Fish.", "Where?", "In shallow water.")[0]
    controller.library.rename(question.conversation, "Birds")
    path = controller.path
    search(sidebar, "heron")
    QTest.keyClick(sidebar.field, Qt.Key.Key_Return)
    assert controller.path == path and revealed == [question.id]


@pytest.mark.slow
def test_arrows_in_the_search_field_move_through_the_hits(sidebar: Sidebar, controller: Controller) -> None:
    for title in ("heron one", "heron two", "heron three"):
        add_conversation(controller, title)
    search(sidebar, "heron")
    for key in (Qt.Key.Key_Down, Qt.Key.Key_Down, Qt.Key.Key_Down, Qt.Key.Key_Up):
        QTest.keyClick(sidebar.field, key)
    second = rows(sidebar)[1]
    assert sidebar.list.currentIndex().data() == second
    QTest.keyClick(sidebar.field, Qt.Key.Key_Return)
    assert controller.conversation.title == second


@pytest.mark.slow
def test_escape_ends_a_search_and_one_without_results_is_explained(sidebar: Sidebar) -> None:
    search(sidebar, "sky")
    assert "Bread" not in rows(sidebar)
    QTest.keyClick(sidebar.field, Qt.Key.Key_Escape)
    assert "Bread" in rows(sidebar)
    search(sidebar, "zzz")
    assert sidebar.empty_label.isVisible() and "zzz" in sidebar.empty_label.text()
    sidebar.field.clear()
    assert not sidebar.empty_label.isVisible()


@pytest.mark.slow
def test_results_stay_when_a_conversation_changes_during_a_search(sidebar: Sidebar, controller: Controller) -> None:
    found = add_conversation(controller, "heron one")
    add_conversation(controller, "heron two")
    controller.open(found)
    search(sidebar, "heron")
    controller.library.rename(found, "heron three")
    assert sidebar.list.model() is sidebar.hits and sorted(rows(sidebar)) == ["heron three", "heron two"]
    assert sidebar.list.currentIndex() == sidebar.hits.index(0)
    sidebar.field.clear()
    assert sidebar.list.currentIndex() == index_of(sidebar, found)


def test_fast_typing_searches_once(sidebar: Sidebar) -> None:
    searched: list[str] = []
    sidebar._search = lambda text: searched.append(text) or []  # type: ignore[func-returns-value]
    search(sidebar, "blue sky")
    assert searched == ["blue sky"]


@pytest.mark.slow
def test_hits_are_painted_with_their_matches_marked(sidebar: Sidebar, controller: Controller) -> None:
    open_chat(controller, "The sky is blue", "A sky\nof many lines " * 20)
    search(sidebar, "sky")
    picture = sidebar.list.viewport().grab().toImage()
    colours = {picture.pixelColor(x, y).name() for x in range(0, picture.width(), 2) for y in range(0, 120, 2)}
    assert len(colours) > 3
