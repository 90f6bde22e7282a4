"""Before a model is deleted: what goes, what stays, and who else has the same files."""

from __future__ import annotations

from PySide6.QtCore import Qt, Signal
from PySide6.QtGui import QFont
from PySide6.QtWidgets import QDialog, QDialogButtonBox, QVBoxLayout, QWidget

from app.window.fonts import font
from app.window.look import Look
from app.window.models.documents import Removal
from app.window.models.wording import sentence, size
from app.window.shell.styles import controls_style, wear
from app.window.shell.widgets import wrapped


class AskToDelete(QDialog):
    """agreed(): the user wants it gone. The safe answer is the one that Enter and Esc give."""

    agreed = Signal()

    def __init__(self, title: str, removal: Removal, used: bool, look: Look, parent: QWidget | None = None) -> None:
        """used: whether the open chat uses it."""
        super().__init__(parent)
        self.setAttribute(Qt.WidgetAttribute.WA_DeleteOnClose)
        self.setWindowTitle("Delete Model")
        self.setMinimumWidth(440)
        self.question, self.said = wrapped(f"Delete {title}?"), wrapped(words_of(removal, used))
        buttons = QDialogButtonBox()
        self.keep = buttons.addButton("Cancel", QDialogButtonBox.ButtonRole.RejectRole)
        self.delete_button = buttons.addButton("Delete", QDialogButtonBox.ButtonRole.DestructiveRole)
        self.keep.setDefault(True)
        for button in (self.keep, self.delete_button):
            button.setAccessibleName(button.text())
        buttons.rejected.connect(self.reject)
        self.delete_button.clicked.connect(self._agree)
        column = QVBoxLayout(self)
        column.setContentsMargins(24, 20, 24, 16)
        column.setSpacing(12)
        for widget in (self.question, self.said, buttons):
            column.addWidget(widget)
        self.question.setFont(font(look, 15, QFont.Weight.DemiBold))
        wear(self.said, f"color: {look.text}; font-size: {look.px(13)}px;")
        wear(self, f"QDialog {{ background: {look.background}; }}" + controls_style(look))
        self.keep.setFocus()

    def _agree(self) -> None:
        self.accept()
        self.agreed.emit()


def words_of(removal: Removal, used: bool) -> str:
    """A line for each thing to know."""
    lines = [f"{size(removal.frees_bytes) or 'Nothing'} will be free again."]
    if removal.losers:
        lines.append(f"Shared with {', '.join(removal.losers)}: gone for them too.")
    if removal.keepers:
        lines.append(f"{size(removal.stays_bytes)} stay, as {', '.join(removal.keepers)} has the same files.")
    if removal.note:
        lines.append(sentence(removal.note))
    if used:
        lines.append("The open chat uses it, and will need another model.")
    return "\n".join(lines)
