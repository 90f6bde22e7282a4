"""The top of the inspector: whether and how replies are drafted, and the numbers of the reply."""

from PySide6.QtCore import QPoint, Qt
from PySide6.QtGui import QFocusEvent, QFontMetrics, QPainter, QPaintEvent
from PySide6.QtWidgets import QGridLayout, QToolTip, QWidget

from app.protocol import Loaded
from app.store.records import Statistics
from app.window.common import theme
from app.window.common.appearance import GAP
from app.window.common.layouts import column, row
from app.window.common.paint_helpers import draw_focus_ring, focused_by_keyboard
from app.window.common.sentence import without_backticks
from app.window.common.widgets import label, style, wrapped

COLUMNS = 3
NONE = "-"
NUMBERS = {  # each with its definition
    "tokens": "Tokens of the reply so far: accepted, corrected and bonus tokens together",
    "passes": "Verify passes of the target, one per round; plain decoding needs one for every token",
    "tau, tokens/pass": "Mean acceptance length, tau = tokens emitted / verify passes; the bonus or correction counts",
    "accepted": "Acceptance rate = accepted / drafted tokens (nodes of a tree)",
    "tokens/s": "Decode speed = (n - 1) / (time of the last token - time of the first)",
    "first token": "TTFT: seconds from the request to the first token",
}


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


class FocusRing(QWidget):
    """A widget that has no focus frame of its own: a ring is drawn around it while a key has moved the focus to it."""

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._ringed = False

    def focusInEvent(self, event: QFocusEvent) -> None:
        super().focusInEvent(event)
        self._ringed = focused_by_keyboard(event)

    def focusOutEvent(self, event: QFocusEvent) -> None:
        super().focusOutEvent(event)
        self._ringed = False

    def paintEvent(self, event: QPaintEvent) -> None:
        if self._ringed:
            painter = QPainter(self)
            draw_focus_ring(painter, self, theme.current().accent)
            painter.end()


class NumberTile(FocusRing):
    """A number over its name. definition: its tooltip, which the keyboard shows too."""

    def __init__(self, name: str, definition: str = "", parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._name, self.value = name, label(role="header")
        made = column(self.value, label(name, "caption"), on=self)
        if definition:
            made.setContentsMargins(4, 2, 2, 3)
            self.setFocusPolicy(Qt.FocusPolicy.TabFocus)
            self.setToolTip(definition)
            self.setAccessibleDescription(definition)

    def set_value(self, value: str) -> None:
        """Shows a value."""
        if value != self.value.text():
            self.value.setText(value)
            style(self.value, tone="faint" if value == NONE else "text")
            self.setAccessibleName(f"{self._name}: {'unknown' if value == NONE else value}")

    def keep_room_for(self, value: str) -> None:
        """Makes the tile wide enough for a value."""
        self.value.ensurePolished()
        self.value.setMinimumWidth(QFontMetrics(self.value.font()).horizontalAdvance(value))

    def focusInEvent(self, event: QFocusEvent) -> None:
        super().focusInEvent(event)
        if self._ringed:
            QToolTip.showText(self.mapToGlobal(QPoint(0, self.height())), self.toolTip(), self)


class ReplySummary(QWidget):
    """The state of speculation over the numbers of the reply."""

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._dot, self._state = label(role="caption"), label(role="heading")
        self._how, self._reason = wrapped(role="caption"), wrapped(role="caption")
        self._note = wrapped(role="caption", tone="warning")
        self.tiles = [NumberTile(name, definition, self) for name, definition in NUMBERS.items()]
        texts = (self._how, self._reason, self._note)
        for text in texts:
            text.setTextInteractionFlags(Qt.TextInteractionFlag.TextSelectableByMouse)
        grid = QGridLayout()
        grid.setContentsMargins(-4, GAP // 2, 0, 0)
        grid.setSpacing(0)
        for i, tile in enumerate(self.tiles):
            grid.addWidget(tile, i // COLUMNS, i % COLUMNS)
            grid.setColumnStretch(i % COLUMNS, 1)
        heading = row(self._dot, (self._state, 1), gap=GAP // 2)
        column(heading, *texts, grid, on=self, margins=(GAP, GAP, GAP, GAP // 2), gap=2)
        self.set_note("")
        self.set_loaded(None)
        self.set_statistics(None)

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
        """Shows the numbers of a reply; dashes for None."""
        for tile, figure in zip(self.tiles, figures(statistics), strict=True):
            tile.set_value(figure)

    def set_note(self, note: str) -> None:
        """Shows what the user should know of this reply, or nothing."""
        self._note.setText(note)
        self._note.setVisible(bool(note))


def describe(loaded: Loaded | None) -> tuple[str, str, str]:
    """Returns the state, how replies are drafted, and what else there is to know."""
    if loaded is None:
        return "no model loaded", "", ""
    how = f"{loaded.target} decodes alone, one token per pass"
    if loaded.speculation == "on":
        how = f"{loaded.drafter} drafts {'trees' if loaded.drafts_trees else 'chains'} for {loaded.target}"
    return loaded.speculation, how, without_backticks(loaded.note)


def _text(value: float | None, form: str) -> str:
    return NONE if value is None else form.format(value)
