"""The top of the inspector: whether and how replies are drafted, and the numbers of the reply."""

from __future__ import annotations

from typing import NamedTuple

from PySide6.QtCore import QEvent, QPoint, Qt
from PySide6.QtGui import QColor, QFocusEvent, QFont, QPainter, QPaintEvent
from PySide6.QtWidgets import QGridLayout, QHBoxLayout, QToolTip, QVBoxLayout, QWidget

from app.protocol import Loaded
from app.store.records import Statistics
from app.window.common import theme
from app.window.common.appearance import GAP
from app.window.common.paint_helpers import draw_focus_ring, focused_by_keyboard
from app.window.common.widgets import label, style, wrapped

COLUMNS = 3
NONE = "-"


class Number(NamedTuple):
    """A number of a reply, in the words of the field."""

    name: str
    definition: str


NUMBERS = (
    Number("tokens", "Tokens of the reply so far: accepted, corrected and bonus tokens together"),
    Number("passes", "Verify passes of the target, one per round; plain decoding needs one for every token"),
    Number(
        "tau, tokens/pass",
        "Mean acceptance length, tau = tokens emitted / verify passes; the bonus or correction counts",
    ),
    Number("accepted", "Acceptance rate = accepted / drafted tokens (nodes of a tree)"),
    Number("tokens/s", "Decode speed = (n - 1) / (time of the last token - time of the first)"),
    Number("first token", "TTFT: seconds from the request to the first token"),
)


def figures(statistics: Statistics | None) -> tuple[str, ...]:
    """Returns the NUMBERS as they are shown."""
    if statistics is None or not statistics.rounds:
        return (NONE,) * len(NUMBERS)
    s = statistics
    return (
        f"{s.tokens:,}",
        f"{s.rounds:,}",
        _text(s.mean_acceptance_length, "{:.2f}"),
        _text(s.acceptance_rate, "{:.1%}"),
        _text(s.tokens_per_s, "{:,.1f}"),
        _text(s.ttft_s, "{:.2f} s"),
    )


class NumberTile(QWidget):
    """A number over its name. Its definition is its tooltip, which the keyboard shows too."""

    def __init__(self, number: Number, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._number, self._figure = number, NONE
        self._ringed = False
        self.setFocusPolicy(Qt.FocusPolicy.TabFocus)
        self.setToolTip(number.definition)
        self.setAccessibleDescription(number.definition)
        self.set_figure(NONE)
        self._fit()

    @property
    def figure(self) -> str:
        return self._figure

    def set_figure(self, figure: str) -> None:
        self._figure = figure
        self.setAccessibleName(f"{self._number.name}: {'unknown' if figure == NONE else figure}")
        self.update()

    def changeEvent(self, event: QEvent) -> None:
        super().changeEvent(event)
        if event.type() == QEvent.Type.StyleChange:
            self._fit()

    def _fit(self) -> None:
        look = theme.current()
        self.setFixedHeight(look.px(16) + look.px(11) + 16)

    def paintEvent(self, event: QPaintEvent) -> None:
        look, painter = theme.current(), QPainter(self)
        box = self.rect().adjusted(4, 3, -2, -3)
        painter.setFont(look.font(16, QFont.Weight.DemiBold))
        painter.setPen(QColor(look.faint if self._figure == NONE else look.text))
        painter.drawText(box, Qt.AlignmentFlag.AlignLeft | Qt.AlignmentFlag.AlignTop, self._figure)
        painter.setFont(look.font(11))
        painter.setPen(QColor(look.faint))
        painter.drawText(box, Qt.AlignmentFlag.AlignLeft | Qt.AlignmentFlag.AlignBottom, self._number.name)
        if self._ringed:
            draw_focus_ring(painter, self, look.accent)

    def focusInEvent(self, event: QFocusEvent) -> None:
        super().focusInEvent(event)
        self._ringed = focused_by_keyboard(event)
        if self._ringed:
            QToolTip.showText(self.mapToGlobal(QPoint(0, self.height())), self.toolTip(), self)

    def focusOutEvent(self, event: QFocusEvent) -> None:
        super().focusOutEvent(event)
        self._ringed = False


class ReplySummary(QWidget):
    """The state of speculation over the numbers of the reply."""

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._dot, self._state = label(role="caption"), label(role="heading")
        self._how, self._reason = wrapped(role="caption"), wrapped(role="caption")
        self._note = wrapped(role="caption", tone="warning")
        self.tiles = [NumberTile(number, self) for number in NUMBERS]
        column = QVBoxLayout(self)
        column.setContentsMargins(GAP, GAP, GAP, GAP // 2)
        column.setSpacing(2)
        heading = QHBoxLayout()
        heading.setSpacing(GAP // 2)
        heading.addWidget(self._dot)
        heading.addWidget(self._state, 1)
        column.addLayout(heading)
        for text in (self._how, self._reason, self._note):
            text.setTextInteractionFlags(Qt.TextInteractionFlag.TextSelectableByMouse)
            column.addWidget(text)
        grid = QGridLayout()
        grid.setContentsMargins(-4, GAP // 2, 0, 0)
        grid.setSpacing(0)
        for i, tile in enumerate(self.tiles):
            grid.addWidget(tile, i // COLUMNS, i % COLUMNS)
            grid.setColumnStretch(i % COLUMNS, 1)
        column.addLayout(grid)
        self.set_note("")
        self.set_loaded(None)

    def set_loaded(self, loaded: Loaded | None) -> None:
        """Shows the loaded pair; None while there is none."""
        state, how, reason = describe(loaded)
        self._state.setText(f"Speculation: {state}")
        self._state.setAccessibleName(f"Speculation: {state}. {how} {reason}".strip())
        on = loaded is not None and loaded.speculation == "on"
        self._dot.setText("●" if on else "○")
        style(self._dot, tone="good" if on else "faint")
        for shown, text in ((self._how, how), (self._reason, reason)):
            shown.setText(text)
            shown.setVisible(bool(text))

    def set_statistics(self, statistics: Statistics | None) -> None:
        for tile, figure in zip(self.tiles, figures(statistics), strict=True):
            if figure != tile.figure:
                tile.set_figure(figure)

    def set_note(self, note: str) -> None:
        """Shows what the user should know of this reply, or nothing."""
        self._note.setText(note)
        self._note.setVisible(bool(note))


def describe(loaded: Loaded | None) -> tuple[str, str, str]:
    """Returns the state, how replies are drafted, and what else there is to know."""
    if loaded is None:
        return "no model loaded", "", ""
    if loaded.speculation == "on":
        kind = "trees" if loaded.drafts_trees else "chains"
        return "on", f"{loaded.drafter} drafts {kind} for {loaded.target}", loaded.note
    how = f"{loaded.target} decodes alone, one token per pass"
    return loaded.speculation, how, loaded.note


def _text(value: float | None, form: str) -> str:
    return NONE if value is None else form.format(value)
