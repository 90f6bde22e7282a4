"""What is shown while a race is measured: the runs in their order, and why they are not made at once."""

from __future__ import annotations

from PySide6.QtCore import Qt
from PySide6.QtGui import QFont
from PySide6.QtWidgets import QHBoxLayout, QLabel, QVBoxLayout, QWidget

from app.protocol.racing import Racing
from app.window.fonts import font
from app.window.icons import pixmap
from app.window.look import GAP, Look
from app.window.race.turns import Turns
from app.window.shell.styles import faint_style, wear
from app.window.shell.widgets import wrapped

WHY = (
    "Two models that decode at once slow each other down. So the sides are measured one after the other, in turns, and "
    "then replayed side by side from a common start."
)
SILENT = "Nothing has been heard of the engine for a while. It may be busy, or stuck: stopping the race is always safe."
IDLE = (
    "Race plain decoding against speculative decoding, or any two drafters, draft lengths and rules, on the model that "
    "is loaded. Both answer the same prompt; the texts are held against each other token by token."
)
WIDTH = 560
FLAG = 44  # px


class Measuring(QWidget):
    """Also what is shown before the first race."""

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.flag, self.title, self.turns, self.why = QLabel(), wrapped(), Turns(), wrapped()
        self._pairs = self._longest = 0
        middle = QVBoxLayout()
        middle.setSpacing(2 * GAP)
        middle.addStretch(2)
        for widget in (self.flag, self.title, self.turns, self.why):
            widget.setFixedWidth(WIDTH)
            middle.addWidget(widget)
        middle.addStretch(3)
        row = QHBoxLayout(self)
        row.addStretch(1)
        row.addLayout(middle)
        row.addStretch(1)
        for label in (self.flag, self.title, self.why):
            label.setAlignment(Qt.AlignmentFlag.AlignHCenter)
        self.rest()

    def rest(self, said: str = "") -> None:
        """No race goes on. said: why there is none to be seen."""
        self.title.setText(said or "Nothing has been raced yet")
        self.turns.hide()
        self.flag.show()
        self.why.setText(IDLE)

    def begin(self, pairs: int, longest: int) -> None:
        """A race of so many pairs of runs. longest: tokens of a run."""
        self._pairs, self._longest = pairs, longest
        self.title.setText("Getting ready")
        self.why.setText(WHY)
        self.turns.show_runs(pairs, 0, 0, 0.0)
        self.turns.show()
        self.flag.hide()

    def show_progress(self, progress: Racing) -> None:
        """What goes on now."""
        said = progress.said
        if progress.run:
            said = f"{said}, side {'AB'[progress.side]}: {progress.tokens} tokens"
        self.title.setText(f"{said[:1].upper()}{said[1:]}")
        self.why.setText(WHY)
        self.turns.show_runs(self._pairs, progress.run, progress.side, progress.tokens / max(1, self._longest))

    def be_silent(self) -> None:
        self.why.setText(SILENT)

    def set_look(self, look: Look) -> None:
        self.title.setFont(font(look, 20, QFont.Weight.DemiBold))
        wear(self.title, f"color: {look.text}; background: transparent;")
        wear(self.why, faint_style(look, 13))
        self.turns.set_look(look)
        self.flag.setPixmap(pixmap("race", look.faint, FLAG, self.devicePixelRatioF()))
