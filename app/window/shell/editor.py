"""The text of the composer: grows with what is typed, sends on Enter, hands files and long pastes on."""

from __future__ import annotations

from pathlib import Path

from PySide6.QtCore import QMimeData, QSize, Qt, Signal
from PySide6.QtGui import QFocusEvent, QInputMethodEvent, QKeyEvent, QWheelEvent
from PySide6.QtWidgets import QFrame, QPlainTextEdit, QSizePolicy, QWidget

from app.window.fonts import font
from app.window.look import Look
from app.window.shell.attachments import is_long

MOST_LINES = 8


class Editor(QPlainTextEdit):
    """Plain text, of one to MOST_LINES lines; beyond, it scrolls."""

    submitted = Signal()
    went_up = Signal()  # the Up key with nothing written
    files_given = Signal(list)  # of Path
    text_given = Signal(str)  # a paste too long to stand here
    picture_given = Signal()
    focused = Signal(bool)

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._composing = False
        self.setFrameShape(QFrame.Shape.NoFrame)
        self.setTabChangesFocus(True)
        self.setAccessibleName("Message")
        self.setAccessibleDescription("Enter sends, Shift-Enter starts a new line")
        self.setSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Fixed)
        self.setVerticalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)
        self.document().setDocumentMargin(2)
        self.document().documentLayout().documentSizeChanged.connect(lambda _: self._grow())

    def set_look(self, look: Look) -> None:
        self.setFont(font(look, 15))
        self.setStyleSheet(f"Editor {{ background: transparent; color: {look.text}; border: none; }}")
        self._grow()

    def sizeHint(self) -> QSize:
        return QSize(200, self._height())

    def minimumSizeHint(self) -> QSize:
        return QSize(80, self._height())

    def keyPressEvent(self, event: QKeyEvent) -> None:
        key, shift = event.key(), bool(event.modifiers() & Qt.KeyboardModifier.ShiftModifier)
        if key in (Qt.Key.Key_Return, Qt.Key.Key_Enter):
            if self._composing:
                return  # it chooses a word
            if shift:
                self.insertPlainText("\n")
                self.ensureCursorVisible()
            else:
                self.submitted.emit()
        elif key == Qt.Key.Key_Up and not shift and not self._composing and self.document().isEmpty():
            self.went_up.emit()
        else:
            super().keyPressEvent(event)

    def inputMethodEvent(self, event: QInputMethodEvent) -> None:
        self._composing = bool(event.preeditString())
        super().inputMethodEvent(event)

    def focusInEvent(self, event: QFocusEvent) -> None:
        super().focusInEvent(event)
        self.focused.emit(True)

    def focusOutEvent(self, event: QFocusEvent) -> None:
        super().focusOutEvent(event)
        self.focused.emit(False)

    def wheelEvent(self, event: QWheelEvent) -> None:
        if self._lines() > MOST_LINES:
            super().wheelEvent(event)
        else:
            event.ignore()

    def canInsertFromMimeData(self, source: QMimeData) -> bool:
        return source.hasUrls() or source.hasText() or source.hasImage()

    def insertFromMimeData(self, source: QMimeData) -> None:
        """Of a paste or a drop."""
        files = paths_of(source)
        if files:
            self.files_given.emit(files)
        elif source.hasText():
            text = source.text().replace("\r\n", "\n")
            if is_long(text):
                self.text_given.emit(text)
            else:
                self.insertPlainText(text)
                self.ensureCursorVisible()
        elif source.hasImage():
            self.picture_given.emit()

    def _lines(self) -> int:
        return max(1, int(self.document().size().height()))  # a plain text document counts in lines

    def _height(self) -> int:
        lines = min(MOST_LINES, self._lines())
        return lines * self.fontMetrics().lineSpacing() + 2 * int(self.document().documentMargin()) + 2

    def _grow(self) -> None:
        scrolls = self._lines() > MOST_LINES
        policy = Qt.ScrollBarPolicy.ScrollBarAsNeeded if scrolls else Qt.ScrollBarPolicy.ScrollBarAlwaysOff
        self.setVerticalScrollBarPolicy(policy)
        if self._height() != self.height():
            self.setFixedHeight(self._height())


def paths_of(source: QMimeData) -> list[Path]:
    """The files that a paste or a drop names."""
    return [Path(url.toLocalFile()) for url in source.urls() if url.isLocalFile()] if source.hasUrls() else []
