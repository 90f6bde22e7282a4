"""Keeps garbage collection from stopping the window, or crashing it.

Python collects in whichever thread has just made an object. Qt does not allow another thread than the GUI's to destroy
an object with a running timer: the timer stays in the event loop, which crashes once it is due. So the collector is
switched off, and the GUI's thread does its work whenever it is about to wait for events.

A full collection of Python's goes through every object there is: 20 ms once the window stands, and over 100 ms with the
tokens of some long replies. So what survives two collections is left out of later ones (`gc.freeze`), and a full one is
made while the window is in the background. Most objects go without the collector, as soon as nothing refers to them.
"""

import gc
from typing import Literal

from PySide6.QtCore import QAbstractEventDispatcher, QObject, Qt
from PySide6.QtGui import QGuiApplication

from app.window.common.timer import Timer

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


class GarbageCollection(QObject):
    """Collects in the thread that makes it, the GUI's, and in no other: young objects before the event loop waits, all
    of them once the application has been in the background for a while."""

    def __init__(self, application: QGuiApplication) -> None:
        super().__init__(application)
        gc.disable()
        QAbstractEventDispatcher.instance().aboutToBlock.connect(self._collect_young)
        self._timer = Timer(self, singleShot=True, interval=FULL_AFTER_MS)
        self._timer.timeout.connect(lambda: collect_all())
        application.applicationStateChanged.connect(self._note_state)

    def _collect_young(self) -> None:
        """Collects what Python would collect by itself now, except for a full collection."""
        counts, thresholds = gc.get_count(), gc.get_threshold()
        due = [generation for generation in range(_MIDDLE + 1) if counts[generation] > thresholds[generation]]
        if due:
            gc.collect(due[-1])

    def _note_state(self, state: Qt.ApplicationState) -> None:
        if state == Qt.ApplicationState.ApplicationActive:
            self._timer.stop()
        else:
            self._timer.start()


def _freeze_survivors(phase: Literal["start", "stop"], info: dict[str, int]) -> None:
    if phase == "stop" and info["generation"] >= _MIDDLE:
        gc.freeze()
