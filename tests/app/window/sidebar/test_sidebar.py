"""The sidebar: groups, search, rename, pin, delete with undo, and thousands of rows."""

import time
from collections.abc import Callable
from datetime import date, datetime

import pytest
from PySide6.QtCore import QCoreApplication, QModelIndex, Qt
from PySide6.QtTest import QTest
from PySide6.QtWidgets import QLineEdit

from app.palette import mix
from app.window.chat import Controller
from app.window.common import theme
from app.window.common.section_list import ITEM
from app.window.main_window.main_window import SAVE_PLACES_MS, MainWindow
from app.window.sidebar.conversation_list import ConversationModel, group_of
from app.window.sidebar.sidebar import SEARCH_MS, Sidebar
from tests.app.window.chats import add_conversation, conversation, end, open_chat, open_window
from tests.app.window.pictures import colours_in
from tests.app.window.stepped_clock import SteppedClock
from tests.machine_speed import assert_quick

Search = Callable[[str], None]


@pytest.fixture
def sidebar(clock: SteppedClock, window: MainWindow) -> Sidebar:
    return window.parts.sidebar


def rows(sidebar: Sidebar) -> list[str]:
    model = sidebar.list.model()
    return [model.index(row, 0).data() for row in range(model.rowCount())]


def index_of(sidebar: Sidebar, which: int) -> QModelIndex:
    return sidebar.conversations.index_of(which)


@pytest.fixture
def search(clock: SteppedClock, sidebar: Sidebar) -> Callable[[str], None]:
    """Types into the search field, and waits for the results."""

    def type_and_wait(text: str) -> None:
        sidebar.start_search()
        QTest.keyClicks(sidebar.field, text)
        clock.advance(SEARCH_MS / 1000)
        assert sidebar.list.model() is sidebar.hits

    return type_and_wait


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


def test_the_list_is_newest_first_under_headings_that_cannot_be_chosen(sidebar: Sidebar) -> None:
    future_s = datetime(2100, 1, 1).timestamp()
    assert ConversationModel().neighbour(1, 1) is None
    sidebar.show_all([conversation(1, "old", 0), conversation(2, "new", future_s), conversation(3, "top", 1, True)])
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


def test_a_message_changes_one_row_and_reads_no_other_conversation(
    sidebar: Sidebar, controller: Controller, monkeypatch: pytest.MonkeyPatch
) -> None:
    controller.open(3)
    monkeypatch.setattr(controller.library.store, "conversations", lambda: pytest.fail("all were read"))
    resets: list[None] = []
    sidebar.conversations.modelReset.connect(lambda: resets.append(None))
    assert controller.send("Rye?")
    assert rows(sidebar)[:2] == ["Today", "Bread"] and len(resets) == 1
    controller.stop()
    assert controller.send("Wheat?") and len(resets) == 1
    controller.stop()
    controller.new()
    assert controller.send("What does a heron eat?")
    assert rows(sidebar)[:3] == ["Today", "What does a heron eat?", "Bread"]


@pytest.mark.timing
def test_thousands_of_conversations_are_shown_and_scrolled_at_once(sidebar: Sidebar) -> None:
    now = time.time()
    records = [conversation(n + 1, f"Conversation {n}", now - 600 * n) for n in range(5000)]

    def show_s() -> float:
        sidebar.show_all([])
        began_s = time.perf_counter()
        sidebar.show_all(records)
        QCoreApplication.processEvents()
        return time.perf_counter() - began_s

    def scroll_s() -> float:
        sidebar.list.scrollToTop()
        began_s = time.perf_counter()
        sidebar.list.scrollToBottom()
        sidebar.list.viewport().repaint()
        return time.perf_counter() - began_s

    assert_quick(show_s, 0.5)
    assert_quick(scroll_s, 0.1)


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
    QCoreApplication.processEvents()
    assert "Counting on" in rows(sidebar)
    assert controller.library.store.conversation(2).title == "Counting on"


def test_a_conversation_is_pinned_and_unpinned_from_its_menu(sidebar: Sidebar) -> None:
    menu = sidebar.menu_of(index_of(sidebar, 3))
    next(action for action in menu.actions() if action.text() == "Pin").trigger()
    assert rows(sidebar)[:2] == ["Pinned", "Bread"]
    menu = sidebar.menu_of(index_of(sidebar, 3))
    next(action for action in menu.actions() if action.text() == "Unpin").trigger()
    assert "Pinned" not in rows(sidebar)


