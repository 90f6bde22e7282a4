"""Keeps garbage collection from stopping the window.

A full collection of Python's goes through every object there is: 20 ms once the window stands, and over 100 ms with the
tokens of some long replies. So what survives two collections is left out of later ones (`gc.freeze`), and a full one is
made while the window is in the background. Most objects go without the collector, as soon as nothing refers to them.
"""

from __future__ import annotations

import gc
from typing import Literal

from PySide6.QtCore import QObject, Qt, QTimer
from PySide6.QtGui import QGuiApplication

FULL_AFTER_MS = 10_000  # in the background
_MIDDLE = 1  # the generation whose survivors would be gone through by full collections only


def leave_old_objects_out() -> None:
    """Has the collector go through young objects only, from now on, in the whole process."""
    gc.freeze()
    if _freeze_survivors not in gc.callbacks:
        gc.callbacks.append(_freeze_survivors)


def collect_all() -> int:
    """Goes through every object, and returns the number of those that were garbage. Takes up to some seconds."""
    gc.unfreeze()
    return gc.collect()  # `_freeze_survivors` freezes what is left


class BackgroundCollection(QObject):
    """Makes a full collection once the application has been in the background for a while."""

    def __init__(self, application: QGuiApplication) -> None:
        super().__init__(application)
        self._timer = QTimer(self)
        self._timer.setSingleShot(True)
        self._timer.setInterval(FULL_AFTER_MS)
        self._timer.timeout.connect(lambda: collect_all())
        application.applicationStateChanged.connect(self._note_state)

    def _note_state(self, state: Qt.ApplicationState) -> None:
        if state == Qt.ApplicationState.ApplicationActive:
            self._timer.stop()
        else:
            self._timer.start()


def _freeze_survivors(phase: Literal["start", "stop"], info: dict[str, int]) -> None:
    if phase == "stop" and info["generation"] >= _MIDDLE:
        gc.freeze()
