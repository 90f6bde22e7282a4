"""What delegates of lists share: how an item is to be drawn, and text that ends in dots where it is too long."""

from __future__ import annotations

from PySide6.QtCore import QRect, Qt
from PySide6.QtGui import QPainter
from PySide6.QtWidgets import QStyle, QStyleOptionViewItem


def place_of(option: QStyleOptionViewItem) -> QRect:
    place: QRect = option.rect  # type: ignore[attr-defined]  # the stubs lack it
    return place


def state_of(option: QStyleOptionViewItem) -> QStyle.StateFlag:
    state: QStyle.StateFlag = option.state  # type: ignore[attr-defined]  # the stubs lack it
    return state


def draw_elided(painter: QPainter, rect: QRect, text: str) -> None:
    """At the left, in the middle of the height."""
    shown = painter.fontMetrics().elidedText(text, Qt.TextElideMode.ElideRight, rect.width())
    painter.drawText(rect, Qt.AlignmentFlag.AlignLeft | Qt.AlignmentFlag.AlignVCenter, shown)