def choose(sidebar: Sidebar, which: int, *names: str) -> None:
    """Chooses from the menu of a conversation."""
    menu = sidebar.menu_of(index_of(sidebar, which))
    for name in names:
        action = next(action for action in menu.actions() if action.text() == name)
        menu = action.menu() or menu
    action.trigger()


def test_conversations_are_put_into_folders_by_their_menu_or_their_title(
    sidebar: Sidebar, controller: Controller
) -> None:
    choose(sidebar, 3, "Move to Folder", "New Folder…")
    editor = sidebar.list.findChild(QLineEdit)
    assert editor is not None and editor.selectedText() == "New Folder"
    QTest.keyClicks(editor, "Recipes")
    QTest.keyClick(editor, Qt.Key.Key_Return)
    QCoreApplication.processEvents()
    assert rows(sidebar)[:2] == ["Recipes", "Bread"] and controller.library.find(3).title == "Recipes / Bread"
    controller.library.rename(1, "Physics / Sky")
    assert rows(sidebar)[:4] == ["Physics", "Sky", "Recipes", "Bread"]
    choose(sidebar, 1, "Move to Folder", "Recipes")
    assert rows(sidebar)[:3] == ["Recipes", "Sky", "Bread"]
    choose(sidebar, 1, "Pin")
    assert rows(sidebar)[:4] == ["Pinned", "Recipes / Sky", "Recipes", "Bread"]
    choose(sidebar, 3, "Move to Folder", "No Folder")
    assert "Recipes" not in rows(sidebar) and controller.library.find(3).title == "Bread"


def test_a_folder_is_collapsed_by_click_and_keys_and_stays_so_at_the_next_start(
    clock: SteppedClock, window: MainWindow, sidebar: Sidebar, controller: Controller
) -> None:
    controller.library.rename(1, "Work / Sky")
    controller.library.rename(2, "Work / Counting")
    sidebar.list.setCurrentIndex(index_of(sidebar, 1))
    QTest.keyClick(sidebar.list, Qt.Key.Key_Up)
    assert sidebar.list.currentIndex().data() == "Work"
    for key, shown in ((Qt.Key.Key_Right, 3), (Qt.Key.Key_Left, 1), (Qt.Key.Key_Return, 3), (Qt.Key.Key_Return, 1)):
        QTest.keyClick(sidebar.list, key)
        assert rows(sidebar)[: shown + 1] == [*["Work", "Sky", "Counting"][:shown], rows(sidebar)[shown]]
        assert sidebar.list.currentIndex().data() == "Work"
    heading = sidebar.list.currentIndex()
    assert heading.data(Qt.ItemDataRole.AccessibleTextRole) == "Folder Work, collapsed"
    controller.library.rename(3, "Work / Bread")  # which is put there, out of sight
    assert rows(sidebar)[0] == "Work" and "Bread" not in rows(sidebar)
    clock.advance(SAVE_PLACES_MS / 1000)
    second = open_window(controller)
    assert "Sky" not in rows(second.parts.sidebar)
    at = second.parts.sidebar.list.visualRect(second.parts.sidebar.conversations.index(0)).center()
    view = second.parts.sidebar.list.viewport()
    QTest.mouseClick(view, Qt.MouseButton.LeftButton, Qt.KeyboardModifier.NoModifier, at)
    assert set(rows(second.parts.sidebar)[:4]) == {"Work", "Sky", "Counting", "Bread"}
    end(second)


def test_undo_takes_back_a_deletion_or_typing_whichever_was_last(
    clock: SteppedClock, window: MainWindow, sidebar: Sidebar
) -> None:
    """With the focus in the composer, by keyboard, and when the notice has long gone."""
    editor, undo = window.parts.composer.editor, window.commands["undo"]
    QTest.keyClicks(editor, "ab")
    sidebar.list.setCurrentIndex(index_of(sidebar, 3))
    sidebar.list.setFocus()
    QTest.keyClick(sidebar.list, Qt.Key.Key_Delete)
    editor.setFocus()
    clock.advance(60)
    assert not window.parts.notices.banners and undo.text() == "Undo Delete"
    QTest.keyClick(editor, Qt.Key.Key_Z, Qt.KeyboardModifier.ControlModifier)
    assert "Bread" in rows(sidebar) and editor.toPlainText() == "ab" and undo.text() == "Undo"
    window.controller.deletion.delete(3)
    QTest.keyClicks(editor, "c")
    assert undo.text() == "Undo"
    QTest.keyClick(editor, Qt.Key.Key_Z, Qt.KeyboardModifier.ControlModifier)
    assert "Bread" not in rows(sidebar) and "c" not in editor.toPlainText()


