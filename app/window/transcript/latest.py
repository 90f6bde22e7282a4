"""The button that leads back to the end of the conversation."""

from __future__ import annotations

from PySide6.QtCore import QSize, Qt
from PySide6.QtWidgets import QToolButton, QWidget

from app.window.icons import icon
from app.window.look import GAP, Look
from app.window.transcript.flow import Flow

_SIZE = 34  # px
_FAR = 120  # px from the end, from which on it shows


class Latest(QToolButton):
    """Stands over the column's lower edge while its end is out of view."""

    def __init__(self, look: Look, parent: QWidget) -> None:
        super().__init__(parent)
        self.setFixedSize(_SIZE, _SIZE)
        self.setIconSize(QSize(18, 18))
        self.setFocusPolicy(Qt.FocusPolicy.StrongFocus)
        self.setAccessibleName("Jump to the latest message")
        self.setToolTip("Jump to the latest message")
        self.set_look(look)
        self.hide()

    def set_look(self, look: Look) -> None:
        self.setIcon(icon("latest", look.text))
        self.setStyleSheet(
            f"QToolButton {{ border: 1px solid {look.hairline}; border-radius: {_SIZE // 2}px;"
            f" background: {look.background}; }} QToolButton:hover {{ background: {look.hover}; }}"
            f"QToolButton:focus {{ border-color: {look.accent}; }}"
        )

    def follow(self, flow: Flow) -> None:
        """Show and place itself by where the reader stands."""
        bar = flow.verticalScrollBar()
        self.setVisible(not flow.at_end and bar.maximum() - bar.value() > _FAR)
        self.move(flow.x() + (flow.viewport().width() - _SIZE) // 2, flow.geometry().bottom() - _SIZE - 2 * GAP)
        self.raise_()
