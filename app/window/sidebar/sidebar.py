"""The sidebar: search, a new chat, and the conversations, with rename, pin, delete and export in their menu."""

from collections.abc import Callable, Sequence
from functools import partial

from PySide6.QtCore import QEvent, QModelIndex, QObject, QPoint, Qt, Signal
from PySide6.QtGui import QKeyEvent
from PySide6.QtWidgets import QAbstractItemView, QLineEdit, QMenu, QWidget

from app.store.records import UNTITLED, ConversationRecord, SearchHit
from app.window.common.layouts import column, row
from app.window.common.section_list import ITEM, SectionList
from app.window.common.timer import Timer
from app.window.common.widgets import IconButton, search_field, style, wrapped
from app.window.sidebar.conversation_list import (
    IN_FOLDER,
    ConversationDelegate,
    ConversationModel,
    HitModel,
    folder_and_name,
)

NEW_FOLDER = "New Folder"
SEARCH_MS = 80  # after the last key, so that fast typing searches once
KEYS = {
    Qt.Key.Key_Return: "open",
    Qt.Key.Key_Enter: "open",
    Qt.Key.Key_Left: "collapse",
    Qt.Key.Key_Right: "expand",
    Qt.Key.Key_F2: "rename",
    Qt.Key.Key_Delete: "delete",
    Qt.Key.Key_Backspace: "delete",
}


