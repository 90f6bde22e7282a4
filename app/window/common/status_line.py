"""The status line of a window: a message, or the progress of work that can be cancelled."""

from typing import Literal

from PySide6.QtCore import Signal
from PySide6.QtWidgets import QPushButton, QWidget

from app.window.common.appearance import GAP
from app.window.common.layouts import row
from app.window.common.widgets import ProgressBar, announce, style, wrapped

Level = Literal["info", "warning", "error"]
_TONES = {"info": "faint", "warning": "warning", "error": "error"}


class StatusLine(QWidget):
    """Hidden while there is nothing to show. stop_asked(): the user cancels the work."""

    stop_asked = Signal()

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.text, self.bar, self.stop = wrapped(role="body"), ProgressBar("Progress"), QPushButton("Cancel")
        self.bar.setFixedWidth(220)
        self.stop.clicked.connect(self.stop_asked)
        row((self.text, 1), self.bar, self.stop, on=self, margins=(2 * GAP + 4, GAP, 2 * GAP + 4, GAP), gap=2 * GAP)
        self.hide()

    def clear(self) -> None:
        """Hides the line."""
        self.hide()

    def show_message(self, text: str, level: Level) -> None:
        """Shows a message until there is another."""
        self.text.setText(text)
        style(self.text, tone=_TONES[level])
        for part in (self.bar, self.stop):
            part.hide()
        self.show()
        announce(self, text)

    def show_progress(self, text: str) -> None:
        """Shows that work has begun which takes a while and can be cancelled."""
        self.show_message(text, "info")
        self.bar.show_share(0.0, False)
        for part in (self.bar, self.stop):
            part.show()

    def show_share(self, share: float) -> None:
        """Shows how much of the work is done, 0 to 1."""
        self.bar.show_share(share, False)
