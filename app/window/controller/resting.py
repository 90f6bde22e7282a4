"""Models that nobody has used for a while give their memory back; the next message brings them back."""

from __future__ import annotations

from collections.abc import Callable

from PySide6.QtCore import QObject, QTimer

from app.window.controller.engine import Engine
from app.window.patience import milliseconds

MINUTE_S = 60.0


class Resting(QObject):
    """Lets the engine's models go when the host has said nothing for so many minutes: nobody writes, and nothing goes
    on. in_use: whether something does that the host is silent about."""

    def __init__(self, engine: Engine, in_use: Callable[[], bool], parent: QObject) -> None:
        super().__init__(parent)
        self._engine, self._in_use = engine, in_use
        self._idle = QTimer(self)
        self._idle.setSingleShot(True)
        self._idle.timeout.connect(self._rest)
        self.minutes = 0.0
        engine.frame_ended.connect(self._begin_again)

    def set_minutes(self, minutes: float) -> None:
        """How long; 0 is for ever."""
        self.minutes = minutes
        self._begin_again()

    def _begin_again(self) -> None:
        self._idle.stop()
        if self.minutes and self._engine.loaded is not None:
            self._idle.start(milliseconds(self.minutes * MINUTE_S))

    def _rest(self) -> None:
        if self._in_use():
            self._begin_again()
        else:
            self._engine.unload()
