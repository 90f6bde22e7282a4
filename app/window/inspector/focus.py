"""Where the keyboard is: a ring around parts that draw themselves, shown to those who came by the keyboard."""

from __future__ import annotations

from PySide6.QtCore import QRectF, Qt
from PySide6.QtGui import QColor, QFocusEvent, QPainter, QPen
from PySide6.QtWidgets import QWidget

WIDTH = 2  # px
KEYS = (Qt.FocusReason.TabFocusReason, Qt.FocusReason.BacktabFocusReason, Qt.FocusReason.ShortcutFocusReason)


def by_keyboard(event: QFocusEvent) -> bool:
    """Whether a key moved the focus, rather than a click, or the window that became active."""
    return event.reason() in KEYS


def draw_ring(painter: QPainter, widget: QWidget, colour: str) -> None:
    painter.setRenderHint(QPainter.RenderHint.Antialiasing)
    painter.setBrush(Qt.BrushStyle.NoBrush)
    painter.setPen(QPen(QColor(colour), WIDTH))
    painter.drawRoundedRect(QRectF(widget.rect()).adjusted(1, 1, -1, -1), 5, 5)
