"""The sidebar: search, a new chat, and the list of conversations, with rename, pin, delete and export in its menu."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from PySide6.QtCore import QEvent, QModelIndex, QObject, QPoint, Qt, QTimer, Signal
from PySide6.QtGui import QAction, QKeyEvent
from PySide6.QtWidgets import QAbstractItemView, QHBoxLayout, QLineEdit, QListView, QMenu, QVBoxLayout, QWidget

from app.store.records import ConversationRecord, SearchHit
from app.window.common import theme
from app.window.common.icons import icon
from app.window.common.widgets import IconButton, style, wrapped
from app.window.sidebar.conversation_delegate import ConversationDelegate
from app.window.sidebar.conversation_models import ConversationsModel, HitsModel, Role

SEARCH_MS = 80  # after the last key, so that fast typing searches once


class ConversationList(QListView):
    """Rows of one height. Enter or a click opens, F2 renames, Delete deletes. requested(str): "open", "rename" or
    "delete" the current row."""

    requested = Signal(str)

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        style(self, ground="clear")
        self.setUniformItemSizes(True)
        self.setFrameShape(QListView.Shape.NoFrame)
        self.setEditTriggers(QAbstractItemView.EditTrigger.NoEditTriggers)
        self.setVerticalScrollMode(QAbstractItemView.ScrollMode.ScrollPerPixel)
        self.setHorizontalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)
        self.setContextMenuPolicy(Qt.ContextMenuPolicy.CustomContextMenu)
        self.setMouseTracking(True)
        self.setAccessibleName("Conversations")
        self.clicked.connect(lambda _: self.requested.emit("open"))

    def keyPressEvent(self, event: QKeyEvent) -> None:
        keys = {
            Qt.Key.Key_Return: "open",
            Qt.Key.Key_Enter: "open",
            Qt.Key.Key_F2: "rename",
            Qt.Key.Key_Delete: "delete",
            Qt.Key.Key_Backspace: "delete",
        }
        request = keys.get(Qt.Key(event.key()))
        if request is None or self.state() == QAbstractItemView.State.EditingState:
            super().keyPressEvent(event)
        else:
            self.requested.emit(request)


class Sidebar(QWidget):
    """Emits what the user asks for, and holds no conversation itself. search: returns the hits for a text.

    opened(int, int | None): a conversation, and the message that was found. exported(int, str): "markdown" or "json".
    """

    opened = Signal(int, object)
    renamed = Signal(int, str)
    pinned = Signal(int, bool)
    deleted = Signal(int)
    exported = Signal(int, str)
    copied = Signal(int)
    imported = Signal()

    def __init__(self, search: Callable[[str], Sequence[SearchHit]], parent: QWidget | None = None) -> None:
        super().__init__(parent)
        style(self, ground="sidebar")
        self._search = search
        self._open_conversation: int | None = None
        self.field, self.new = QLineEdit(), IconButton("compose", "New Chat")
        self.list, self.empty_label = ConversationList(), wrapped(role="detail")
        self.conversations, self.hits = ConversationsModel(self), HitsModel(self)
        self._search_icon = QAction(self.field)
        self._timer = QTimer(self, singleShot=True, interval=SEARCH_MS)
        self._lay_out()
        self._connect()
        self._show_icon()

    def show_all(self, records: Sequence[ConversationRecord]) -> None:
        """Shows these conversations; the selection and the scroll position stay."""
        if self.list.state() == QAbstractItemView.State.EditingState:
            self.list.setFocus()  # ends the editing and keeps what was typed
        at = self.list.verticalScrollBar().value()
        self.conversations.show_all(records)
        self._select_open()
        self.list.verticalScrollBar().setValue(at)
        self._show_whether_empty()
        if self.searching:
            self._show_hits()

    def set_open(self, conversation: int | None) -> None:
        """Selects the conversation that is open."""
        self._open_conversation = conversation
        if not self.searching:
            self._select_open()
            self.list.scrollTo(self.list.currentIndex())

    def start_search(self) -> None:
        """Moves the focus to the search field."""
        self.field.setFocus(Qt.FocusReason.ShortcutFocusReason)
        self.field.selectAll()

    def rename(self, conversation: int) -> None:
        """Lets the user edit the title of a conversation in its row."""
        self.field.clear()
        self._end_search()
        index = self.conversations.index_of(conversation)
        if index.isValid():
            self.list.setCurrentIndex(index)
            self.list.setFocus()
            self.list.edit(index)

    @property
    def searching(self) -> bool:
        """Whether search results are shown, or soon will be."""
        return bool(self.field.text().strip())

    def eventFilter(self, watched: QObject, event: QEvent) -> bool:
        """In the search field, the arrows move through the results and Esc ends the search."""
        if event.type() == QEvent.Type.KeyPress and isinstance(event, QKeyEvent):
            key = event.key()
            if key in (Qt.Key.Key_Down, Qt.Key.Key_Up):
                self._move_selection(1 if key == Qt.Key.Key_Down else -1)
                return True
            if key == Qt.Key.Key_Escape and self.field.text():
                self.field.clear()
                return True
        return super().eventFilter(watched, event)

    def changeEvent(self, event: QEvent) -> None:
        super().changeEvent(event)
        if event.type() == QEvent.Type.StyleChange:
            self._show_icon()
            self.list.doItemsLayout()

    def _lay_out(self) -> None:
        style(self.field, role="search")
        self.field.setPlaceholderText("Search")
        self.field.setAccessibleName("Search conversations")
        self.field.setClearButtonEnabled(True)
        self.field.addAction(self._search_icon, QLineEdit.ActionPosition.LeadingPosition)
        self.field.installEventFilter(self)
        self.empty_label.setAlignment(Qt.AlignmentFlag.AlignTop | Qt.AlignmentFlag.AlignHCenter)
        self.empty_label.setContentsMargins(16, 8, 16, 8)
        self.list.setModel(self.conversations)
        self.list.setItemDelegate(ConversationDelegate(self.list))
        top = QHBoxLayout()
        top.setContentsMargins(12, 10, 8, 6)
        top.addWidget(self.field, 1)
        top.addWidget(self.new)
        column = QVBoxLayout(self)
        column.setContentsMargins(0, 0, 0, 0)
        column.setSpacing(0)
        column.addLayout(top)
        column.addWidget(self.list, 1)
        column.addWidget(self.empty_label, 1)
        self._show_whether_empty()

    def _connect(self) -> None:
        self.field.textChanged.connect(lambda _: self._timer.start() if self.searching else self._end_search())
        self.field.returnPressed.connect(self._open_hit)
        self._timer.timeout.connect(self._show_hits)
        self.list.requested.connect(self._carry_out)
        self.list.customContextMenuRequested.connect(self._open_menu)
        self.conversations.renamed.connect(self.renamed)

    def _show_icon(self) -> None:
        self._search_icon.setIcon(icon("search", theme.current().faint))

    def _show_hits(self) -> None:
        """Shows the search results and selects the first, so that Enter opens it."""
        if not self.searching:
            return
        self.hits.show_all(self._search(self.field.text().strip()))
        if self.list.model() is not self.hits:
            self.list.setModel(self.hits)
        self.list.setCurrentIndex(self.hits.index(0))
        self.list.setAccessibleName("Search results")
        self._show_whether_empty()

    def _end_search(self) -> None:
        self._timer.stop()
        if self.list.model() is self.hits:
            self.list.setModel(self.conversations)
            self.list.setAccessibleName("Conversations")
            self._select_open()
            self.list.scrollTo(self.list.currentIndex())
        self._show_whether_empty()

    def _show_whether_empty(self) -> None:
        empty = self.list.model().rowCount() == 0
        searched = self.list.model() is self.hits
        self.empty_label.setText(f"No results for “{self.field.text().strip()}”" if searched else "No Conversations")
        self.empty_label.setVisible(empty)
        self.list.setVisible(not empty)

    def _open_hit(self) -> None:
        if self._timer.isActive():
            self._timer.stop()
            self._show_hits()
        self._carry_out("open")

    def _move_selection(self, step: int) -> None:
        """Selects the next row in a direction, passing over headings."""
        model = self.list.model()
        row = self.list.currentIndex().row() + step
        while 0 <= row < model.rowCount() and not model.flags(model.index(row, 0)) & Qt.ItemFlag.ItemIsSelectable:
            row += step
        if 0 <= row < model.rowCount():
            self.list.setCurrentIndex(model.index(row, 0))

    def _select_open(self) -> None:
        opened = self._open_conversation
        self.list.setCurrentIndex(self.conversations.index_of(opened) if opened is not None else QModelIndex())

    def _carry_out(self, request: str) -> None:
        index = self.list.currentIndex()
        conversation, hit = index.data(Role.CONVERSATION), index.data(Role.HIT)
        if conversation is None:
            return
        if request == "open":
            self.opened.emit(conversation, hit.message if hit else None)
        elif request == "rename":
            self.rename(conversation)
        else:
            self.deleted.emit(conversation)

    def _open_menu(self, at: QPoint) -> None:
        self.menu_of(self.list.indexAt(at)).popup(self.list.viewport().mapToGlobal(at))

    def menu_of(self, index: QModelIndex) -> QMenu:
        """Returns the context menu of a row."""
        menu = QMenu(self)
        menu.setAttribute(Qt.WidgetAttribute.WA_DeleteOnClose)
        conversation = index.data(Role.CONVERSATION)
        if conversation is not None:
            pinned = bool(index.data(Role.PINNED))
            menu.addAction("Open", lambda: self.opened.emit(conversation, None))
            menu.addAction("Rename", lambda: self.rename(conversation))
            menu.addAction("Unpin" if pinned else "Pin", lambda: self.pinned.emit(conversation, not pinned))
            menu.addSeparator()
            menu.addAction("Copy as Markdown", lambda: self.copied.emit(conversation))
            menu.addAction("Export as Markdown…", lambda: self.exported.emit(conversation, "markdown"))
            menu.addAction("Export as JSON…", lambda: self.exported.emit(conversation, "json"))
            menu.addSeparator()
            menu.addAction("Delete", lambda: self.deleted.emit(conversation))
            menu.addSeparator()
        menu.addAction("Import…", self.imported.emit)
        return menu
