"""The top of the inspector: whether and how drafts are made, and the numbers of the reply, each with its definition."""

from __future__ import annotations

from typing import NamedTuple

from PySide6.QtCore import QPoint, Qt
from PySide6.QtGui import QColor, QFocusEvent, QFont, QPainter, QPaintEvent
from PySide6.QtWidgets import QGridLayout, QHBoxLayout, QLabel, QToolTip, QVBoxLayout, QWidget

from app.protocol import Loaded
from app.records import Statistics
from app.window.fonts import font
from app.window.inspector.focus import by_keyboard, draw_ring
from app.window.look import GAP, Look

COLUMNS = 3
NONE = "-"


class Number(NamedTuple):
    """name: over the figure. definition: with the words of DESIGN.md."""

    name: str
    definition: str


NUMBERS = (
    Number("tokens", "Tokens of the reply so far: accepted, corrected and bonus together"),
    Number("passes", "Verify passes of the target, one a round; plain decoding needs one for every token"),
    Number(
        "tau, tokens/pass",
        "Mean acceptance length, tau = tokens emitted / verify passes; the bonus or correction counts",
    ),
    Number("accepted", "Acceptance rate = accepted / drafted tokens (nodes of a tree)"),
    Number("tokens/s", "Decode speed = (n - 1) / (time of the last token - time of the first)"),
    Number("first token", "TTFT: seconds from the request to the first token"),
)


def figures(statistics: Statistics | None) -> tuple[str, ...]:
    """The NUMBERS as they are shown."""
    if statistics is None or not statistics.rounds:
        return (NONE,) * len(NUMBERS)
    s = statistics
    return (
        f"{s.tokens:,}",
        f"{s.rounds:,}",
        _said(s.mean_acceptance_length, "{:.2f}"),
        _said(s.acceptance_rate, "{:.1%}"),
        _said(s.tokens_per_s, "{:,.1f}"),
        _said(s.ttft_s, "{:.2f} s"),
    )


class Tile(QWidget):
    """A figure over its name. Its definition is its tip, which the keyboard shows too."""

    def __init__(self, number: Number, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._number, self._figure = number, NONE
        self._ringed = False
        self.setFocusPolicy(Qt.FocusPolicy.TabFocus)
        self.setToolTip(number.definition)
        self.setAccessibleDescription(number.definition)
        self.set_figure(NONE)

    @property
    def figure(self) -> str:
        return self._figure

    def set_figure(self, figure: str) -> None:
        self._figure = figure
        self.setAccessibleName(f"{self._number.name}: {'unknown' if figure == NONE else figure}")
        self.update()

    def set_look(self, look: Look) -> None:
        self._figure_font = font(look, 16, QFont.Weight.DemiBold)
        self._name_font = font(look, 11)
        self._text, self._faint, self._accent = QColor(look.text), QColor(look.faint), look.accent
        self.setFixedHeight(look.px(16) + look.px(11) + 16)
        self.update()

    def paintEvent(self, event: QPaintEvent) -> None:
        painter = QPainter(self)
        box = self.rect().adjusted(4, 3, -2, -3)
        painter.setFont(self._figure_font)
        painter.setPen(self._faint if self._figure == NONE else self._text)
        painter.drawText(box, Qt.AlignmentFlag.AlignLeft | Qt.AlignmentFlag.AlignTop, self._figure)
        painter.setFont(self._name_font)
        painter.setPen(self._faint)
        painter.drawText(box, Qt.AlignmentFlag.AlignLeft | Qt.AlignmentFlag.AlignBottom, self._number.name)
        if self._ringed:
            draw_ring(painter, self, self._accent)

    def focusInEvent(self, event: QFocusEvent) -> None:
        super().focusInEvent(event)
        self._ringed = by_keyboard(event)
        if self._ringed:
            QToolTip.showText(self.mapToGlobal(QPoint(0, self.height())), self.toolTip(), self)

    def focusOutEvent(self, event: QFocusEvent) -> None:
        super().focusOutEvent(event)
        self._ringed = False


class Summary(QWidget):
    """State of speculation over the numbers of the reply."""

    def __init__(self, look: Look, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._loaded: Loaded | None = None
        self._dot, self._state = QLabel(self), QLabel(self)
        self._how, self._said, self._note = QLabel(self), QLabel(self), QLabel(self)
        self.tiles = [Tile(number, self) for number in NUMBERS]
        column = QVBoxLayout(self)
        column.setContentsMargins(GAP, GAP, GAP, GAP // 2)
        column.setSpacing(2)
        heading = QHBoxLayout()
        heading.setSpacing(GAP // 2)
        heading.addWidget(self._dot)
        heading.addWidget(self._state, 1)
        column.addLayout(heading)
        for label in (self._how, self._said, self._note):
            label.setWordWrap(True)
            label.setTextFormat(Qt.TextFormat.PlainText)
            label.setTextInteractionFlags(Qt.TextInteractionFlag.TextSelectableByMouse)
            column.addWidget(label)
        grid = QGridLayout()
        grid.setContentsMargins(-4, GAP // 2, 0, 0)
        grid.setSpacing(0)
        for i, tile in enumerate(self.tiles):
            grid.addWidget(tile, i // COLUMNS, i % COLUMNS)
            grid.setColumnStretch(i % COLUMNS, 1)
        column.addLayout(grid)
        self.set_note("")
        self.set_look(look)

    def set_look(self, look: Look) -> None:
        self._look = look
        small = f"font-size: {look.px(11)}px;"
        self._state.setStyleSheet(f"color: {look.text}; font-size: {look.px(13)}px; font-weight: 600;")
        self._how.setStyleSheet(f"color: {look.faint}; {small}")
        self._said.setStyleSheet(f"color: {look.faint}; {small}")
        self._note.setStyleSheet(f"color: {look.warning}; {small}")
        for tile in self.tiles:
            tile.set_look(look)
        self.set_loaded(self._loaded)

    def set_loaded(self, loaded: Loaded | None) -> None:
        """What is loaded; None while nothing is."""
        self._loaded = loaded
        state, how, said = describe(loaded)
        self._state.setText(f"Speculation: {state}")
        self._state.setAccessibleName(f"Speculation: {state}. {how} {said}".strip())
        on = loaded is not None and loaded.speculation == "on"
        colour = self._look.good if on else self._look.faint
        self._dot.setText("●" if on else "○")
        self._dot.setStyleSheet(f"color: {colour}; font-size: {self._look.px(11)}px;")
        for label, text in ((self._how, how), (self._said, said)):
            label.setText(text)
            label.setVisible(bool(text))

    def set_statistics(self, statistics: Statistics | None) -> None:
        for tile, figure in zip(self.tiles, figures(statistics), strict=True):
            if figure != tile.figure:
                tile.set_figure(figure)

    def set_note(self, note: str) -> None:
        """What the user should know of this reply, or ""."""
        self._note.setText(note)
        self._note.setVisible(bool(note))


def describe(loaded: Loaded | None) -> tuple[str, str, str]:
    """(state, how drafts are made, what else there is to know)."""
    if loaded is None:
        return "nothing loaded", "", ""
    if loaded.speculation == "on":
        kind = "trees" if loaded.branches else "chains"
        return "on", f"{loaded.drafter} drafts {kind} for {loaded.target}", loaded.said
    how = f"{loaded.target} decodes alone, one token a pass"
    return loaded.speculation, how, loaded.said


def _said(value: float | None, form: str) -> str:
    return NONE if value is None else form.format(value)
