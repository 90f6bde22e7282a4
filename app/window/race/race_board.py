"""A race at a time: the prompt, both sides, and the comparison between them."""

from __future__ import annotations

from PySide6.QtCore import QEvent, QUrl, Signal
from PySide6.QtWidgets import QHBoxLayout, QVBoxLayout, QWidget

from app.race import race_text
from app.race.race_document import RaceDocument
from app.race.race_replay import Replay, State
from app.window.common.appearance import GAP
from app.window.common.widgets import ElidedLabel, style, wrapped
from app.window.inspector import Legend
from app.window.markdown.text_blocks import visible
from app.window.race.comparison import Comparison, mark_colour
from app.window.race.side_pane import SidePane

MARGIN = 20  # px


class RaceBoard(QWidget):
    """What it shows depends on the time alone, which may be any, in any order. link_clicked(QUrl)."""

    link_clicked = Signal(QUrl)

    def __init__(self, document: RaceDocument, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        style(self, ground="page")
        self.replay = Replay(document)
        greedy = document.sampling.temperature == 0
        self.prompt = ElidedLabel(f"“{' '.join(visible(document.prompt).split())}”", role="header")
        names = race_text.names(document.contestants)
        self.panes = [
            SidePane(visible(name), visible(race_text.details(one, greedy)), track.run)
            for name, one, track in zip(names, document.contestants, self.replay.tracks, strict=True)
        ]
        self.comparison = Comparison(self.replay)
        self._pace = 1.0
        self.about = wrapped(self._about(), role="detail")
        self.made_with = ElidedLabel(visible(race_text.made_with(document)), role="detail")
        self.legend = Legend(refused=False)
        self._lay_out()
        for pane in self.panes:
            pane.link_clicked.connect(self.link_clicked)
        self.show_time(0.0)

    @property
    def state(self) -> State:
        """What is shown."""
        return self._state

    def show_time(self, time_s: float) -> None:
        """Shows this moment of the replay."""
        self._state = state = self.replay.at(time_s)
        colour = mark_colour(self.replay)
        for pane, pane_state in zip(self.panes, state.panes, strict=True):
            pane.show_state(pane_state, state.parted, colour)
        self.comparison.show_state(state)

    def reveal_difference(self) -> None:
        """Scrolls both texts to the token that differs."""
        for pane in self.panes:
            pane.reveal_mark()

    def set_pace(self, pace: float) -> None:
        """Says that what is shown goes so many times as fast as it was."""
        self._pace = pace
        self.about.setText(self._about())

    def changeEvent(self, event: QEvent) -> None:
        """Documents carry their colours in their formats: a new appearance writes them again."""
        super().changeEvent(event)
        if event.type() == QEvent.Type.StyleChange:
            for pane in self.panes:
                pane.renew()
            self.show_time(self._state.time_s)

    def _about(self) -> str:
        measured = f"{race_text.MEASURED[0].upper()}{race_text.MEASURED[1:]}{race_text.paced(self._pace)}"
        found = race_text.verdict(self.replay.document).text
        return f"{measured}. {found[0].upper()}{found[1:]}."

    def _lay_out(self) -> None:
        sides = QHBoxLayout()
        sides.setSpacing(0)
        sides.addWidget(self.panes[0], 1)
        sides.addWidget(self.comparison)
        sides.addWidget(self.panes[1], 1)
        about = QHBoxLayout()
        about.setSpacing(2 * GAP)
        about.addWidget(self.about, 1)
        about.addWidget(self.legend)
        column = QVBoxLayout(self)
        column.setContentsMargins(MARGIN, MARGIN - 4, MARGIN, MARGIN - 6)
        column.setSpacing(GAP + 2)
        column.addWidget(self.prompt)
        column.addLayout(sides, 1)
        column.addLayout(about)
        column.addWidget(self.made_with)
