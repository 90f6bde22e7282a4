"""Windows beside the main one, each made when it is first asked for: the settings, the race, the models."""

from __future__ import annotations

from typing import Protocol

from PySide6.QtCore import QObject

from app.window.look import LIGHT, Look


class Dressed(Protocol):
    """A window that wears a look."""

    def set_look(self, look: Look) -> None: ...

    def close(self) -> bool: ...


class Beside(QObject):
    """window: None until it is made; whoever makes it dresses it in `_look`."""

    window: Dressed | None

    def __init__(self, parent: QObject) -> None:
        super().__init__(parent)
        self._look: Look = LIGHT
        self.window = None

    def set_look(self, look: Look) -> None:
        self._look = look
        if self.window is not None:
            self.window.set_look(look)

    def close(self) -> None:
        """With the main window. What goes on behind it, such as a download, goes on."""
        if self.window is not None:
            self.window.close()
