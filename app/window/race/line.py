"""One line about a race: what went wrong, what was written, how far a picture is."""

from __future__ import annotations

from typing import Literal

from PySide6.QtCore import Signal
from PySide6.QtWidgets import QHBoxLayout, QPushButton, QWidget

from app.window.look import GAP, LIGHT, Look
from app.window.race.pane import Bar
from app.window.shell.styles import controls_style, wear
from app.window.shell.widgets import wrapped
from app.window.transcript.announce import announce

Level = Literal["info", "warning", "error"]


class Line(QWidget):
    """stop_asked(): of the picture that is being drawn."""

    stop_asked = Signal()

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.text, self.bar, self.stop = wrapped(), Bar("Progress of the picture"), QPushButton("Cancel")
        self._level: Level = "info"
        self._look = LIGHT
        self.bar.setFixedWidth(220)
        self.stop.clicked.connect(self.stop_asked)
        row = QHBoxLayout(self)
        row.setContentsMargins(2 * GAP + 4, GAP, 2 * GAP + 4, GAP)
        row.setSpacing(2 * GAP)
        row.addWidget(self.text, 1)
        row.addWidget(self.bar)
        row.addWidget(self.stop)
        self.clear()

    def clear(self) -> None:
        self.hide()

    def say(self, text: str, level: Level) -> None:
        """Until something else is said."""
        self._level = level
        self.text.setText(text)
        self.bar.hide()
        self.stop.hide()
        self.show()
        self._colour()
        announce(self, text)

    def begin(self, text: str) -> None:
        """Something that takes a while, and can be stopped."""
        self.say(text, "info")
        self.bar.show_share(0.0, False)
        self.bar.show()
        self.stop.show()

    def show_share(self, share: float) -> None:
        self.bar.show_share(share, False)

    def set_look(self, look: Look) -> None:
        self._look = look
        self.bar.set_look(look)
        wear(self.stop, controls_style(look))
        self._colour()

    def _colour(self) -> None:
        look = self._look
        colour = {"info": look.faint, "warning": look.warning, "error": look.error}[self._level]
        wear(self.text, f"color: {colour}; font-size: {look.px(13)}px; background: transparent;")
