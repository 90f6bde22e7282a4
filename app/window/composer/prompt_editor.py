"""The text field of the composer: grows with its text, sends on Enter, and passes files and long pastes on."""

from pathlib import Path

from PySide6.QtCore import QEvent, QMimeData, QSize, Qt, Signal
from PySide6.QtGui import QFocusEvent, QInputMethodEvent, QKeyEvent, QWheelEvent
from PySide6.QtWidgets import QFrame, QPlainTextEdit, QSizePolicy, QWidget

from app.window.common.widgets import style
from app.window.composer.attachments import is_long

MAX_LINES = 8


class PromptEditor(QPlainTextEdit):
    """A text field that is as high as its text, up to MAX_LINES lines; a longer text scrolls.

    submitted(): Enter. up_pressed(): the Up key in an empty field. files_pasted(list[Path]), image_pasted().
    long_text_pasted(str): a paste that is to become an attachment. focused(bool): the focus came or went.
    """

    submitted = Signal()
    up_pressed = Signal()
    files_pasted = Signal(list)
    long_text_pasted = Signal(str)
    image_pasted = Signal()
    focused = Signal(bool)

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._in_composition = False
        style(self, role="prompt")
        self.setFrameShape(QFrame.Shape.NoFrame)
        self.setTabChangesFocus(True)
        self.setAccessibleName("Message")
        self.setAccessibleDescription("Press Enter to send, Shift-Enter to start a new line")
        self.setSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Fixed)
        self.setVerticalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)
        self.document().setDocumentMargin(2)
        self.document().documentLayout().documentSizeChanged.connect(lambda _: self._adjust_height())

    def changeEvent(self, event: QEvent) -> None:
        super().changeEvent(event)
        if event.type() in (QEvent.Type.StyleChange, QEvent.Type.FontChange):
            self._adjust_height()

    def sizeHint(self) -> QSize:
        return QSize(200, self._height())

    def minimumSizeHint(self) -> QSize:
        return QSize(80, self._height())

    def keyPressEvent(self, event: QKeyEvent) -> None:
        key, shift = event.key(), bool(event.modifiers() & Qt.KeyboardModifier.ShiftModifier)
        if key in (Qt.Key.Key_Return, Qt.Key.Key_Enter):
            if self._in_composition:
                return  # Enter accepts a word of the input method
            if shift:
                self.insertPlainText("\n")
                self.ensureCursorVisible()
            else:
                self.submitted.emit()
        elif key == Qt.Key.Key_Up and not shift and not self._in_composition and self.document().isEmpty():
            self.up_pressed.emit()
        else:
            super().keyPressEvent(event)

    @property
    def in_composition(self) -> bool:
        """Whether an input method composes a word here."""
        return self._in_composition

    def inputMethodEvent(self, event: QInputMethodEvent) -> None:
        self._in_composition = bool(event.preeditString())
        super().inputMethodEvent(event)

    def focusInEvent(self, event: QFocusEvent) -> None:
        super().focusInEvent(event)
        self.focused.emit(True)

    def focusOutEvent(self, event: QFocusEvent) -> None:
        super().focusOutEvent(event)
        self.focused.emit(False)

    def wheelEvent(self, event: QWheelEvent) -> None:
        if self._lines() > MAX_LINES:
            super().wheelEvent(event)
        else:
            event.ignore()

    def canInsertFromMimeData(self, source: QMimeData) -> bool:
        return source.hasUrls() or source.hasText() or source.hasImage()

    def insertFromMimeData(self, source: QMimeData) -> None:
        """Handles a paste or a drop."""
        files = paths_of(source)
        if files:
            self.files_pasted.emit(files)
        elif source.hasText():
            text = source.text().replace("\r\n", "\n")
            if is_long(text):
                self.long_text_pasted.emit(text)
            else:
                self.insertPlainText(text)
                self.ensureCursorVisible()
        elif source.hasImage():
            self.image_pasted.emit()

    def _lines(self) -> int:
        return max(1, int(self.document().size().height()))  # a plain text document measures its height in lines

    def _height(self) -> int:
        lines = min(MAX_LINES, self._lines())
        return lines * self.fontMetrics().lineSpacing() + 2 * int(self.document().documentMargin()) + 2

    def _adjust_height(self) -> None:
        scrolls = self._lines() > MAX_LINES
        policy = Qt.ScrollBarPolicy.ScrollBarAsNeeded if scrolls else Qt.ScrollBarPolicy.ScrollBarAlwaysOff
        self.setVerticalScrollBarPolicy(policy)
        if self._height() != self.height():
            self.setFixedHeight(self._height())


def paths_of(source: QMimeData) -> list[Path]:
    """Returns the files of a paste or a drop."""
    return [Path(url.toLocalFile()) for url in source.urls() if url.isLocalFile()] if source.hasUrls() else []
