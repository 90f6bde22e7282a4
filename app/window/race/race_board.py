"""A race at one moment of its replay: the prompt, both sides, and the comparison between them."""

from PySide6.QtCore import QEvent, Qt, QUrl, Signal
from PySide6.QtWidgets import QLabel, QWidget

from app.race import race_text
from app.race.race_document import RaceDocument, Spread
from app.race.race_replay import Replay, State
from app.window.common import theme
from app.window.common.appearance import GAP
from app.window.common.layouts import STRETCH, column, row
from app.window.common.widgets import ElidedLabel, Glyph, Hairline, fit_width, label, scroll_area, style, wrapped
from app.window.inspector import Legend
from app.window.markdown.text_blocks import visible
from app.window.race.side_pane import SidePane

COMPARISON_WIDTH = 184  # px
SPEEDUP = "wall-clock speed-up"  # the widest text of the comparison
MARGIN = 20  # px


class Comparison(QWidget):
    """What stands between the sides: what the texts have in common so far, and at the end of the replay who was faster,
    by how much, and how far the runs agree."""

    def __init__(self, replay: Replay, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        fit_width(self, COMPARISON_WIDTH, (SPEEDUP,))
        self._replay = replay
        found = replay.results
        self.icon, self.same = Glyph("check", "good", 22), label("0", "figure")
        self._column = column((STRETCH, 3), on=self, margins=(GAP, 0, GAP, 0))
        self.winner = self._add(visible(race_text.winner(replay.document)), "heading")
        self._column.addSpacing(GAP)
        roles = ("figure", "large-figure") if replay.document.has_server else ("large-figure", "figure")
        self.total = self._add_figure(found.total, SPEEDUP, roles[0])
        self._column.addSpacing(2 * GAP)
        self.decode = self._add_figure(found.decode, "decode speed-up", roles[1])
        self._column.addSpacing(GAP + 4)
        self._add(race_text.shown_pair(replay.document).replace(", ", "\n"), "caption")
        self._column.addSpacing(GAP)
        self.noise = self._add(race_text.noise(replay.document), "caption")
        style(self.noise, tone="warning")
        self._result = [widget for widget in self.findChildren(QLabel) if widget is not self.same]
        self._column.addSpacing(2 * GAP)
        self._column.addWidget(Hairline())
        self._column.addSpacing(2 * GAP)
        self._column.addLayout(row(STRETCH, self.icon, self.same, STRETCH, gap=GAP // 2))
        self.below = self._add("", "detail")
        self._column.addStretch(4)

    def show_state(self, state: State) -> None:
        """Shows what both texts have in common by then, and the result once both have ended."""
        for widget in self._result:
            widget.setVisible(state.done and bool(widget.text()))
        same, below = str(state.identical), race_text.sameness(self._replay, state)
        if (self.same.text(), self.below.text()) == (same, below):
            return
        differs = state.differs_at is not None
        self.same.setText(same)
        self.below.setText(below)
        self.setAccessibleName(f"{same} {below}")
        tone = race_text.mark_tone(self._replay.receipt) if differs else "good"
        style(self.same, tone=tone)
        style(self.below, tone="text" if differs else "faint")
        self.icon.show_shape("warning" if differs else "check", tone)

    def _add_figure(self, found: Spread | None, what: str, role: str) -> QLabel:
        """Adds a speed-up of the pair that is shown, what it is of, and its spread over all pairs."""
        value, pairs = found and found.shown, self._replay.results.pairs
        figure = self._add(race_text.speedup(value), role)
        style(figure, tone=race_text.speedup_tone(value))
        self._add(what, "detail")
        if found is not None and pairs > 1:
            self._add(f"{race_text.spread(found)} in {pairs} pairs", "caption")
        return figure

    def _add(self, text: str, role: str) -> QLabel:
        made = wrapped(text, role=role)
        made.setAlignment(Qt.AlignmentFlag.AlignHCenter)
        self._column.addWidget(made)
        return made


class RaceBoard(QWidget):
    """Shows a race at any time, in any order. signed: whether it says what drew it, as a picture does.
    link_clicked(QUrl): a link in one of the texts was clicked."""

    link_clicked = Signal(QUrl)

    def __init__(self, document: RaceDocument, parent: QWidget | None = None, signed: bool = False) -> None:
        super().__init__(parent)
        style(self, ground="page")
        self.replay = Replay(document)
        greedy = document.sampling.temperature == 0
        self.prompt = ElidedLabel(f"“{' '.join(visible(document.prompt).split())}”", role="header")
        names = race_text.names(document.sides)
        self.panes = [
            SidePane(visible(name), visible(race_text.details(one, greedy)), track.run)
            for name, one, track in zip(names, document.sides, self.replay.tracks, strict=True)
        ]
        self.comparison, self._legend = Comparison(self.replay), Legend(refused=False)
        self.about = wrapped(race_text.about(document, 1.0), role="detail")
        self._made_with = ElidedLabel(visible(race_text.made_with(document)), role="detail")
        self._signature = label("Redline" if signed else "", "heading", "faint")
        self._lay_out()
        for pane in self.panes:
            pane.link_clicked.connect(self.link_clicked)
        self.show_time(0.0)

    def show_time(self, time_s: float) -> None:
        """Shows this moment of the replay."""
        self.state = state = self.replay.at(time_s)
        colour = theme.current().colour(race_text.mark_tone(self.replay.receipt))
        for pane, pane_state in zip(self.panes, state.panes, strict=True):
            pane.show_state(pane_state, state.differs_at, colour)
        self.comparison.show_state(state)

    def reveal_difference(self) -> None:
        """Scrolls both texts to the token that differs."""
        for pane in self.panes:
            pane.reveal_mark()

    def set_pace(self, pace: float) -> None:
        """States the pace of the replay, in times the real one."""
        self.about.setText(race_text.about(self.replay.document, pace))

    def hidden_px(self) -> int:
        """Returns by how much the board would have to be higher to show all of it without scrolling."""
        return self._area.verticalScrollBar().maximum() + max(
            pane.reader.verticalScrollBar().maximum() for pane in self.panes
        )

    def changeEvent(self, event: QEvent) -> None:
        """Writes the texts again in a new appearance: documents carry their colours in their formats."""
        super().changeEvent(event)
        if event.type() == QEvent.Type.StyleChange:
            self.show_time(self.state.time_s)

    def _lay_out(self) -> None:
        sides = row((self.panes[0], 1), self.comparison, (self.panes[1], 1))
        about = row((self.about, 1), self._legend, gap=2 * GAP)
        inside, margins = QWidget(), (MARGIN, MARGIN - 4, MARGIN, MARGIN - 6)
        foot = row((self._made_with, 1), self._signature, gap=2 * GAP)
        drafts = (one.side.server is None and not one.side.plain for one in self.replay.document.sides)
        self._legend.setVisible(any(drafts))
        column(self.prompt, (sides, 1), about, foot, on=inside, margins=margins, gap=GAP + 2)
        self._area = scroll_area(inside)  # large text may leave no room for all of it
        self._area.setHorizontalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAsNeeded)
        column(self._area, on=self)
