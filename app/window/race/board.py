"""A race at a time: the prompt, both sides, and what lies between. Pictures are made of it, and the window shows it."""

from __future__ import annotations

from PySide6.QtCore import Qt, QUrl, Signal
from PySide6.QtGui import QFont, QTextDocument
from PySide6.QtWidgets import QHBoxLayout, QLabel, QVBoxLayout, QWidget

from app.race import words
from app.race.document import RaceDocument
from app.race.replaying import Replay, State
from app.window.fonts import font
from app.window.inspector import Legend
from app.window.look import GAP, Look
from app.window.race.middle import Middle, mark_colour
from app.window.race.pane import Pane
from app.window.reading.visible import visible
from app.window.shell.styles import faint_style, wear
from app.window.shell.widgets import ElidedLabel, wrapped

MARGIN = 20  # px


class Board(QWidget):
    """show_time: any moment, in any order; what it shows depends on that alone."""

    link_asked = Signal(QUrl)

    def __init__(self, document: RaceDocument, look: Look, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.setObjectName("board")
        self.setAttribute(Qt.WidgetAttribute.WA_StyledBackground)
        self.replay = Replay(document)
        greedy = document.law.temperature == 0
        self.prompt = ElidedLabel(f"“{' '.join(visible(document.prompt).split())}”")
        self.panes = [
            Pane(visible(name), visible(words.details(one, greedy)), track.run, look)
            for name, one, track in zip(
                words.names(document.contestants), document.contestants, self.replay.tracks, strict=True
            )
        ]
        self.middle = Middle(self.replay)
        self._pace = 1.0
        self.about, self.made_with = wrapped(self._about()), ElidedLabel(visible(words.made_with(document)))
        self.brand, self.legend = QLabel("Redline"), Legend(look, ghosts=False)
        self._look = look
        self._lay_out()
        self.set_look(look)
        self.show_time(0.0)

    @property
    def state(self) -> State:
        """What is shown."""
        return self._state

    def show_time(self, time_s: float) -> None:
        self._state = state = self.replay.at(time_s)
        colour = mark_colour(self.replay, self._look)
        for pane, of in zip(self.panes, state.panes, strict=True):
            pane.show_state(of, state.parted, colour)
        self.middle.show_state(state)

    def reveal_difference(self) -> None:
        for pane in self.panes:
            pane.reveal_mark()

    def set_look(self, look: Look) -> None:
        self._look = look
        for pane in self.panes:
            pane.set_look(look)
        self.middle.set_look(look)
        self.legend.set_look(look)
        self.prompt.setFont(font(look, 17, QFont.Weight.DemiBold))
        wear(self.prompt, f"color: {look.text}; background: transparent;")
        self.brand.setFont(font(look, 13, QFont.Weight.Bold))
        wear(self.brand, f"color: {look.faint}; background: transparent;")
        for label in (self.about, self.made_with):
            label.setFont(font(look, 11.5))
            wear(label, faint_style(look, 11.5))
        wear(self, f"#board {{ background: {look.background}; }}")

    def set_pace(self, pace: float) -> None:
        """Say that what is shown goes so many times as fast as it was."""
        self._pace = pace
        self.about.setText(self._about())

    def text_height(self) -> int:
        """That the longer text needs in the panes as they are wide now, px."""
        heights = []
        for pane in self.panes:
            document: QTextDocument = pane.reader.document()
            heights.append(document.size().height())
        return round(max(heights))

    def _about(self) -> str:
        said = f"{words.MEASURED[0].upper()}{words.MEASURED[1:]}{words.paced(self._pace)}"
        found = words.verdict(self.replay.document).said
        return f"{said}. {found[0].upper()}{found[1:]}."

    def _lay_out(self) -> None:
        sides = QHBoxLayout()
        sides.setSpacing(0)
        sides.addWidget(self.panes[0], 1)
        sides.addWidget(self.middle)
        sides.addWidget(self.panes[1], 1)
        foot = QHBoxLayout()
        foot.setSpacing(2 * GAP)
        foot.addWidget(self.made_with, 1)
        foot.addWidget(self.brand)
        column = QVBoxLayout(self)
        column.setContentsMargins(MARGIN, MARGIN - 4, MARGIN, MARGIN - 6)
        column.setSpacing(GAP + 2)
        column.addWidget(self.prompt)
        column.addLayout(sides, 1)
        about = QHBoxLayout()
        about.setSpacing(2 * GAP)
        about.addWidget(self.about, 1)
        about.addWidget(self.legend)
        column.addLayout(about)
        column.addLayout(foot)
