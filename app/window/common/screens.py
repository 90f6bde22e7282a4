"""The screen that the window stands on. There may be none for a moment, as while displays are plugged in or wake."""

from __future__ import annotations

from PySide6.QtCore import QPoint
from PySide6.QtGui import QGuiApplication, QScreen

_USUAL_DPI = 96.0  # where there is no screen to ask


def text_dpi() -> float:
    """Returns how many px an inch of text has, which makes px of the points in which documents measure."""
    window = QGuiApplication.focusWindow()
    screen = (window.screen() if window is not None else None) or QGuiApplication.primaryScreen()
    return screen.logicalDotsPerInchY() if screen is not None else _USUAL_DPI


def screen_at(place: QPoint) -> QScreen | None:
    """Returns the screen of a place, or another one where there is none; None without any."""
    return QGuiApplication.screenAt(place) or QGuiApplication.primaryScreen()
