"""The system's font in an appearance, for rooms that do not call `Appearance.font` yet."""

from __future__ import annotations

from PySide6.QtGui import QFont

from app.window.common.appearance import Appearance


def font(look: Appearance, size: float = 13, weight: QFont.Weight = QFont.Weight.Normal) -> QFont:
    """Returns `look.font(size, weight)`."""
    return look.font(size, weight)
