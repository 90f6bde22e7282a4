"""Helpers for widgets and delegates that draw themselves: items of lists, and the ring of keyboard focus."""

from PySide6.QtCore import QRect, QRectF, Qt
from PySide6.QtGui import QColor, QFocusEvent, QPainter, QPen
from PySide6.QtWidgets import QStyle, QStyleOptionViewItem, QWidget

RING_WIDTH = 2  # px
_KEYS = (Qt.FocusReason.TabFocusReason, Qt.FocusReason.BacktabFocusReason, Qt.FocusReason.ShortcutFocusReason)


def item_rect(option: QStyleOptionViewItem) -> QRect:
    """Returns where an item is drawn."""
    rect: QRect = option.rect  # type: ignore[attr-defined]  # the stubs lack it
    return rect


def item_state(option: QStyleOptionViewItem) -> QStyle.StateFlag:
    """Returns whether an item is selected, hovered and so on."""
    state: QStyle.StateFlag = option.state  # type: ignore[attr-defined]  # the stubs lack it
    return state


def focused_by_keyboard(event: QFocusEvent) -> bool:
    """Returns whether a key moved the focus, rather than a click or a window that became active."""
    return event.reason() in _KEYS


def draw_focus_ring(painter: QPainter, widget: QWidget, colour: str) -> None:
    """Draws a ring around a widget that has no focus frame of its own."""
    painter.setRenderHint(QPainter.RenderHint.Antialiasing)
    painter.setBrush(Qt.BrushStyle.NoBrush)
    painter.setPen(QPen(QColor(colour), RING_WIDTH))
    painter.drawRoundedRect(QRectF(widget.rect()).adjusted(1, 1, -1, -1), 5, 5)
