"""What is shown while a race is measured: the runs in their order, and why they do not run at once."""

from __future__ import annotations

from PySide6.QtCore import QPointF, QRectF, QSize, Qt
from PySide6.QtGui import QColor, QFont, QPainter, QPaintEvent, QPen
from PySide6.QtWidgets import QHBoxLayout, QSizePolicy, QVBoxLayout, QWidget

from app.protocol.race_messages import RaceProgress
from app.window.common import theme
from app.window.common.appearance import GAP, Appearance
from app.window.common.widgets import Glyph, wrapped

WHY = (
    "Two models that run at once slow each other down. The sides are measured one after the other, in alternating "
    "order, and then replayed side by side from a common start."
)
SILENT = "The engine has not responded for a while. It may be busy or stuck. You can stop the race at any time."
IDLE = (
    "Race plain decoding against speculative decoding, or any two drafters, draft lengths and acceptance rules, on the "
    "loaded model. Both sides answer the same prompt, and their texts are compared token by token."
)
WIDTH = 560
FLAG = 44  # px
SIZE, APART, PAIRS_APART = 34, 6, 18  # px, of a run, between two runs, between two pairs


class RunOrder(QWidget):
    """The runs in their order, AB BA AB: finished ones are filled, the current one has a ring as far as it has come."""

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.setSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Fixed)
        self._pairs, self._done, self._share = 0, 0, 0.0

    def show_runs(self, pairs: int, run: int, side: int, share: float) -> None:
        """run: the current pair, from 1; 0 before the first. share: how much of the current run is done, 0 to 1."""
        self._pairs, self._share = pairs, share
        first = side == order(run)[0]
        self._done = 0 if run == 0 else 2 * (run - 1) + (0 if first else 1)
        self.setAccessibleName("Runs")
        self.setAccessibleDescription(f"{self._done} of {2 * pairs} runs are done")
        self.update()

    @property
    def done(self) -> int:
        """How many runs are done."""
        return self._done

    def sizeHint(self) -> QSize:
        return QSize(300, 2 * SIZE)

    def paintEvent(self, event: QPaintEvent) -> None:
        look = theme.current()
        if not self._pairs:
            return
        painter = QPainter(self)
        painter.setRenderHint(QPainter.RenderHint.Antialiasing)
        painter.setFont(look.font(13, QFont.Weight.DemiBold))
        for place, (letter, box) in enumerate(self._boxes()):
            self._paint(painter, look, place, letter, box)
        painter.end()

    def _paint(self, painter: QPainter, look: Appearance, place: int, letter: str, box: QRectF) -> None:
        done = place < self._done
        painter.setPen(Qt.PenStyle.NoPen)
        painter.setBrush(QColor(look.good if done else look.hover))
        painter.drawEllipse(box)
        if place == self._done:
            painter.setPen(QPen(QColor(look.accent), 3))
            painter.drawArc(box.adjusted(1.5, 1.5, -1.5, -1.5), 90 * 16, -round(360 * 16 * max(0.02, self._share)))
        painter.setPen(QColor(look.background if done else look.text))
        painter.drawText(box, Qt.AlignmentFlag.AlignCenter, letter)

    def _boxes(self) -> list[tuple[str, QRectF]]:
        """Returns a letter and a place for each run; smaller where there are many."""
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
    """Returns the order of the sides in a pair, counted from 1."""
    return (0, 1) if pair % 2 else (1, 0)


class MeasurementView(QWidget):
    """The progress of a measurement; before the first race, what a race is."""

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.flag, self.order = Glyph("race", "faint", FLAG), RunOrder()
        self.title, self.why = wrapped(role="title"), wrapped(role="body", tone="faint")
        self._pairs = self._longest = 0
        middle = QVBoxLayout()
        middle.setSpacing(2 * GAP)
        middle.addStretch(2)
        middle.addWidget(self.flag, 0, Qt.AlignmentFlag.AlignHCenter)
        for widget in (self.title, self.order, self.why):
            widget.setFixedWidth(WIDTH)
            middle.addWidget(widget)
        middle.addStretch(3)
        row = QHBoxLayout(self)
        row.addStretch(1)
        row.addLayout(middle)
        row.addStretch(1)
        for label in (self.title, self.why):
            label.setAlignment(Qt.AlignmentFlag.AlignHCenter)
        self.show_idle()

    def show_idle(self, title: str = "") -> None:
        """No race is being measured. title: why there is none to see."""
        self.title.setText(title or "No Race Yet")
        self.order.hide()
        self.flag.show()
        self.why.setText(IDLE)

    def begin(self, pairs: int, longest: int) -> None:
        """A race of so many pairs of runs begins. longest: the most tokens of a run."""
        self._pairs, self._longest = pairs, longest
        self.title.setText("Preparing")
        self.why.setText(WHY)
        self.order.show_runs(pairs, 0, 0, 0.0)
        self.order.show()
        self.flag.hide()

    def show_progress(self, progress: RaceProgress) -> None:
        """Shows what the race is doing now."""
        message = progress.message
        if progress.run:
            message = f"{message}, side {'AB'[progress.side]}: {progress.tokens} tokens"
        self.title.setText(f"{message[:1].upper()}{message[1:]}")
        self.why.setText(WHY)
        self.order.show_runs(self._pairs, progress.run, progress.side, progress.tokens / max(1, self._longest))

    def show_silence(self) -> None:
        """The engine has not answered for a while."""
        self.why.setText(SILENT)
