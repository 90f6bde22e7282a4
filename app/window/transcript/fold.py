"""The one line that a section of thought is folded into."""

from __future__ import annotations

from PySide6.QtCore import QSize, Qt
from PySide6.QtWidgets import QToolButton, QWidget

from app.window.fonts import font
from app.window.icons import icon
from app.window.look import GAP, Look
from app.window.transcript.buttons import style
from app.window.transcript.manner import SMALL


class Fold(QToolButton):
    """Opens and closes the section below it."""

    def __init__(self, parent: QWidget) -> None:
        super().__init__(parent)
        self.setToolButtonStyle(Qt.ToolButtonStyle.ToolButtonTextBesideIcon)
        self.setFocusPolicy(Qt.FocusPolicy.StrongFocus)
        self.setAutoRaise(True)
        self.setIconSize(QSize(16, 16))
        self.setCheckable(True)
        self._told: tuple[bool, bool, int, Look] | None = None

    def tell(self, opened: bool, thinking: bool, tokens: int, look: Look) -> None:
        """Whether its section is open to read, whether it is being written still, and how long it is."""
        if self._told == (opened, thinking, tokens, look):
            return
        self._told = (opened, thinking, tokens, look)
        said = "Thinking…" if thinking else "Thought"
        self.setText(f"{said}  {tokens:,} tokens" if tokens else said)
        self.setAccessibleName(f"{self.text()}, {'shown' if opened else 'folded'}")
        self.setToolTip("Hide what the model thought" if opened else "Show what the model thought")
        self.setChecked(opened)
        self.setFont(font(look, SMALL))
        self.setIcon(icon("down" if opened else "right", look.faint))
        self.setStyleSheet(style(look, aside=0))

    def lay_out(self, y: int, width: int) -> int:
        """Stand at `y`; returns the height."""
        size = self.sizeHint()
        height = max(size.height(), 3 * GAP)
        self.setGeometry(0, y, min(width, size.width() + GAP), height)
        return height
