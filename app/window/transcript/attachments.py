"""The text files that came with a question: chips that open to a preview."""

from __future__ import annotations

from collections.abc import Sequence

from PySide6.QtCore import QSize, Qt
from PySide6.QtGui import QFontDatabase
from PySide6.QtWidgets import QDialog, QDialogButtonBox, QLabel, QPlainTextEdit, QToolButton, QVBoxLayout, QWidget

from app.records import Attachment
from app.window.fonts import font
from app.window.icons import icon
from app.window.look import GAP, Look
from app.window.transcript.manner import SMALL

_HEIGHT, _WIDEST = 30, 260  # px
_LONGEST_PREVIEW = 200_000  # characters


class Chips:
    """The chips of one question, in rows that end at the right."""

    def __init__(self, attachments: Sequence[Attachment], look: Look, parent: QWidget) -> None:
        self._parent, self._look = parent, look
        self.buttons: list[QWidget] = [self._made(attachment) for attachment in attachments]
        self.set_look(look)

    def lay_out(self, left: int, top: int, width: int) -> int:
        """Stand in a column; returns the height."""
        rows: list[list[QWidget]] = [[]]
        used = 0
        for button in self.buttons:
            needed = min(button.sizeHint().width(), _WIDEST, width)
            if rows[-1] and used + needed > width:
                rows.append([])
                used = 0
            button.setFixedSize(needed, _HEIGHT)
            rows[-1].append(button)
            used += needed + GAP // 2
        for number, row in enumerate(rows):
            x = left + width
            for button in reversed(row):
                button.move(x - button.width(), top + number * (_HEIGHT + GAP // 2))
                x -= button.width() + GAP // 2
        return len(rows) * (_HEIGHT + GAP // 2)

    def set_look(self, look: Look) -> None:
        self._look = look
        for button in self.buttons:
            if isinstance(button, QToolButton):
                button.setIcon(icon("file", look.faint))
                button.setFont(font(look, SMALL))
                button.setStyleSheet(
                    f"QToolButton {{ border: 1px solid {look.hairline}; border-radius: 8px; padding: 0 8px;"
                    f" background: {look.raised}; color: {look.text}; }}"
                    f"QToolButton:hover {{ background: {look.hover}; }}"
                    f"QToolButton:focus {{ border-color: {look.accent}; }}"
                )

    def _made(self, attachment: Attachment) -> QToolButton:
        button = QToolButton(self._parent)
        button.setToolButtonStyle(Qt.ToolButtonStyle.ToolButtonTextBesideIcon)
        button.setFocusPolicy(Qt.FocusPolicy.StrongFocus)
        button.setIconSize(QSize(16, 16))
        name = " ".join(attachment.name.split()) or "file"
        button.setText(button.fontMetrics().elidedText(name, Qt.TextElideMode.ElideMiddle, _WIDEST - 48))
        button.setToolTip(f"{name}, {len(attachment.text):,} characters")
        button.setAccessibleName(f"Attached file {name}")
        button.clicked.connect(lambda: preview(attachment, self._look, self._parent).open())
        return button


def preview(attachment: Attachment, look: Look, parent: QWidget) -> QDialog:
    """A window with the text of a file, to be opened."""
    dialog = QDialog(parent.window())
    dialog.setAttribute(Qt.WidgetAttribute.WA_DeleteOnClose)
    dialog.setWindowTitle(attachment.name)
    dialog.resize(720, 560)
    text = QPlainTextEdit(attachment.text[:_LONGEST_PREVIEW], dialog, readOnly=True)
    text.setFont(QFontDatabase.systemFont(QFontDatabase.SystemFont.FixedFont))
    text.setAccessibleName(f"Text of {attachment.name}")
    about = f"{len(attachment.text):,} characters, {attachment.text.count(chr(10)) + 1:,} lines"
    if len(attachment.text) > _LONGEST_PREVIEW:
        about += f"; the first {_LONGEST_PREVIEW:,} are shown"
    label = QLabel(about, dialog)
    label.setStyleSheet(f"color: {look.faint};")
    buttons = QDialogButtonBox(QDialogButtonBox.StandardButton.Close, dialog)
    buttons.rejected.connect(dialog.close)
    column = QVBoxLayout(dialog)
    for part in (label, text, buttons):
        column.addWidget(part)
    return dialog
