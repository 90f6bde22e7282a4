"""The controls of a replay: play and pause, any moment of it, its speed, the difference, and exports."""

import math

from PySide6.QtCore import QPointF, QRectF, QSignalBlocker, Qt, Signal
from PySide6.QtGui import QColor, QMouseEvent, QPainter, QPaintEvent, QPen
from PySide6.QtWidgets import QMenu, QPushButton, QSlider, QToolButton, QWidget

from app.race.race_replay import SPEEDS, Player
from app.race.race_text import MarkTone
from app.window.common import theme
from app.window.common.appearance import GAP
from app.window.common.form_fields import choice
from app.window.common.layouts import row
from app.window.common.timer import Timer, clock_s
from app.window.common.widgets import IconButton, fit_width, label, style
from app.window.race.race_files import KINDS

FRAME_MS = 16
STEPS_A_S = 100  # of the slider; its last is the end, and a little more
NAMES = {0.25: "¼", 0.5: "½", 1.0: "1", 2.0: "2"}
TIMES = "\N{MULTIPLICATION SIGN}"
GROOVE, HANDLE, RING, HEIGHT = 4, 14, 3, 28  # px
MARK_WIDTH, MARK_HEIGHT = 3, 14  # px


class Timeline(QSlider):
    """A slider that goes where it is pressed. mark: the step where the texts differ, None if they never do; tone: of
    that mark."""

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(Qt.Orientation.Horizontal, parent)
        self.setFocusPolicy(Qt.FocusPolicy.StrongFocus)
        self.setFixedHeight(HEIGHT)
        self.setAccessibleName("Position")
        self.mark: int | None = None
        self.tone: MarkTone = "warning"

    def set_steps(self, steps: int) -> None:
        """Sets how many steps there are, and goes to the first."""
        self.setRange(0, steps)
        self.setPageStep(max(1, steps // 10))
        self.setSingleStep(max(1, steps // 100))
        self.setValue(0)

    def step_at(self, x: float) -> int:
        """Returns the step that is shown at `x`, in px of this widget."""
        return round(self.maximum() * min(max((x - HANDLE / 2) / self._span(), 0.0), 1.0))

    def x_of(self, step: int) -> float:
        """Returns where a step is shown: the inverse of `step_at`."""
        return HANDLE / 2 + self._span() * step / max(1, self.maximum())

    def mousePressEvent(self, event: QMouseEvent) -> None:
        self.setSliderDown(event.button() == Qt.MouseButton.LeftButton)
        self.mouseMoveEvent(event)

    def mouseMoveEvent(self, event: QMouseEvent) -> None:
        if self.isSliderDown():
            self.setValue(self.step_at(event.position().x()))

    def mouseReleaseEvent(self, event: QMouseEvent) -> None:
        self.setSliderDown(False)

    def paintEvent(self, event: QPaintEvent) -> None:
        look, painter = theme.current(), QPainter(self)
        painter.setRenderHint(QPainter.RenderHint.Antialiasing)
        painter.setPen(Qt.PenStyle.NoPen)
        x, middle = self.x_of(self.value()), self.height() / 2
        bars = [(HANDLE / 2, HANDLE / 2 + self._span(), GROOVE, look.hairline), (HANDLE / 2, x, GROOVE, look.accent)]
        if self.mark is not None:
            left = self.x_of(self.mark) - MARK_WIDTH / 2
            bars.append((left, left + MARK_WIDTH, MARK_HEIGHT, look.colour(self.tone)))
        for left, right, height, colour in bars:
            painter.setBrush(QColor(colour))
            painter.drawRoundedRect(QRectF(left, middle - height / 2, right - left, height), 1.5, 1.5)
        if self.hasFocus():
            ring = QColor(look.accent)
            ring.setAlpha(90)
            painter.setBrush(ring)
            painter.drawEllipse(QPointF(x, middle), HANDLE / 2 + RING, HANDLE / 2 + RING)
        painter.setPen(QPen(QColor(look.background), 2))
        painter.setBrush(QColor(look.accent))
        painter.drawEllipse(QPointF(x, middle), HANDLE / 2 - 1, HANDLE / 2 - 1)
        painter.end()

    def _span(self) -> float:
        return max(1.0, self.width() - HANDLE)


class ReplayControls(QWidget):
    """Plays a race by the window's clock. moved(float): the second that is to be shown. sped(float): times the real
    speed. difference_reached(): what is shown now is where the texts differ. save_asked(str): of KINDS."""

    moved = Signal(float)
    sped = Signal(float)
    difference_reached = Signal()
    save_asked = Signal(str)

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.player = Player(0.0, clock_s)
        self._differs_s: float | None = None
        self.play_button, self.again = IconButton("play", "Play"), IconButton("again", "Replay from Start")
        self.slider, self.time = Timeline(), label("0.0 / 0.0 s", tone="faint")
        self.speed = choice({str(speed): f"{NAMES[speed]}{TIMES}" for speed in SPEEDS})
        self.difference = QPushButton("Go to Difference")
        self.save = QToolButton(popupMode=QToolButton.ToolButtonPopupMode.InstantPopup)
        self._frame = Timer(self, interval=FRAME_MS, timerType=Qt.TimerType.PreciseTimer)
        self._set_up()
        self._lay_out()
        self._frame.timeout.connect(self.tick)
        self.play_button.clicked.connect(self.toggle)
        self.again.clicked.connect(self.replay)
        self.slider.valueChanged.connect(lambda step: self.seek(step / STEPS_A_S))
        self.speed.activated.connect(lambda _: self._set_speed(float(self.speed.currentData())))
        self.difference.clicked.connect(self.go_to_difference)

    def begin(self, end_s: float, differs_s: float | None, tone: MarkTone) -> None:
        """Prepares another race, at the speed of the one before. differs_s: when both have shown where they differ,
        None if they never do. tone: of that difference."""
        speed, self.player = self.player.speed, Player(end_s, clock_s)
        self._differs_s = differs_s
        self.slider.mark = None if differs_s is None else round(differs_s * STEPS_A_S)
        self.slider.tone = tone
        with QSignalBlocker(self.slider):
            self.slider.set_steps(math.ceil(end_s * STEPS_A_S))
        self.difference.setVisible(differs_s is not None)
        self._set_speed(speed)

    def play(self) -> None:
        """Plays on from here; from the start if the race has ended."""
        self.player.play()
        self._frame.start()
        self._show()

    def pause(self) -> None:
        """Stops at this moment."""
        self.player.pause()
        self._show()

    def toggle(self) -> None:
        """Plays or pauses."""
        if self.player.playing:
            self.pause()
        else:
            self.play()

    def replay(self) -> None:
        """Plays from the start."""
        self.player.seek(0.0)
        self.play()

    def seek(self, time_s: float) -> None:
        """Goes to a moment."""
        self.player.seek(time_s)
        self._show()

    def step(self, share: float) -> None:
        """Goes on by a share of the race, or back."""
        self.seek(self.player.position_s + share * self.player.end_s)

    def go_to_difference(self) -> None:
        """Goes to the moment at which both sides have shown the difference, and pauses there."""
        if self._differs_s is not None:
            self.player.pause()
            self.seek(self._differs_s)
            self.difference_reached.emit()

    def tick(self) -> None:
        """Shows the moment that is reached by now."""
        self.player.tick()
        self._show()

    def _set_speed(self, speed: float) -> None:
        self.player.set_speed(speed)
        self.sped.emit(speed)

    def _show(self) -> None:
        player, slider = self.player, self.slider
        if not player.playing:
            self._frame.stop()
        step = slider.maximum() if player.position_s >= player.end_s else round(player.position_s * STEPS_A_S)
        with QSignalBlocker(slider):
            slider.setValue(step)
        self.time.setText(f"{player.position_s:.1f} / {player.end_s:.1f} s")
        slider.setAccessibleDescription(self.time.text())
        shape, name = ("pause", "Pause") if player.playing else ("play", "Play")
        if self.play_button.accessibleName() != name:
            self.play_button.set_shape(shape, name)
        self.moved.emit(player.position_s)

    def _set_up(self) -> None:
        self.play_button.tone = "text"
        self.speed.setAccessibleName("Replay Speed")
        fit_width(self.speed, 74, [self.speed.itemText(i) for i in range(self.speed.count())])
        self.speed.choose("1.0")
        self.difference.setToolTip("Go to the first token that differs (D)")
        self.again.setToolTip("Replay from Start (R)")
        style(self.save, role="menu")
        self.save.setText("Export…")
        self.save.setAccessibleName("Export")
        self.save.setFocusPolicy(Qt.FocusPolicy.TabFocus)
        menu = QMenu(self.save)
        for name, kind in KINDS.items():
            menu.addAction(kind.label).triggered.connect(lambda _=False, name=name: self.save_asked.emit(name))
        self.save.setMenu(menu)

    def _lay_out(self) -> None:
        buttons = (self.speed, self.difference, self.save)
        parts = (self.play_button, self.again, (self.slider, 1), self.time, *buttons)
        row(*parts, on=self, margins=(2 * GAP + 4, GAP, 2 * GAP + 4, GAP), gap=GAP)