class Sidebar(QWidget):
    """Emits what the user asks for; it changes no conversation itself. search: returns the hits for a text.

    opened(int, int | None): a conversation, and the message that was found. exported(int, str): "markdown" or "json".
    folded(): a folder was collapsed or expanded.
    """

    opened = Signal(int, object)
    renamed = Signal(int, str)
    pinned = Signal(int, bool)
    deleted = Signal(int)
    exported = Signal(int, str)
    copied = Signal(int)
    imported = Signal()
    folded = Signal()

    def __init__(self, search: Callable[[str], Sequence[SearchHit]], parent: QWidget | None = None) -> None:
        super().__init__(parent)
        style(self, ground="sidebar")
        self._search = search
        self._open_conversation: int | None = None
        self.field, self.new = search_field("Search conversations"), IconButton("compose", "New Chat")
        self.list, self.empty_label = SectionList("Conversations", KEYS), wrapped(role="detail")
        self.conversations, self.hits = ConversationModel(self), HitModel(self)
        self._timer = Timer(self, singleShot=True, interval=SEARCH_MS)
        self._lay_out()
        self._connect()

    def show_all(self, records: Sequence[ConversationRecord]) -> None:
        """Shows these conversations; the selection and the scroll position stay."""
        self._change_list(lambda: self.conversations.show_all(records))

    def show_update(self, record: ConversationRecord) -> None:
        """Shows a conversation that is new or has changed among the others, which have not."""
        self._change_list(lambda: self.conversations.show_update(record))

    def _change_list(self, change: Callable[[], None]) -> None:
        """Changes the list. Selection and scroll position stay; a title that is being edited keeps what was typed."""
        if self.list.state() == QAbstractItemView.State.EditingState:
            self.list.setFocus()
        at = self.list.verticalScrollBar().value()
        change()
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

    def show_writing(self, conversations: set[int]) -> None:
        """Marks the conversations in which a reply is being written."""
        self.conversations.show_writing(conversations)

    def start_search(self) -> None:
        """Moves the focus to the search field."""
        self.field.setFocus(Qt.FocusReason.ShortcutFocusReason)
        self.field.selectAll()

    def rename(self, conversation: int) -> None:
        """Lets the user edit the title of a conversation in its row, its folder included."""
        self.field.clear()
        self._end_search()
        index = self.conversations.index_of(conversation)
        if index.isValid():
            self.list.setCurrentIndex(index)
            self.list.setFocus()
            self.list.edit(index)

    def _folder_menu(self, parent: QMenu, record: ConversationRecord) -> QMenu:
        """Returns the menu that moves a conversation into a folder or out of it."""
        menu = QMenu("Move to Folder", parent)
        inside, name = folder_and_name(record.title or UNTITLED)
        for folder in self.conversations.folders:
            if folder != inside:
                menu.addAction(folder, partial(self.renamed.emit, record.id, f"{folder}{IN_FOLDER}{name}"))
        if inside:
            menu.addAction("No Folder", partial(self.renamed.emit, record.id, name))
        menu.addSeparator()
        menu.addAction("New Folder…", partial(self._make_folder, record.id, name))
        return menu

    def _make_folder(self, conversation: int, name: str) -> None:
        """Moves a conversation into a folder that the user names in the row."""
        self.renamed.emit(conversation, f"{NEW_FOLDER}{IN_FOLDER}{name}")
        self.rename(conversation)
        if (editor := self.list.findChild(QLineEdit)) is not None:
            editor.setSelection(0, len(NEW_FOLDER))

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
            self.list.doItemsLayout()

    def _lay_out(self) -> None:
        self.field.installEventFilter(self)
        self.empty_label.setAlignment(Qt.AlignmentFlag.AlignTop | Qt.AlignmentFlag.AlignHCenter)
        self.empty_label.setContentsMargins(16, 8, 16, 8)
        self.list.setUniformItemSizes(True)
        self.list.setContextMenuPolicy(Qt.ContextMenuPolicy.CustomContextMenu)
        self.list.setModel(self.conversations)
        self.list.setItemDelegate(ConversationDelegate(self.list, self.conversations))
        column(
            row((self.field, 1), self.new, margins=(12, 10, 8, 6)),
            (self.list, 1),
            (self.empty_label, 1),
            on=self,
        )
        self._show_whether_empty()

    def _connect(self) -> None:
        self.field.textChanged.connect(lambda _: self._timer.start() if self.searching else self._end_search())
        self.field.returnPressed.connect(self._open_hit)
        self._timer.timeout.connect(self._show_hits)
        self.list.requested.connect(self._carry_out)
        self.list.clicked.connect(lambda _: self._carry_out("open"))
        self.list.customContextMenuRequested.connect(self._open_menu)
        self.conversations.renamed.connect(self.renamed)

    def _show_hits(self) -> None:
        """Shows the search results and selects the first, so that Enter opens it."""
        if not self.searching:
            return
        self.hits.show_sections([("", self._search(self.field.text().strip()))])
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
        self.empty_label.setText(f"No Results for “{self.field.text().strip()}”" if searched else "No Conversations")
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
        """Selects the open conversation, unless the list shows search results: Qt crashes on another model's index."""
        if self.list.model() is not self.conversations:
            return
        opened = self._open_conversation
        self.list.setCurrentIndex(self.conversations.index_of(opened) if opened is not None else QModelIndex())

    def _carry_out(self, request: str) -> None:
        index = self.list.currentIndex()
        item = index.data(ITEM)
        if item is None or request in ("collapse", "expand"):
            self._fold(index.data(), request)
            return
        conversation, message = (item.conversation, item.message) if isinstance(item, SearchHit) else (item.id, None)
        if request == "open":
            self.opened.emit(conversation, message)
        elif request == "rename":
            self.rename(conversation)
        else:
            self.deleted.emit(conversation)

    def _fold(self, folder: object, request: str) -> None:
        """Collapses or expands a folder, whose heading stays selected; opening it changes which of the two it is."""
        model = self.conversations
        wanted = {"collapse": True, "expand": False}.get(request, folder not in model.collapsed)
        if self.list.model() is model and model.is_folder(folder) and (folder in model.collapsed) != wanted:
            model.toggle(str(folder))
            self.list.setCurrentIndex(model.index_of(folder))
            self.folded.emit()

    def _open_menu(self, at: QPoint) -> None:
        self.menu_of(self.list.indexAt(at)).popup(self.list.viewport().mapToGlobal(at))

    def menu_of(self, index: QModelIndex) -> QMenu:
        """Returns the context menu of a row."""
        menu = QMenu(self)
        menu.setAttribute(Qt.WidgetAttribute.WA_DeleteOnClose)
        item = index.data(ITEM)
        if item is not None:
            conversation = item.conversation if isinstance(item, SearchHit) else item.id
            pinned = isinstance(item, ConversationRecord) and item.pinned
            menu.addAction("Open", lambda: self.opened.emit(conversation, None))
            menu.addAction("Rename", lambda: self.rename(conversation))
            if isinstance(item, ConversationRecord):
                menu.addMenu(self._folder_menu(menu, item))
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
