"""Unloads models that have not been used for a while, to free their memory; the next message loads them again."""

from __future__ import annotations

from collections.abc import Callable

from PySide6.QtCore import QObject, QTimer

from app.window.chat.host_connection import HostConnection
from app.window.chat.host_process import milliseconds

MINUTE_S = 60.0


class IdleUnload(QObject):
    """Counts the minutes since the host's last answer. in_use: returns whether something silent is in progress."""

    def __init__(self, host: HostConnection, in_use: Callable[[], bool], parent: QObject) -> None:
        super().__init__(parent)
        self._host, self._in_use = host, in_use
        self._timer = QTimer(self, singleShot=True)
        self._timer.timeout.connect(self._unload)
        self._minutes = 0.0
        host.frame_ended.connect(self._restart)

    def set_minutes(self, minutes: float) -> None:
        """Sets after how many minutes models are unloaded; 0 is never."""
        self._minutes = minutes
        self._restart()

    def _restart(self) -> None:
        self._timer.stop()
        if self._minutes and self._host.loaded is not None:
            self._timer.start(milliseconds(self._minutes * MINUTE_S))

    def _unload(self) -> None:
        if self._in_use():
            self._restart()
        else:
            self._host.unload()
