"""What stands between the sides: the speed-up, how it spreads over the runs, and what the texts have in common."""

from __future__ import annotations

from PySide6.QtCore import Qt
from PySide6.QtWidgets import QHBoxLayout, QLabel, QVBoxLayout, QWidget

from app.race import race_text
from app.race.race_replay import Replay, State
from app.race.race_results import Spread
from app.window.common import theme
from app.window.common.appearance import GAP
from app.window.common.widgets import Glyph, Hairline, label, style, wrapped
from app.window.race.replay_controls import MarkKind

WIDTH = 184
AS_FAST = 0.995  # a speed-up that is shown as 1.00 is no loss


class Comparison(QWidget):
    """The comparison of one race."""

    def __init__(self, replay: Replay, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.setFixedWidth(WIDTH)
        self._replay = replay
        found = replay.results
        self._column = QVBoxLayout(self)
        self._column.setContentsMargins(GAP, 0, GAP, 0)
        self._column.setSpacing(0)
        self._column.addStretch(3)
        self.total = self._add_figure(found.total, "wall-clock speed-up", "large-figure")
        self._column.addSpacing(2 * GAP)
        self.decode = self._add_figure(found.decode, "decode speed-up", "figure")
        self._column.addSpacing(GAP + 4)
        self._add(race_text.medians_of(found.pairs).replace(", ", "\n"), "caption")
        self._column.addSpacing(2 * GAP)
        self._column.addWidget(Hairline())
        self._column.addSpacing(2 * GAP)
        self.icon, self.same = Glyph("check", "good", 22), label("0", "figure")
        row = QHBoxLayout()
        row.setSpacing(GAP // 2)
        row.addStretch(1)
        row.addWidget(self.icon)
        row.addWidget(self.same)
        row.addStretch(1)
        self._column.addLayout(row)
        self.below = self._add("", "detail")
        self._column.addStretch(4)

    def show_state(self, state: State) -> None:
        """Shows what both sides have shown by then."""
        same, below = str(state.identical), race_text.sameness(self._replay, state)
        if (self.same.text(), self.below.text()) == (same, below):
            return
        differs = state.parted is not None
        self.same.setText(same)
        self.below.setText(below)
        self.setAccessibleName(f"{same} {below}")
        tone = mark_kind(self._replay) if differs else "good"
        style(self.same, tone=tone)
        style(self.below, tone="text" if differs else "faint")
        self.icon.show_shape("warning" if differs else "check", tone)

    def _add_figure(self, found: Spread | None, what: str, role: str) -> QLabel:
        """Adds a speed-up, what it is of, and its spread."""
        slower = found is not None and found.median < AS_FAST
        figure = self._add(race_text.speedup(found.median if found else None), role)
        style(figure, tone="warning" if slower else "good")
        self._add(what, "detail")
        if found is not None and self._replay.results.pairs > 1:
            self._add(race_text.spread(found), "caption")
        return figure

    def _add(self, text: str, role: str) -> QLabel:
        made = wrapped(text, role=role)
        made.setAlignment(Qt.AlignmentFlag.AlignHCenter)
        self._column.addWidget(made)
        return made


def mark_kind(replay: Replay) -> MarkKind:
    """Returns the tone of a difference: an error where a promise was broken."""
    if not replay.receipt.promised:
        return "accent"
    return "error" if replay.receipt.failed else "warning"


def mark_colour(replay: Replay) -> str:
    """Returns the colour of a token that differs."""
    return theme.current().colour(mark_kind(replay))