def test_deleting_the_open_chat_is_undone_from_the_composer(window: MainWindow, sidebar: Sidebar) -> None:
    window.controller.open(3)
    window.commands["delete"].trigger()
    editor = window.parts.composer.editor
    assert editor.hasFocus() and window.controller.conversation.id != 3
    QTest.keyClick(editor, Qt.Key.Key_Z, Qt.KeyboardModifier.ControlModifier)
    assert "Bread" in rows(sidebar) and window.controller.conversation.id == 3


# --- search -----------------------------------------------------------------------------------


def test_enter_opens_the_first_hit_on_its_branch_at_its_message(
    window: MainWindow, sidebar: Sidebar, search: Search, monkeypatch: pytest.MonkeyPatch
) -> None:
    revealed: list[int] = []
    monkeypatch.setattr(window.parts.transcript, "reveal", revealed.append)
    controller = window.controller
    question, _ = open_chat(controller, "What does a heron eat?", "Fish.")
    controller.library.rename(question.conversation, "Birds")
    controller.edit(question.id, "Why not?")
    controller.stop()
    for on_another_branch in (True, False):
        if on_another_branch:
            controller.new()
        search("heron")
        QTest.keyClick(sidebar.field, Qt.Key.Key_Return)
        assert revealed == [question.id] and controller.path[0].id == question.id
        revealed.clear()
        sidebar.field.clear()


def test_arrows_in_the_search_field_move_through_the_hits(
    sidebar: Sidebar, search: Search, controller: Controller
) -> None:
    for title in ("heron one", "heron two", "heron three"):
        add_conversation(controller, title)
    search("heron")
    for key in (Qt.Key.Key_Down, Qt.Key.Key_Down, Qt.Key.Key_Down, Qt.Key.Key_Up):
        QTest.keyClick(sidebar.field, key)
    second = rows(sidebar)[1]
    assert sidebar.list.currentIndex().data() == second
    QTest.keyClick(sidebar.field, Qt.Key.Key_Return)
    assert controller.conversation.title == second


def test_escape_ends_a_search_and_one_without_results_is_explained(sidebar: Sidebar, search: Search) -> None:
    search("sky")
    assert "Bread" not in rows(sidebar)
    QTest.keyClick(sidebar.field, Qt.Key.Key_Escape)
    assert "Bread" in rows(sidebar)
    search("zzz")
    assert sidebar.empty_label.isVisible() and "zzz" in sidebar.empty_label.text()
    sidebar.field.clear()
    assert not sidebar.empty_label.isVisible()


def test_results_stay_when_a_conversation_changes_during_a_search(
    sidebar: Sidebar, search: Search, controller: Controller
) -> None:
    found = add_conversation(controller, "heron one")
    add_conversation(controller, "heron two")
    controller.open(found)
    search("heron")
    controller.library.rename(found, "heron three")
    assert sidebar.list.model() is sidebar.hits and sorted(rows(sidebar)) == ["heron three", "heron two"]
    assert sidebar.list.currentIndex() == sidebar.hits.index(0)
    sidebar.field.clear()
    assert sidebar.list.currentIndex() == index_of(sidebar, found)


def test_fast_typing_searches_once(sidebar: Sidebar, search: Search) -> None:
    searched: list[str] = []
    sidebar._search = lambda text: searched.append(text) or []  # type: ignore[func-returns-value]
    search("blue sky")
    assert searched == ["blue sky"]


def test_hits_are_painted_with_their_matches_marked(sidebar: Sidebar, search: Search, controller: Controller) -> None:
    open_chat(controller, "The sky is blue", "A sky\nof many lines " * 20)
    search("sky")
    look = theme.current()
    assert mix(look.sidebar, look.accent, 0.25) in colours_in(sidebar.list.viewport())
