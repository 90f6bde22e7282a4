"""The editor of a message, which stands in the place of its text."""

from PySide6.QtCore import QEvent, QObject, Qt, Signal
from PySide6.QtGui import QKeyEvent, QTextCursor
from PySide6.QtWidgets import QHBoxLayout, QPlainTextEdit, QPushButton, QVBoxLayout, QWidget

from app.store.records import MessageRecord
from app.window.common import theme
from app.window.common.appearance import GAP
from app.window.common.widgets import style
from app.window.transcript.text_page import BODY, SIDE

_TALLEST = 320  # px, then it scrolls


class MessageEditor(QWidget):
    """Edits a message in its own place. Of a question, Enter sends and Shift-Enter begins a new line, as in the
    composer; a reply has many lines, and Ctrl-Enter (on a Mac Cmd-Enter) saves it. Esc leaves the editor.

    record: the message. edit: its new text so far, or ""; Undo goes back to the message's own. saved: the new text.
    changed: the text so far, "" if it is the message's own. left: the text is to be kept. discarded: it is not.
    resized: it needs another height.
    """

    saved = Signal(str)
    changed = Signal(str)
    left = Signal()
    discarded = Signal()
    resized = Signal()

    def __init__(self, record: MessageRecord, edit: str, parent: QWidget) -> None:
        super().__init__(parent)
        self._text, self._is_question = record.text, record.role == "user"
        self.field = QPlainTextEdit(self._text, self)
        if edit:
            cursor = QTextCursor(self.field.document())
            cursor.select(QTextCursor.SelectionType.Document)
            cursor.insertText(edit)
        self.field.setAccessibleName("Edit message")
        self.field.setTabChangesFocus(True)
        self.field.moveCursor(QTextCursor.MoveOperation.End)
        self.field.setStyleSheet(
            f"QPlainTextEdit {{ background: palette(base); color: palette(text); border: 1px solid palette(mid);"
            f" border-radius: 10px; padding: 6px; font-size: {theme.current().px(BODY)}px; }}"
            f"QPlainTextEdit:focus {{ border-color: palette(highlight); }}"
        )
        self.field.installEventFilter(self)
        saves = "Save and Send" if self._is_question else "Save as New Version"
        self.save, self.cancel = QPushButton(saves, self), QPushButton("Cancel", self)
        style(self.save, role="primary")
        style(self.cancel, role="secondary")
        column, row = QVBoxLayout(self), QHBoxLayout()
        column.setContentsMargins(0, 0, 0, 0)
        column.addWidget(self.field)
        row.addStretch()
        row.addWidget(self.cancel)
        row.addWidget(self.save)
        column.addLayout(row)
        self.field.textChanged.connect(self._text_changed)
        self.save.clicked.connect(self._save)
        self.cancel.clicked.connect(self.discarded)
        self._show_buttons()

    def eventFilter(self, watched: QObject, event: QEvent) -> bool:
        if not isinstance(event, QKeyEvent) or event.type() != QEvent.Type.KeyPress:
            return super().eventFilter(watched, event)
        enter = event.key() in (Qt.Key.Key_Return, Qt.Key.Key_Enter)
        if event.key() == Qt.Key.Key_Escape:
            self.left.emit()
        elif enter and self._saves_with(event.modifiers()):
            if not self.field.textCursor().block().layout().preeditAreaText():  # else it accepts what is composed
                self._save()
        else:
            return super().eventFilter(watched, event)
        return True

    def _saves_with(self, modifiers: Qt.KeyboardModifier) -> bool:
        if self._is_question:
            return not modifiers & Qt.KeyboardModifier.ShiftModifier
        return bool(modifiers & Qt.KeyboardModifier.ControlModifier)

    def place(self, y: int, width: int) -> int:
        """Takes its place at `y`, as tall as the text needs up to a bound. Returns the height with the gap below."""
        height = self._lay_out(width)
        self.setGeometry(SIDE, y, width, height)
        return height + GAP

    def _lay_out(self, width: int) -> int:
        metrics = self.field.fontMetrics()
        letters = max(1, (width - 4 * GAP) // max(1, metrics.averageCharWidth()))
        lines = sum(1 + len(line) // letters for line in self.field.toPlainText().split("\n"))
        tall = min(max(2, lines) * metrics.lineSpacing() + 4 * GAP, _TALLEST)
        self.field.setFixedHeight(tall)
        return tall + self.save.sizeHint().height() + 2 * GAP

    def focus_widgets(self) -> list[QWidget]:
        """Returns what the keyboard reaches, in order."""
        return [self.field, self.cancel, self.save]

    def _text_changed(self) -> None:
        text = self.field.toPlainText()
        self._show_buttons()
        self.changed.emit(text if text != self._text else "")
        self.resized.emit()

    def _show_buttons(self) -> None:
        text = self.field.toPlainText()
        self.save.setEnabled(bool(text.strip()) and (self._is_question or text != self._text))
        self.cancel.setText("Cancel" if text == self._text else "Discard Changes")

    def _save(self) -> None:
        if self.save.isEnabled():
            self.saved.emit(self.field.toPlainText())
