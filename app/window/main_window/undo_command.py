"""Edit > Undo, which undoes what was done last: typing in the field with the focus, or deleting a conversation."""

from PySide6.QtCore import QEvent, QObject
from PySide6.QtGui import QAction, QKeyEvent, QKeySequence
from PySide6.QtWidgets import QApplication, QLineEdit, QPlainTextEdit, QTextEdit, QWidget
from shiboken6 import isValid

from app.window.chat.conversation_deletion import ConversationDeletion

UNDO, UNDO_DELETION = "Undo", "Undo Delete"
TextField = QLineEdit | QPlainTextEdit | QTextEdit


class UndoCommand(QObject):
    """Sets the text of the menu's action and carries it out. A deletion is undone next until something is typed, and
    again once the field has nothing more to undo."""

    def __init__(self, action: QAction, deletion: ConversationDeletion, window: QWidget) -> None:
        super().__init__(window)
        self._action, self._deletion = action, deletion
        self._deletion_is_newest = False
        self._field: TextField | None = None  # with the focus
        action.triggered.connect(self.undo)
        deletion.changed.connect(self._handle_deletion)
        application = QApplication.instance()
        if isinstance(application, QApplication):
            application.focusChanged.connect(self._follow_focus)

    def undo(self) -> None:
        """Undoes what was done last."""
        if self._undoes_deletion:
            self._deletion.undo()
        elif self._field is not None:
            self._field.undo()

    def eventFilter(self, watched: QObject, event: QEvent) -> bool:
        """Leaves the keys of Undo to the menu where the field, which always claims them, would undo nothing."""
        if not isinstance(event, QKeyEvent) or event.type() != QEvent.Type.ShortcutOverride:
            return super().eventFilter(watched, event)
        if event.matches(QKeySequence.StandardKey.Undo) and self._undoes_deletion:
            event.ignore()
            return True
        return super().eventFilter(watched, event)

    @property
    def _undoes_deletion(self) -> bool:
        return self._deletion.can_undo and (self._deletion_is_newest or not _has_typing(self._field))

    def _handle_deletion(self) -> None:
        self._deletion_is_newest = self._deletion.can_undo
        self._show_text()

    def _handle_typing(self) -> None:
        self._deletion_is_newest = False
        self._show_text()

    def _follow_focus(self, _: QWidget | None, focused: QWidget | None) -> None:
        if self._field is not None and isValid(self._field):  # not deleted with the focus
            self._field.removeEventFilter(self)
            self._field.textChanged.disconnect(self._handle_typing)
        self._field = focused if isinstance(focused, TextField) and not focused.isReadOnly() else None
        if self._field is not None:
            self._field.installEventFilter(self)
            self._field.textChanged.connect(self._handle_typing)
        self._show_text()

    def _show_text(self) -> None:
        self._action.setText(UNDO_DELETION if self._undoes_deletion else UNDO)


def _has_typing(field: TextField | None) -> bool:
    """Whether something typed in the field can be undone."""
    if isinstance(field, QLineEdit):
        return field.isUndoAvailable()
    return field is not None and field.document().isUndoAvailable()
