"""Where a question is edited, in its own place."""

from __future__ import annotations

from PySide6.QtCore import Qt, Signal
from PySide6.QtGui import QKeyEvent
from PySide6.QtWidgets import QHBoxLayout, QPlainTextEdit, QPushButton, QVBoxLayout, QWidget

from app.window.fonts import font
from app.window.look import GAP, Look
from app.window.transcript.buttons import bordered, filled
from app.window.transcript.manner import BODY

_TALLEST = 320  # px, then it scrolls


class Field(QPlainTextEdit):
    """Enter saves, Shift-Enter begins a new line, Esc leaves: as in the composer."""

    saved = Signal()
    left = Signal()

    def keyPressEvent(self, event: QKeyEvent) -> None:
        if event.key() == Qt.Key.Key_Escape:
            self.left.emit()
        elif event.key() in (Qt.Key.Key_Return, Qt.Key.Key_Enter) and not (
            event.modifiers() & Qt.KeyboardModifier.ShiftModifier
        ):
            self.saved.emit()
        else:
            super().keyPressEvent(event)


class Editor(QWidget):
    """saved: the new text. left: without saving. resized: it needs another height."""

    saved = Signal(str)
    left = Signal()
    resized = Signal()

    def __init__(self, text: str, look: Look, parent: QWidget) -> None:
        super().__init__(parent)
        self.field = Field(text, self)
        self.field.setAccessibleName("Edit the question")
        self.field.setTabChangesFocus(True)
        self.field.moveCursor(self.field.textCursor().MoveOperation.End)
        self.save, self.cancel = QPushButton("Save && send", self), QPushButton("Cancel", self)
        self.save.setAccessibleName("Save and send")
        column, row = QVBoxLayout(self), QHBoxLayout()
        column.setContentsMargins(0, 0, 0, 0)
        column.addWidget(self.field)
        row.addStretch()
        row.addWidget(self.cancel)
        row.addWidget(self.save)
        column.addLayout(row)
        self.field.textChanged.connect(self._check)
        self.field.saved.connect(self._save)
        self.field.left.connect(self.left)
        self.save.clicked.connect(self._save)
        self.cancel.clicked.connect(self.left)
        self.set_look(look)

    def lay_out(self, width: int) -> int:
        """The height that the text needs, up to a bound."""
        metrics = self.field.fontMetrics()
        letters = max(1, (width - 4 * GAP) // max(1, metrics.averageCharWidth()))
        lines = sum(1 + len(line) // letters for line in self.field.toPlainText().split("\n"))
        tall = min(max(2, lines) * metrics.lineSpacing() + 4 * GAP, _TALLEST)
        self.field.setFixedHeight(tall)
        return tall + self.save.sizeHint().height() + 2 * GAP

    def stops(self) -> list[QWidget]:
        """What the keyboard reaches, in order."""
        return [self.field, self.cancel, self.save]

    def set_look(self, look: Look) -> None:
        self.field.setFont(font(look, BODY))
        self.field.setStyleSheet(
            f"QPlainTextEdit {{ background: {look.background}; color: {look.text}; border: 1px solid {look.hairline};"
            f" border-radius: 10px; padding: 6px; }} QPlainTextEdit:focus {{ border-color: {look.accent}; }}"
        )
        self.save.setStyleSheet(filled(look))
        self.cancel.setStyleSheet(bordered(look))

    def _check(self) -> None:
        self.save.setEnabled(bool(self.field.toPlainText().strip()))
        self.resized.emit()

    def _save(self) -> None:
        if self.field.toPlainText().strip():
            self.saved.emit(self.field.toPlainText())
