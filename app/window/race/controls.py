"""What plays a race: play and pause, any moment of it, slower and faster, the difference, and what is made of it."""

from __future__ import annotations

import math

from PySide6.QtCore import Qt, Signal
from PySide6.QtWidgets import QHBoxLayout, QLabel, QMenu, QPushButton, QToolButton, QWidget

from app.race.player import SPEEDS
from app.window.fonts import font
from app.window.icons import icon
from app.window.look import GAP, Look
from app.window.race.timeline import MarkKind, Timeline
from app.window.shell.fields import choice, choose
from app.window.shell.styles import controls_style, faint_style, wear
from app.window.shell.widgets import IconButton

STEPS_A_S = 100  # of the slider; its last is the end, and a little more
NAMES = {0.25: "¼", 0.5: "½", 1.0: "1", 2.0: "2"}
TIMES = "\N{MULTIPLICATION SIGN}"
SAVES = {
    "png": "Picture (PNG)…",
    "gif": "Animation (GIF)…",
    "webp": "Animation (WebP)…",
    "apng": "Animation (animated PNG)…",
    "json": "Race, to be Replayed (JSON)…",
}


class Controls(QWidget):
    """play_asked(): play or pause. replay_asked(): from the start. sought(float): to this second. sped(float): times as
    fast. difference_asked(). save_asked(str): one of SAVES."""

    play_asked = Signal()
    replay_asked = Signal()
    sought = Signal(float)
    sped = Signal(float)
    difference_asked = Signal()
    save_asked = Signal(str)

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._look: Look | None = None
        self._playing = False
        self.play, self.again = IconButton("play", "Play"), IconButton("again", "Replay from the Start")
        self.slider = Timeline()
        self.time = QLabel("0.0 / 0.0 s")
        self.speed = choice({str(speed): f"{NAMES[speed]}{TIMES}" for speed in SPEEDS})
        self.difference = QPushButton("Difference")
        self.save = QToolButton(popupMode=QToolButton.ToolButtonPopupMode.InstantPopup)
        self._set_up()
        self.play.clicked.connect(self.play_asked)
        self.again.clicked.connect(self.replay_asked)
        self.slider.valueChanged.connect(lambda place: self.sought.emit(place / STEPS_A_S))
        self.speed.activated.connect(lambda _: self.sped.emit(float(self.speed.currentData())))
        self.difference.clicked.connect(self.difference_asked)

    def begin(self, end_s: float, parts_s: float | None, kind: MarkKind) -> None:
        """Of another race. parts_s: when both have shown where they differ, None where they never do. kind: of that
        difference."""
        self.slider.blockSignals(True)
        self.slider.begin(math.ceil(end_s * STEPS_A_S), None if parts_s is None else round(parts_s * STEPS_A_S), kind)
        self.slider.blockSignals(False)
        self.difference.setVisible(parts_s is not None)
        self._end_s = end_s
        self.show_place(0.0, playing=False)

    def show_place(self, time_s: float, playing: bool) -> None:
        """Where the replay stands."""
        self.slider.blockSignals(True)
        self.slider.setValue(self.slider.maximum() if time_s >= self._end_s else round(time_s * STEPS_A_S))
        self.slider.blockSignals(False)
        self.time.setText(f"{time_s:.1f} / {self._end_s:.1f} s")
        self.slider.setAccessibleDescription(self.time.text())
        if playing != self._playing:
            self._playing = playing
            self._show_play()

    def set_speed(self, speed: float) -> None:
        choose(self.speed, str(speed))

    def set_look(self, look: Look) -> None:
        self._look = look
        self.again.set_look(look)
        self.slider.set_look(look)
        self._show_play()
        self.time.setFont(font(look, 13))
        wear(self.time, faint_style(look, 13))
        self.speed.set_look(look)
        self.speed.setFont(font(look))
        wear(self, controls_style(look) + _save_style(look))

    _end_s = 0.0

    def _show_play(self) -> None:
        self.play.name("Pause" if self._playing else "Play")
        if self._look is not None:
            self.play.set_look(self._look)
            self.play.setIcon(icon("pause" if self._playing else "play", self._look.text))

    def _set_up(self) -> None:
        self.speed.setAccessibleName("Speed of the Replay")
        self.speed.setFixedWidth(74)
        choose(self.speed, "1.0")
        self.difference.setToolTip("Go to the first token that differs (D)")
        self.again.setToolTip("Replay from the Start (R)")
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


def _save_style(look: Look) -> str:
    """Of the button with the menu."""
    return (
        f"QToolButton[popupMode='2'] {{ border: 1px solid {look.hairline}; border-radius: 6px; color: {look.text};"
        f" background: {look.raised}; padding: 4px 10px; font-size: {look.px(13)}px; }}"
        "QToolButton::menu-indicator { image: none; }"
        f"QToolButton[popupMode='2']:focus {{ border-color: {look.accent}; }}"
        f"QToolButton[popupMode='2']:hover {{ background: {look.hover}; }}"
    )
