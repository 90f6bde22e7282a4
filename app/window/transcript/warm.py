"""What rendering needs is loaded in quiet moments, before the first reply that would have to wait for it."""

from __future__ import annotations

from PySide6.QtCore import QObject, QTimer
from PySide6.QtGui import QTextCursor, QTextDocument

from app.window.look import LIGHT
from app.window.reading import write

_BETWEEN_MS = 200
_LANGUAGES = ("python", "bash", "javascript", "json", "html", "c")
_SOURCES = ("Words.", "| a |\n| - |\n| $x$ |", *(f"```{language}\nx = 1\n```" for language in _LANGUAGES))


class Warming(QObject):
    """Renders a little of everything, one thing at a time: a parser or a lexer takes up to 50 ms to load."""

    def __init__(self, parent: QObject) -> None:
        super().__init__(parent)
        self.left = list(_SOURCES)
        self._timer = QTimer(self, interval=_BETWEEN_MS)
        self._timer.timeout.connect(self.render)

    def start(self) -> None:
        """Once; later calls do nothing."""
        if self.left and not self._timer.isActive():
            self._timer.start()

    def render(self) -> None:
        """The next thing."""
        document = QTextDocument()
        write(QTextCursor(document), self.left.pop(0), [], LIGHT, True)
        if not self.left:
            self._timer.stop()
