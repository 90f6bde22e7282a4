"""Turning the event loop until something holds, with a deadline; and asking pictures for colours."""

from __future__ import annotations

import time
from collections.abc import Callable

from PySide6.QtCore import QEvent, QPointF, Qt
from PySide6.QtGui import QColor, QMouseEvent
from PySide6.QtWidgets import QApplication, QWidget

DEADLINE_S = 20.0


def until(holds: Callable[[], bool], what: str) -> None:
    """Turn the event loop until it does; fails with `what` after DEADLINE_S."""
    deadline = time.monotonic() + DEADLINE_S
    while not holds():
        assert time.monotonic() < deadline, f"not within {DEADLINE_S:g} s: {what}"
        QApplication.processEvents()


def hover(widget: QWidget, x: float, y: float) -> None:
    """Move the pointer over `widget`, to (x, y) in it."""
    spot = QPointF(x, y)
    none = Qt.MouseButton.NoButton
    modifiers = Qt.KeyboardModifier.NoModifier
    everywhere = QPointF(widget.mapToGlobal(spot))
    QApplication.sendEvent(widget, QMouseEvent(QEvent.Type.MouseMove, spot, everywhere, none, none, modifiers))


def colours(widget: QWidget) -> set[str]:
    """Every colour that is in its picture, as "#rrggbb"."""
    image = widget.grab().toImage()
    return {QColor(image.pixel(x, y)).name() for x in range(image.width()) for y in range(image.height())}
