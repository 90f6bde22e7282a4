"""The system's font in the reader's size."""

from __future__ import annotations

from PySide6.QtGui import QFont
from PySide6.QtWidgets import QApplication

from app.window.look import Look


def font(look: Look, size: float = 13, weight: QFont.Weight = QFont.Weight.Normal) -> QFont:
    """With figures of one width, where the font has them. size: px at the normal text size."""
    made = QFont(QApplication.font())
    made.setPixelSize(look.px(size))
    made.setWeight(weight)
    made.setFeature(QFont.Tag("tnum"), 1)
    return made
