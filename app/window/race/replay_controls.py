"""The controls of a replay: play and pause, any moment of it, its speed, the difference, and exports."""

from __future__ import annotations

import math
from typing import Literal

from PySide6.QtCore import QPointF, QRectF, Qt, Signal
from PySide6.QtGui import QColor, QMouseEvent, QPainter, QPaintEvent, QPen
from PySide6.QtWidgets import QHBoxLayout, QMenu, QPushButton, QSlider, QToolButton, QWidget

from app.race.replay_clock import SPEEDS
from app.window.common import theme
from app.window.common.appearance import GAP, Appearance
from app.window.common.form_fields import choice
from app.window.common.widgets import IconButton, label, style

STEPS_A_S = 100  # of the slider; its last is the end, and a little more
NAMES = {0.25: "¼", 0.5: "½", 1.0: "1", 2.0: "2"}
TIMES = "\N{MULTIPLICATION SIGN}"
SAVES = {
    "png": "Picture (PNG)…",
    "gif": "Animation (GIF)…",
    "webp": "Animation (WebP)…",
    "apng": "Animation (animated PNG)…",
    "json": "Race to Replay (JSON)…",
}
GROOVE, HANDLE, RING, HEIGHT = 4, 14, 3, 28  # px
MARK_WIDTH, MARK_HEIGHT = 3, 14  # px
MarkKind = Literal["accent", "warning", "error"]  # a colour of an appearance


class Timeline(QSlider):
    """A slider that goes where it is pressed. mark: the step where the texts differ, None where they never do."""

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(Qt.Orientation.Horizontal, parent)
        self.setFocusPolicy(Qt.FocusPolicy.StrongFocus)
        self.setFixedHeight(HEIGHT)
        self.setAccessibleName("Position")
        self.mark: int | None = None
        self._kind: MarkKind = "warning"

    def begin(self, steps: int, mark: int | None, kind: MarkKind) -> None:
        """Shows the start of another race."""
        self.mark, self._kind = mark, kind
        self.setRange(0, steps)
        self.setPageStep(max(1, steps // 10))
        self.setSingleStep(max(1, steps // 100))
        self.setValue(0)
        self.update()

    def step_at(self, x: float) -> int:
        """Returns the step that is shown at `x`, in px of this widget."""
        return round(self.maximum() * min(max((x - HANDLE / 2) / self._span(), 0.0), 1.0))

    def x_of(self, step: int) -> float:
        """Returns where a step is shown: the inverse of `step_at`."""
        return HANDLE / 2 + self._span() * step / max(1, self.maximum())

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
        look, painter = theme.current(), QPainter(self)
        painter.setRenderHint(QPainter.RenderHint.Antialiasing)
        painter.setPen(Qt.PenStyle.NoPen)
        middle, x = self.height() / 2, self.x_of(self.value())
        groove = QRectF(HANDLE / 2, middle - GROOVE / 2, self._span(), GROOVE)
        for colour, end in ((look.hairline, groove.right()), (look.accent, x)):
            painter.setBrush(QColor(colour))
            painter.drawRoundedRect(QRectF(groove.topLeft(), QPointF(end, groove.bottom())), GROOVE / 2, GROOVE / 2)
        if self.mark is not None:
            left, top = self.x_of(self.mark) - MARK_WIDTH / 2, middle - MARK_HEIGHT / 2
            painter.setBrush(QColor(look.colour(self._kind)))
            painter.drawRoundedRect(QRectF(left, top, MARK_WIDTH, MARK_HEIGHT), 1.5, 1.5)
        self._paint_handle(painter, look, QPointF(x, middle))
        painter.end()

    def _paint_handle(self, painter: QPainter, look: Appearance, at: QPointF) -> None:
        """Draws the handle, with a ring while the slider has the keyboard focus."""
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


class ReplayControls(QWidget):
    """Plays a race. play_asked(): play or pause. replay_asked(): from the start. sought(float): to this second.
    sped(float): times the real speed. difference_asked(). save_asked(str): one of SAVES."""

    play_asked = Signal()
    replay_asked = Signal()
    sought = Signal(float)
    sped = Signal(float)
    difference_asked = Signal()
    save_asked = Signal(str)

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._playing = False
        self.play, self.again = IconButton("play", "Play"), IconButton("again", "Replay From Start")
        self.slider = Timeline()
        self.time = label("0.0 / 0.0 s", tone="faint")
        self.speed = choice({str(speed): f"{NAMES[speed]}{TIMES}" for speed in SPEEDS})
        self.difference = QPushButton("Difference")
        self.save = QToolButton(popupMode=QToolButton.ToolButtonPopupMode.InstantPopup)
        self._set_up()
        self.play.tone = "text"
        self.play.clicked.connect(self.play_asked)
        self.again.clicked.connect(self.replay_asked)
        self.slider.valueChanged.connect(lambda place: self.sought.emit(place / STEPS_A_S))
        self.speed.activated.connect(lambda _: self.sped.emit(float(self.speed.currentData())))
        self.difference.clicked.connect(self.difference_asked)

    def begin(self, end_s: float, parts_s: float | None, kind: MarkKind) -> None:
        """Shows the start of another race. parts_s: when both have shown where they differ, None where they never do.
        kind: of that difference."""
        self.slider.blockSignals(True)
        self.slider.begin(math.ceil(end_s * STEPS_A_S), None if parts_s is None else round(parts_s * STEPS_A_S), kind)
        self.slider.blockSignals(False)
        self.difference.setVisible(parts_s is not None)
        self._end_s = end_s
        self.show_place(0.0, playing=False)

    def show_place(self, time_s: float, playing: bool) -> None:
        """Shows the position of the replay."""
        self.slider.blockSignals(True)
        self.slider.setValue(self.slider.maximum() if time_s >= self._end_s else round(time_s * STEPS_A_S))
        self.slider.blockSignals(False)
        self.time.setText(f"{time_s:.1f} / {self._end_s:.1f} s")
        self.slider.setAccessibleDescription(self.time.text())
        if playing != self._playing:
            self._playing = playing
            self._show_play()

    def set_speed(self, speed: float) -> None:
        self.speed.choose(str(speed))

    _end_s = 0.0

    def _show_play(self) -> None:
        self.play.set_shape(*("pause", "Pause") if self._playing else ("play", "Play"))

    def _set_up(self) -> None:
        self.speed.setAccessibleName("Replay Speed")
        self.speed.setFixedWidth(74)
        self.speed.choose("1.0")
        self.difference.setToolTip("Go to the first token that differs (D)")
        self.again.setToolTip("Replay From Start (R)")
        style(self.save, role="menu")
        self.save.setText("Export…")
        self.save.setAccessibleName("Export")
        self.save.setFocusPolicy(Qt.FocusPolicy.TabFocus)
        menu = QMenu(self.save)
        for kind, text in SAVES.items():
            menu.addAction(text).triggered.connect(lambda _=False, kind=kind: self.save_asked.emit(kind))
        self.save.setMenu(menu)
        row = QHBoxLayout(self)
        row.setContentsMargins(2 * GAP + 4, GAP, 2 * GAP + 4, GAP)
        row.setSpacing(GAP)
        row.addWidget(self.play)
        row.addWidget(self.again)
        row.addWidget(self.slider, 1)
        for widget in (self.time, self.speed, self.difference, self.save):
            row.addWidget(widget)
