"""The dialog before a model is deleted: what is deleted, what stays, and who shares its files."""

from __future__ import annotations

from PySide6.QtCore import Qt, Signal
from PySide6.QtWidgets import QDialog, QDialogButtonBox, QVBoxLayout, QWidget

from app.protocol.model_documents import Removal
from app.window.common.widgets import style, wrapped
from app.window.models.model_text import sentence, size


class DeleteDialog(QDialog):
    """Asks before a model is deleted. agreed(): the user confirmed. Return and Esc give the safe answer."""

    agreed = Signal()

    def __init__(self, title: str, removal: Removal, used: bool, parent: QWidget | None = None) -> None:
        """used: whether the open chat uses it."""
        super().__init__(parent)
        self.setAttribute(Qt.WidgetAttribute.WA_DeleteOnClose)
        self.setWindowTitle("Delete Model")
        self.setMinimumWidth(440)
        self.question, self.details = (
            wrapped(f"Delete {title}?", role="header"),
            wrapped(words_of(removal, used), role="body"),
        )
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
        for widget in (self.question, self.details, buttons):
            column.addWidget(widget)
        style(self, ground="page")
        self.keep.setFocus()

    def _agree(self) -> None:
        self.accept()
        self.agreed.emit()


def words_of(removal: Removal, used: bool) -> str:
    """Returns a line for each thing to know."""
    lines = [f"This frees {size(removal.frees_bytes) or 'no space'}."]
    if removal.losers:
        lines.append(f"Also removed from {', '.join(removal.losers)}, which share its files.")
    if removal.keepers:
        lines.append(
            f"{size(removal.stays_bytes)} stay on disk, because {', '.join(removal.keepers)} use the same files."
        )
    if removal.note:
        lines.append(sentence(removal.note))
    if used:
        lines.append("The open chat uses this model and will need another one.")
    return "\n".join(lines)
