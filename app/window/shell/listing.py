"""The list of the sidebar: what its keys ask for."""

from __future__ import annotations

from PySide6.QtCore import Qt, Signal
from PySide6.QtGui import QKeyEvent
from PySide6.QtWidgets import QAbstractItemView, QListView, QWidget


class ConversationList(QListView):
    """Rows of one height. Enter or a click opens, F2 renames, Delete deletes."""

    asked = Signal(str)  # "open", "rename" or "delete" what is current

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.setUniformItemSizes(True)
        self.setFrameShape(QListView.Shape.NoFrame)
        self.setEditTriggers(QAbstractItemView.EditTrigger.NoEditTriggers)
        self.setVerticalScrollMode(QAbstractItemView.ScrollMode.ScrollPerPixel)
        self.setHorizontalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)
        self.setContextMenuPolicy(Qt.ContextMenuPolicy.CustomContextMenu)
        self.setMouseTracking(True)
        self.setAccessibleName("Conversations")
        self.clicked.connect(lambda _: self.asked.emit("open"))

    def keyPressEvent(self, event: QKeyEvent) -> None:
        keys = {
            Qt.Key.Key_Return: "open",
            Qt.Key.Key_Enter: "open",
            Qt.Key.Key_F2: "rename",
            Qt.Key.Key_Delete: "delete",
            Qt.Key.Key_Backspace: "delete",
        }
        asked = keys.get(Qt.Key(event.key()))
        if asked is None or self.state() == QAbstractItemView.State.EditingState:
            super().keyPressEvent(event)
        else:
            self.asked.emit(asked)
