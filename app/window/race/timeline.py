"""Where a replay stands: a slider that goes where it is pressed, with a mark where the texts part."""

from __future__ import annotations

from typing import Literal

from PySide6.QtCore import QPointF, QRectF, Qt
from PySide6.QtGui import QColor, QMouseEvent, QPainter, QPaintEvent, QPen
from PySide6.QtWidgets import QSlider, QWidget

from app.window.look import Look

GROOVE, HANDLE, RING, HEIGHT = 4, 14, 3, 28  # px
MARK_WIDTH, MARK_HEIGHT = 3, 14  # px
MarkKind = Literal["accent", "warning", "error"]  # a colour of a look


class Timeline(QSlider):
    """Of whole steps. mark: the step where the texts part, None for nowhere."""

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(Qt.Orientation.Horizontal, parent)
        self.setFocusPolicy(Qt.FocusPolicy.StrongFocus)
        self.setFixedHeight(HEIGHT)
        self.setAccessibleName("Position")
        self.mark: int | None = None
        self._look: Look | None = None
        self._kind: MarkKind = "warning"

    def begin(self, steps: int, mark: int | None, kind: MarkKind) -> None:
        """Of another race; it stands at the start."""
        self.mark, self._kind = mark, kind
        self.setRange(0, steps)
        self.setPageStep(max(1, steps // 10))
        self.setSingleStep(max(1, steps // 100))
        self.setValue(0)
        self.update()

    def set_look(self, look: Look) -> None:
        self._look = look
        self.update()

    def step_at(self, x: float) -> int:
        """The step that is shown at `x`, in px of this widget."""
        return round(self.maximum() * min(max((x - HANDLE / 2) / self._span(), 0.0), 1.0))

    def x_of(self, step: int) -> float:
        """The inverse, of whole steps."""
        return HANDLE / 2 + self._span() * step / max(1, self.maximum())

    # --- events --------------------------------------------------------------------------------

    def mousePressEvent(self, event: QMouseEvent) -> None:
        if event.button() == Qt.MouseButton.LeftButton:
            self.setSliderDown(True)
            self.setValue(self.step_at(event.position().x()))

    def mouseMoveEvent(self, event: QMouseEvent) -> None:
        if self.isSliderDown():
            self.setValue(self.step_at(event.position().x()))

    def mouseReleaseEvent(self, event: QMouseEvent) -> None:
        self.setSliderDown(False)

    def paintEvent(self, event: QPaintEvent) -> None:
        look = self._look
        if look is None:
            return
        painter = QPainter(self)
        painter.setRenderHint(QPainter.RenderHint.Antialiasing)
        painter.setPen(Qt.PenStyle.NoPen)
        middle, x = self.height() / 2, self.x_of(self.value())
        groove = QRectF(HANDLE / 2, middle - GROOVE / 2, self._span(), GROOVE)
        for colour, end in ((look.hairline, groove.right()), (look.accent, x)):
            painter.setBrush(QColor(colour))
            painter.drawRoundedRect(QRectF(groove.topLeft(), QPointF(end, groove.bottom())), GROOVE / 2, GROOVE / 2)
        if self.mark is not None:
            left, top = self.x_of(self.mark) - MARK_WIDTH / 2, middle - MARK_HEIGHT / 2
            painter.setBrush(QColor(getattr(look, self._kind)))
            painter.drawRoundedRect(QRectF(left, top, MARK_WIDTH, MARK_HEIGHT), 1.5, 1.5)
        self._paint_handle(painter, look, QPointF(x, middle))
        painter.end()

    def _paint_handle(self, painter: QPainter, look: Look, at: QPointF) -> None:
        """Ringed where the keyboard is on it."""
        if self.hasFocus():
            ring = QColor(look.accent)
            ring.setAlpha(90)
            painter.setBrush(ring)
            painter.drawEllipse(at, HANDLE / 2 + RING, HANDLE / 2 + RING)
        painter.setPen(QPen(QColor(look.background), 2))
        painter.setBrush(QColor(look.accent))
        painter.drawEllipse(at, HANDLE / 2 - 1, HANDLE / 2 - 1)

    def _span(self) -> float:
        return max(1.0, self.width() - HANDLE)
