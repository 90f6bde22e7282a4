"""The sidebar: search, a new chat, and the conversations; rename, pin, delete and export from the menu of a row."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from PySide6.QtCore import QEvent, QModelIndex, QObject, QPoint, Qt, QTimer, Signal
from PySide6.QtGui import QAction, QKeyEvent
from PySide6.QtWidgets import QAbstractItemView, QHBoxLayout, QLineEdit, QMenu, QVBoxLayout, QWidget

from app.records import ConversationRecord, Hit
from app.window.icons import icon
from app.window.look import Look
from app.window.shell.conversations import ConversationsModel, HitsModel, Role
from app.window.shell.listing import ConversationList
from app.window.shell.rows import RowDelegate
from app.window.shell.widgets import IconButton, wrapped

SEARCH_MS = 80  # after the last key, so that fast typing searches once


class Sidebar(QWidget):
    """Says what the user asks for; holds no conversation itself. search: what answers the search field."""

    opened = Signal(int, object)  # conversation, message or None
    renamed = Signal(int, str)
    pinned = Signal(int, bool)
    deleted = Signal(int)
    exported = Signal(int, str)  # conversation, "markdown" or "json"
    copied = Signal(int)
    imported = Signal()

    def __init__(self, search: Callable[[str], Sequence[Hit]], parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.setObjectName("sidebar")
        self.setAttribute(Qt.WidgetAttribute.WA_StyledBackground)
        self._search = search
        self._shown: int | None = None
        self.field, self.new = QLineEdit(), IconButton("compose", "New chat")
        self.list, self.nothing = ConversationList(), wrapped("")
        self.conversations, self.hits = ConversationsModel(self), HitsModel(self)
        self._delegate = RowDelegate(self.list)
        self._timer = QTimer(self, singleShot=True, interval=SEARCH_MS)
        self._set_up()
        self._wire()

    def show_all(self, records: Sequence[ConversationRecord]) -> None:
        """Show these conversations, the open one still marked, the list where it was scrolled to."""
        if self.list.state() == QAbstractItemView.State.EditingState:
            self.list.setFocus()  # ends it, and what was typed counts
        at = self.list.verticalScrollBar().value()
        self.conversations.show_all(records)
        self._mark()
        self.list.verticalScrollBar().setValue(at)
        self._say_nothing()
        if self.searching:
            self._find()

    def set_open(self, conversation: int | None) -> None:
        """Mark the conversation that is open."""
        self._shown = conversation
        if not self.searching:
            self._mark()
            self.list.scrollTo(self.list.currentIndex())

    def start_search(self) -> None:
        """Put the cursor into the search field."""
        self.field.setFocus(Qt.FocusReason.ShortcutFocusReason)
        self.field.selectAll()

    def rename(self, conversation: int) -> None:
        """Let the title be edited where it stands."""
        self.field.clear()
        self._leave_search()
        index = self.conversations.place(conversation)
        if index.isValid():
            self.list.setCurrentIndex(index)
            self.list.setFocus()
            self.list.edit(index)

    @property
    def searching(self) -> bool:
        """Whether hits are shown, or soon will be."""
        return bool(self.field.text().strip())

    def eventFilter(self, watched: QObject, event: QEvent) -> bool:
        """Of the search field: arrows go into the list, Enter opens, Esc ends the search."""
        if event.type() == QEvent.Type.KeyPress and isinstance(event, QKeyEvent):
            key = event.key()
            if key in (Qt.Key.Key_Down, Qt.Key.Key_Up):
                self._walk(1 if key == Qt.Key.Key_Down else -1)
                return True
            if key == Qt.Key.Key_Escape and self.field.text():
                self.field.clear()
                return True
        return super().eventFilter(watched, event)

    def set_look(self, look: Look) -> None:
        self._delegate.look = look
        self.new.set_look(look)
        self._glass.setIcon(icon("search", look.faint))
        self.setStyleSheet(
            f"#sidebar {{ background: {look.sidebar}; }} QListView {{ background: transparent; border: none; }}"
            f"QLineEdit#search {{ background: {look.background}; color: {look.text}; padding: 4px 6px;"
            f" border: 1px solid {look.hairline}; border-radius: 8px; font-size: {look.px(13)}px; }}"
            f"QLineEdit#search:focus {{ border: 2px solid {look.accent}; padding: 3px 5px; }}"
            f"QLabel {{ color: {look.faint}; font-size: {look.px(12)}px; padding: 8px 16px; }}"
        )
        self.list.doItemsLayout()

    def _set_up(self) -> None:
        self.field.setObjectName("search")
        self.field.setPlaceholderText("Search")
        self.field.setAccessibleName("Search conversations")
        self.field.setClearButtonEnabled(True)
        self._glass = QAction(self.field)
        self.field.addAction(self._glass, QLineEdit.ActionPosition.LeadingPosition)
        self.field.installEventFilter(self)
        self.nothing.setAlignment(Qt.AlignmentFlag.AlignTop | Qt.AlignmentFlag.AlignHCenter)
        self.list.setModel(self.conversations)
        self.list.setItemDelegate(self._delegate)
        top = QHBoxLayout()
        top.setContentsMargins(12, 10, 8, 6)
        top.addWidget(self.field, 1)
        top.addWidget(self.new)
        column = QVBoxLayout(self)
        column.setContentsMargins(0, 0, 0, 0)
        column.setSpacing(0)
        column.addLayout(top)
        column.addWidget(self.list, 1)
        column.addWidget(self.nothing, 1)
        self._say_nothing()

    def _wire(self) -> None:
        self.field.textChanged.connect(lambda _: self._timer.start() if self.searching else self._leave_search())
        self.field.returnPressed.connect(self._open_hit)
        self._timer.timeout.connect(self._find)
        self.list.asked.connect(self._do)
        self.list.customContextMenuRequested.connect(self._open_menu)
        self.conversations.renamed.connect(self.renamed)

    def _find(self) -> None:
        """Show what the search finds; the first hit is current, so that Enter opens it."""
        if not self.searching:
            return
        self.hits.show_all(self._search(self.field.text().strip()))
        if self.list.model() is not self.hits:
            self.list.setModel(self.hits)
        self.list.setCurrentIndex(self.hits.index(0))
        self.list.setAccessibleName("Search results")
        self._say_nothing()

    def _leave_search(self) -> None:
        self._timer.stop()
        if self.list.model() is self.hits:
            self.list.setModel(self.conversations)
            self.list.setAccessibleName("Conversations")
            self._mark()
            self.list.scrollTo(self.list.currentIndex())
        self._say_nothing()

    def _say_nothing(self) -> None:
        """Say so where the list is empty."""
        empty = self.list.model().rowCount() == 0
        found = self.list.model() is self.hits
        self.nothing.setText(f"Nothing found for “{self.field.text().strip()}”." if found else "No conversations yet.")
        self.nothing.setVisible(empty)
        self.list.setVisible(not empty)

    def _open_hit(self) -> None:
        if self._timer.isActive():
            self._timer.stop()
            self._find()
        self._do("open")

    def _walk(self, step: int) -> None:
        rows, at = self.list.model().rowCount(), self.list.currentIndex().row() + step
        while 0 <= at < rows and not self.list.model().flags(self.list.model().index(at, 0)) & _SELECTABLE:
            at += step
        if 0 <= at < rows:
            self.list.setCurrentIndex(self.list.model().index(at, 0))

    def _mark(self) -> None:
        index = self.conversations.place(self._shown) if self._shown is not None else QModelIndex()
        self.list.setCurrentIndex(index)

    def _do(self, asked: str) -> None:
        index = self.list.currentIndex()
        conversation, hit = index.data(Role.CONVERSATION), index.data(Role.HIT)
        if conversation is None:
            return
        if asked == "open":
            self.opened.emit(conversation, hit.message if hit else None)
        elif asked == "rename":
            self.rename(conversation)
        else:
            self.deleted.emit(conversation)

    def _open_menu(self, at: QPoint) -> None:
        self.menu_of(self.list.indexAt(at)).popup(self.list.viewport().mapToGlobal(at))

    def menu_of(self, index: QModelIndex) -> QMenu:
        """What can be done with a row."""
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


_SELECTABLE = Qt.ItemFlag.ItemIsSelectable
