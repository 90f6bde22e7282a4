"""The runs of a race as they are measured: a letter each, in their order, and what is behind them."""

from __future__ import annotations

from PySide6.QtCore import QPointF, QRectF, QSize, Qt
from PySide6.QtGui import QColor, QFont, QPainter, QPaintEvent, QPen
from PySide6.QtWidgets import QSizePolicy, QWidget

from app.window.fonts import font
from app.window.look import Look

SIZE, APART, PAIRS_APART = 34, 6, 18  # px


class Turns(QWidget):
    """AB BA AB: those that are over are filled, the one that goes on is ringed as far as it has come."""

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.setSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Fixed)
        self._pairs, self._done, self._share = 0, 0, 0.0
        self._look: Look | None = None

    def show_runs(self, pairs: int, run: int, side: int, share: float) -> None:
        """run: of which pair, from 1; 0 before the first. share: of that run, as far as one can tell."""
        self._pairs, self._share = pairs, share
        first = side == order(run)[0]
        self._done = 0 if run == 0 else 2 * (run - 1) + (0 if first else 1)
        self.setAccessibleName("Runs")
        self.setAccessibleDescription(f"{self._done} of {2 * pairs} runs are over")
        self.update()

    @property
    def done(self) -> int:
        """Runs that are over."""
        return self._done

    def set_look(self, look: Look) -> None:
        self._look = look
        self.update()

    def sizeHint(self) -> QSize:
        return QSize(300, 2 * SIZE)

    def paintEvent(self, event: QPaintEvent) -> None:
        look = self._look
        if look is None or not self._pairs:
            return
        painter = QPainter(self)
        painter.setRenderHint(QPainter.RenderHint.Antialiasing)
        painter.setFont(font(look, 13, QFont.Weight.DemiBold))
        for place, (letter, box) in enumerate(self._boxes()):
            self._paint(painter, look, place, letter, box)
        painter.end()

    def _paint(self, painter: QPainter, look: Look, place: int, letter: str, box: QRectF) -> None:
        over = place < self._done
        painter.setPen(Qt.PenStyle.NoPen)
        painter.setBrush(QColor(look.good if over else look.hover))
        painter.drawEllipse(box)
        if place == self._done:
            painter.setPen(QPen(QColor(look.accent), 3))
            painter.drawArc(box.adjusted(1.5, 1.5, -1.5, -1.5), 90 * 16, -round(360 * 16 * max(0.02, self._share)))
        painter.setPen(QColor(look.background if over else look.text))
        painter.drawText(box, Qt.AlignmentFlag.AlignCenter, letter)

    def _boxes(self) -> list[tuple[str, QRectF]]:
        """Smaller where there are many."""
        width = 2 * SIZE + APART + PAIRS_APART
        scale = min(1.0, self.width() / max(1, self._pairs * width - PAIRS_APART))
        x, y = (self.width() - scale * (self._pairs * width - PAIRS_APART)) / 2, self.height() / 2
        found = []
        for pair in range(1, self._pairs + 1):
            for turn, side in enumerate(order(pair)):
                at = QPointF(x + scale * ((pair - 1) * width + turn * (SIZE + APART)), y - scale * SIZE / 2)
                found.append(("AB"[side], QRectF(at.x(), at.y(), scale * SIZE, scale * SIZE)))
        return found


def order(pair: int) -> tuple[int, int]:
    """Which side runs first in this pair, from 1, and which then."""
    return (0, 1) if pair % 2 else (1, 0)
