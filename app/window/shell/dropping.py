"""Files dropped anywhere on the window: while they hover over it, it says what letting go of them does."""

from __future__ import annotations

from PySide6.QtCore import QEvent, QObject, Qt, Signal
from PySide6.QtGui import QDragEnterEvent, QDropEvent, QFont
from PySide6.QtWidgets import QLabel, QWidget

from app.window.fonts import font
from app.window.look import GAP, Look
from app.window.shell.editor import paths_of


class Dropping(QObject):
    """dropped(list[Path]): what was let go of over the window."""

    dropped = Signal(list)

    def __init__(self, window: QWidget) -> None:
        super().__init__(window)
        self._window = window
        self.overlay = QLabel("Drop text files to attach them", window)
        self.overlay.setAlignment(Qt.AlignmentFlag.AlignCenter)
        self.overlay.hide()
        window.setAcceptDrops(True)
        window.installEventFilter(self)

    def eventFilter(self, watched: QObject, event: QEvent) -> bool:
        if isinstance(event, QDragEnterEvent) and paths_of(event.mimeData()):
            event.acceptProposedAction()
            self.overlay.setGeometry(self._window.rect().adjusted(GAP, GAP, -GAP, -GAP))
            self.overlay.raise_()
            self.overlay.show()
            return True
        if event.type() == QEvent.Type.DragLeave:
            self.overlay.hide()
        elif event.type() == QEvent.Type.Drop and isinstance(event, QDropEvent):
            self.overlay.hide()
            event.acceptProposedAction()
            self.dropped.emit(paths_of(event.mimeData()))
            return True
        return False

    def set_look(self, look: Look) -> None:
        self.overlay.setFont(font(look, 18, QFont.Weight.DemiBold))
        self.overlay.setStyleSheet(
            f"background: {look.raised}; color: {look.text}; border: 2px dashed {look.accent}; border-radius: 14px;"
        )
