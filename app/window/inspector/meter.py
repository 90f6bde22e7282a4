"""How full the context is: a ring, and words once it matters."""

from __future__ import annotations

from typing import Literal

from PySide6.QtCore import QPoint, QRectF, QSize, Qt, Signal
from PySide6.QtGui import QColor, QFocusEvent, QFontMetrics, QPainter, QPaintEvent, QPen
from PySide6.QtWidgets import QProgressBar, QSizePolicy, QToolTip, QWidget

from app.window.fonts import font
from app.window.inspector.focus import by_keyboard, draw_ring
from app.window.look import GAP, LIGHT, Look

Level = Literal["unknown", "room", "nearly full", "full"]

NEARLY_FULL = 0.8
RING = 16  # px
STROKE = 3
ADVICE: dict[Level, str] = {
    "unknown": "How much of the context is used is not known yet",
    "room": "",
    "nearly full": "The context is nearly full: soon start a new conversation, or shorten what was attached",
    "full": "The context is full: start a new conversation, or edit an earlier message to make it shorter",
}


class ContextMeter(QProgressBar):
    """Tokens of the context that template, system prompt, conversation and draft take. A progress bar to assistive
    technology. level_changed: when it becomes nearly full, or full, or has room again."""

    level_changed = Signal(str)

    def __init__(self, look: Look = LIGHT, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._tokens = self._context = 0
        self._ringed = False
        self._level: Level = "unknown"
        self.setFocusPolicy(Qt.FocusPolicy.TabFocus)
        self.setSizePolicy(QSizePolicy.Policy.Fixed, QSizePolicy.Policy.Fixed)
        self.setAccessibleName("Context used")
        self.set_look(look)
        self.set_count(0, 0)

    @property
    def level(self) -> Level:
        return self._level

    @property
    def said(self) -> str:
        """The count, and what to do where something must be done."""
        if not self._context:
            return ADVICE["unknown"]
        count = f"{self._tokens:,} of {self._context:,} tokens of the context"
        return f"{count}. {ADVICE[self._level]}" if ADVICE[self._level] else count

    def set_count(self, tokens: int, context: int) -> None:
        """tokens of the `context` most that there may be; a context of 0 is not known."""
        self._tokens, self._context = tokens, context
        self.setRange(0, max(context, 1))
        self.setValue(min(tokens, context))
        before, self._level = self._level, self._level_now()
        self.setToolTip(self.said)
        self.setAccessibleDescription(self.said)
        self.updateGeometry()
        self.update()
        if self._level != before:
            self.level_changed.emit(self._level)

    def set_look(self, look: Look) -> None:
        self._font = font(look, 11)
        self._rail, self._focus = QColor(look.hairline), look.accent
        self._colours: dict[Level, QColor] = {
            "unknown": QColor(look.faint),
            "room": QColor(look.faint),
            "nearly full": QColor(look.warning),
            "full": QColor(look.error),
        }
        self.updateGeometry()
        self.update()

    def text(self) -> str:
        """What stands beside the ring: nothing while there is room."""
        if self._level == "nearly full":
            return f"{100 * self._tokens // self._context}% used"
        return "context full" if self._level == "full" else ""

    def sizeHint(self) -> QSize:
        metrics = QFontMetrics(self._font)
        text = self.text()
        width = metrics.horizontalAdvance(text) + GAP if text else 0
        return QSize(RING + 8 + width, max(RING + 8, metrics.height() + 4))

    def minimumSizeHint(self) -> QSize:
        return self.sizeHint()

    def paintEvent(self, event: QPaintEvent) -> None:
        painter = QPainter(self)
        painter.setRenderHint(QPainter.RenderHint.Antialiasing)
        ring = QRectF(4 + STROKE / 2, (self.height() - RING + STROKE) / 2, RING - STROKE, RING - STROKE)
        painter.setPen(QPen(self._rail, STROKE))
        painter.drawEllipse(ring)
        colour = self._colours[self._level]
        share = min(self._tokens / self._context, 1.0) if self._context else 0.0
        painter.setPen(QPen(colour, STROKE, Qt.PenStyle.SolidLine, Qt.PenCapStyle.FlatCap))
        painter.drawArc(ring, 90 * 16, -round(share * 360 * 16))  # clockwise from the top, in sixteenths of a degree
        painter.setPen(colour)
        painter.setFont(self._font)
        painter.drawText(self.rect().adjusted(RING + 8, 0, -4, 0), Qt.AlignmentFlag.AlignVCenter, self.text())
        if self._ringed:
            draw_ring(painter, self, self._focus)

    def focusInEvent(self, event: QFocusEvent) -> None:
        super().focusInEvent(event)
        self._ringed = by_keyboard(event)
        if self._ringed:
            QToolTip.showText(self.mapToGlobal(QPoint(0, -self.height() * 2)), self.said, self)

    def focusOutEvent(self, event: QFocusEvent) -> None:
        super().focusOutEvent(event)
        self._ringed = False

    def _level_now(self) -> Level:
        if not self._context:
            return "unknown"
        share = self._tokens / self._context
        return "full" if share >= 1 else "nearly full" if share >= NEARLY_FULL else "room"
