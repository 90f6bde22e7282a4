"""The context meter: a ring, with words once the context is nearly full."""

from PySide6.QtCore import QPoint, QRectF, QSize, Qt
from PySide6.QtGui import QColor, QFocusEvent, QFontMetrics, QPainter, QPaintEvent, QPen
from PySide6.QtWidgets import QProgressBar, QSizePolicy, QToolTip, QWidget

from app.window.common import theme
from app.window.common.appearance import GAP
from app.window.common.paint_helpers import draw_focus_ring, focused_by_keyboard

METER_WARNS_AT, COMPOSER_WARNS_AT = 0.8, 0.9  # of the context: by colour here, in words above the message
RING = 16  # px
STROKE = 3
UNKNOWN = "Context usage is not known yet"
ADVICE = {
    "room": "",
    "nearly full": "The context is nearly full. Start a new chat soon, or shorten the attachments.",
    "full": "The context is full. Choose how to continue with the buttons above the message field.",
}
TONES = {"room": "faint", "nearly full": "warning", "full": "error"}


class ContextMeter(QProgressBar):
    """Shows how many tokens of the context the template, system prompt, conversation and draft take. Assistive
    technology reads it as a progress bar."""

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._tokens = self._context = 0
        self._focus_visible = False
        self.setFocusPolicy(Qt.FocusPolicy.TabFocus)
        self.setSizePolicy(QSizePolicy.Policy.Fixed, QSizePolicy.Policy.Fixed)
        self.setAccessibleName("Context used")
        self.set_count(0, 0)

    @property
    def _share(self) -> float:
        return self._tokens / self._context if self._context else 0.0

    @property
    def _level(self) -> str:
        return "full" if self._share >= 1 else "nearly full" if self._share >= METER_WARNS_AT else "room"

    @property
    def description(self) -> str:
        """The count in words, with advice once the context is nearly full."""
        if not self._context:
            return UNKNOWN
        count = f"{self._tokens:,} of {self._context:,} context tokens used"
        return f"{count}. {ADVICE[self._level]}" if ADVICE[self._level] else count

    def set_count(self, tokens: int, context: int) -> None:
        """Shows that `tokens` of `context` are used; a context of 0 is unknown."""
        self._tokens, self._context = tokens, context
        self.setRange(0, max(context, 1))
        self.setValue(min(tokens, context))
        self.setToolTip(self.description)
        self.setAccessibleDescription(self.description)
        self.updateGeometry()
        self.update()

    def text(self) -> str:
        """Returns the text beside the ring; "" while there is room."""
        if self._level == "nearly full":
            return f"{100 * self._tokens // self._context}% used"
        return "context full" if self._level == "full" else ""

    def sizeHint(self) -> QSize:
        metrics = QFontMetrics(theme.current().font(11))
        text = self.text()
        width = metrics.horizontalAdvance(text) + GAP if text else 0
        return QSize(RING + 8 + width, max(RING + 8, metrics.height() + 4))

    def minimumSizeHint(self) -> QSize:
        return self.sizeHint()

    def paintEvent(self, event: QPaintEvent) -> None:
        painter, look = QPainter(self), theme.current()
        painter.setRenderHint(QPainter.RenderHint.Antialiasing)
        ring = QRectF(4 + STROKE / 2, (self.height() - RING + STROKE) / 2, RING - STROKE, RING - STROKE)
        painter.setPen(QPen(QColor(look.hairline), STROKE))
        painter.drawEllipse(ring)
        colour = QColor(look.colour(TONES[self._level]))
        painter.setPen(QPen(colour, STROKE, Qt.PenStyle.SolidLine, Qt.PenCapStyle.FlatCap))
        painter.drawArc(ring, 90 * 16, -round(min(self._share, 1) * 360 * 16))  # clockwise from the top
        painter.setPen(colour)
        painter.setFont(look.font(11))
        painter.drawText(self.rect().adjusted(RING + 8, 0, -4, 0), Qt.AlignmentFlag.AlignVCenter, self.text())
        if self._focus_visible:
            draw_focus_ring(painter, self, look.accent)

    def focusInEvent(self, event: QFocusEvent) -> None:
        super().focusInEvent(event)
        self._focus_visible = focused_by_keyboard(event)
        if self._focus_visible:
            QToolTip.showText(self.mapToGlobal(QPoint(0, -self.height() * 2)), self.description, self)

    def focusOutEvent(self, event: QFocusEvent) -> None:
        super().focusOutEvent(event)
        self._focus_visible = False
