"""The screens that windows are on. For a moment there may be none, as while displays are plugged in or wake up."""

from PySide6.QtCore import QPoint
from PySide6.QtGui import QGuiApplication, QScreen

_USUAL_DPI = 96.0  # where there is no screen to ask


def text_dpi() -> float:
    """Returns the px of an inch of text: documents measure in points, of which an inch has 72."""
    window = QGuiApplication.focusWindow()
    screen = (window.screen() if window is not None else None) or QGuiApplication.primaryScreen()
    return screen.logicalDotsPerInchY() if screen is not None else _USUAL_DPI


def screen_at(place: QPoint) -> QScreen | None:
    """Returns the screen at a place, or the primary one where there is none; None while there is no screen at all."""
    return QGuiApplication.screenAt(place) or QGuiApplication.primaryScreen()
