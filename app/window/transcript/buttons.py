"""The small flat buttons beside messages."""

from __future__ import annotations

from PySide6.QtCore import QSize, Qt, QTimer
from PySide6.QtWidgets import QToolButton, QWidget

from app.window.icons import icon
from app.window.look import Look

SIZE = 26  # px, of a button
_DONE_MS = 1400


class IconButton(QToolButton):
    """A flat button of one icon. Its name is read to those who cannot see it, and shown on hovering."""

    def __init__(self, shape: str, name: str, look: Look, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.setFocusPolicy(Qt.FocusPolicy.StrongFocus)
        self.setAutoRaise(True)
        self.setFixedSize(SIZE, SIZE)
        self.setIconSize(QSize(16, 16))
        self.setAccessibleName(name)
        self.setToolTip(name)
        self._shape, self._look = shape, look
        self._back = QTimer(self, singleShot=True, interval=_DONE_MS)
        self._back.timeout.connect(lambda: self.set_look(self._look))
        self.set_look(look)

    def set_look(self, look: Look) -> None:
        self._look = look
        self.setIcon(icon(self._shape, look.faint, faded=look.hairline))
        self.setStyleSheet(style(look))

    def set_shape(self, shape: str, name: str) -> None:
        """It does something else from now on."""
        self._shape = shape
        self.setAccessibleName(name)
        self.setToolTip(name)
        self.set_look(self._look)

    def show_done(self) -> None:
        """What it does was done: a check mark, for a moment."""
        self.setIcon(icon("check", self._look.good))
        self._back.start()


def style(look: Look, kind: str = "QToolButton", aside: int = 4) -> str:
    """Flat until it is hovered or has the focus. aside: px of free space at both sides."""
    return (
        f"{kind} {{ border: 1px solid transparent; border-radius: 6px; background: transparent;"
        f" color: {look.faint}; padding: 0 {aside}px; font-size: {look.px(12)}px; }}"
        f"{kind}:hover {{ background: {look.hover}; color: {look.text}; }}"
        f"{kind}:focus {{ border-color: {look.accent}; }}"
        f"{kind}:disabled {{ color: {look.hairline}; }}"
    )


def filled(look: Look) -> str:
    """The one button of a place that one is meant to press."""
    return (
        f"QPushButton {{ border: 1px solid {look.accent}; border-radius: 7px; background: {look.accent};"
        f" color: {look.on_accent}; padding: 4px 12px; font-size: {look.px(13)}px; }}"
        f"QPushButton:focus {{ border-color: {look.text}; }}"
    )


def bordered(look: Look) -> str:
    """A button beside it."""
    return (
        f"QPushButton {{ border: 1px solid {look.hairline}; border-radius: 7px; background: {look.background};"
        f" color: {look.text}; padding: 4px 12px; font-size: {look.px(13)}px; }}"
        f"QPushButton:hover {{ background: {look.hover}; }} QPushButton:focus {{ border-color: {look.accent}; }}"
    )
