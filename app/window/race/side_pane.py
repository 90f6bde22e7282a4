"""One side of a race at a time: its name, its progress, its numbers, its text."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import zip_longest

from PySide6.QtCore import QSize, Qt, QUrl, Signal
from PySide6.QtGui import QColor, QFontMetrics, QResizeEvent, QTextCharFormat, QTextCursor, QTextDocument
from PySide6.QtWidgets import QFrame, QGridLayout, QHBoxLayout, QTextEdit, QVBoxLayout, QWidget

from app.palette import mix
from app.protocol.race_messages import Run
from app.race import race_text
from app.race.race_replay import PaneState
from app.window.common import theme
from app.window.common.appearance import GAP
from app.window.common.widgets import ElidedLabel, ProgressBar, label, style
from app.window.markdown import GrowingDocument, Reader, Span, token_runs
from app.window.transcript.reply_tokens import ReplyTokens
from app.window.transcript.text_page import document_font

NUMBERS = ("tokens", "decode tok/s", "TTFT", "target passes", "tokens/pass")
APART = 14  # px, between two numbers
INSET = 14  # px, around what is in a pane
MARKED = 0.45  # share of the mark's colour in the ground of the token that differs


class RevealedText:
    """The text of a run in a document, of which any number of tokens is shown. Going forward costs only what is new."""

    def __init__(self, run: Run, document: QTextDocument) -> None:
        reply_tokens = ReplyTokens(run.rounds)
        self._text, self._spans = reply_tokens.text, reply_tokens.spans
        self._tail = run.finished.text
        self._document = document
        self._growing: GrowingDocument | None = None
        self._shown = -1

    @property
    def text(self) -> str:
        """All of the text."""
        return self._text + self._tail

    def show(self, tokens: int) -> bool:
        """Shows the first `tokens`, and behind the last what was held back. Returns whether anything changed."""
        tokens = min(tokens, len(self._spans))
        if tokens == self._shown:
            return False
        if self._growing is None or tokens < self._shown:
            look = theme.current()
            self._document.clear()
            self._document.setDefaultFont(document_font(look))
            self._growing = GrowingDocument(self._document, look, tinted=True)
        self._growing.grow(*self._first(tokens))
        self._shown = tokens
        return True

    def renew(self) -> None:
        """Writes the document again, in the appearance that is shown now."""
        shown, self._growing, self._shown = self._shown, None, -1
        if shown >= 0:
            self.show(shown)

    def mark(self, token: int | None, colour: str) -> list[tuple[QTextCursor, QTextCharFormat]]:
        """Returns where a token stands and how it is marked, for the selections of a reader."""
        found, look = [], theme.current()
        for number, start, end in token_runs(self._document) if token is not None else ():
            if number == token:
                cursor, shape = QTextCursor(self._document), QTextCharFormat()
                cursor.setPosition(start)
                cursor.setPosition(end, QTextCursor.MoveMode.KeepAnchor)
                shape.setBackground(QColor(mix(look.background, colour, MARKED)))
                shape.setForeground(QColor(look.text))
                found.append((cursor, shape))
        return found

    def _first(self, tokens: int) -> tuple[str, list[Span]]:
        spans = self._spans[:tokens]
        if tokens == len(self._spans):
            return self.text, spans
        return self._text[: spans[-1].end if spans else 0], spans


class NumberTiles(QWidget):
    """Numbers over their names, side by side; in two rows where there is no room. widest: for each number a value as
    long as any that will be shown."""

    def __init__(self, names: Sequence[str], widest: Sequence[str], parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._names = [label(name, "caption") for name in names]
        self.values = [label(role="header") for _ in names]
        self._grid = QGridLayout(self)
        self._grid.setContentsMargins(0, 0, 0, 0)
        self._grid.setHorizontalSpacing(APART)
        self._grid.setVerticalSpacing(0)
        self._widest, self._columns = widest, 0
        self._arrange(len(names))

    def minimumSizeHint(self) -> QSize:
        """As wide as half of the numbers."""
        return QSize(self._width(self._half()), super().minimumSizeHint().height())

    def resizeEvent(self, event: QResizeEvent) -> None:
        super().resizeEvent(event)
        every = len(self.values)
        self._arrange(every if self.width() >= self._width(every) else self._half())

    def show_values(self, values: Sequence[str]) -> None:
        """Shows the values, in the order of the names."""
        for shown, name, value in zip(self.values, self._names, values, strict=True):
            if shown.text() != value:
                shown.setText(value)
                shown.setAccessibleName(f"{name.text()}: {value}")

    def _half(self) -> int:
        return (len(self.values) + 1) // 2

    def _width(self, columns: int) -> int:
        """Returns the width that so many columns need, px."""
        metrics = QFontMetrics(self.values[0].font())
        widths = [
            max(name.sizeHint().width(), metrics.horizontalAdvance(value))
            for name, value in zip(self._names, self._widest, strict=True)
        ]
        rows = [widths[start : start + columns] for start in range(0, len(widths), columns)]
        return sum(map(max, zip_longest(*rows, fillvalue=0))) + APART * (columns - 1)

    def _arrange(self, columns: int) -> None:
        if columns == self._columns:
            return
        for number, (name, value) in enumerate(zip(self._names, self.values, strict=True)):
            row, column = divmod(number, columns)
            self._grid.addWidget(value, 3 * row, column)
            self._grid.addWidget(name, 3 * row + 1, column)
        for column in range(len(self.values)):
            self._grid.setColumnStretch(column, 1 if column < columns else 0)
        self._grid.setRowMinimumHeight(2, 4 if columns < len(self.values) else 0)
        self._columns = columns


class SidePane(QFrame):
    """name, detail: of the side, to show. link_clicked(QUrl): a link in the text was clicked."""

    link_clicked = Signal(QUrl)

    def __init__(self, name: str, detail: str, run: Run, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        style(self, kind="pane")
        self.setAccessibleName(name)
        self.name, self._clock = label(name, "header"), label(role="header")
        self._detail = ElidedLabel(detail, role="detail")
        self.bar, self.reader = ProgressBar(f"Progress of {name}"), Reader()
        self.numbers = NumberTiles(NUMBERS, _longest(run))
        self.reader.setFrameShape(QFrame.Shape.NoFrame)
        self.reader.setHorizontalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)
        self.reader.setAccessibleName(f"Text of {name}")
        self.reader.document().setDocumentMargin(0)
        self.reader.link_clicked.connect(self.link_clicked)
        style(self.reader, ground="clear")
        self.script = RevealedText(run, self.reader.document())
        self._marked: int | None = None
        self._mark = ""
        self._state: PaneState | None = None
        self._lay_out()

    def show_state(self, state: PaneState, marked: int | None, mark: str) -> None:
        """marked: the token that differs, shown in the colour `mark`; None for none."""
        changed = self.script.show(state.tokens)
        if changed or (marked, mark) != (self._marked, self._mark):
            self._marked, self._mark = marked, mark
            self._select()
        if changed:
            bar = self.reader.verticalScrollBar()
            bar.setValue(bar.maximum())
        if state != self._state:
            self._state = state
            self._show_numbers(state)

    def reveal_mark(self) -> None:
        """Scrolls to the token that differs."""
        for cursor, _ in self.script.mark(self._marked, self._mark)[:1]:
            cursor.clearSelection()
            self.reader.setTextCursor(cursor)
            self.reader.ensureCursorVisible()

    def renew(self) -> None:
        """Writes the text again, in the appearance that is shown now."""
        self.script.renew()
        self._select()

    def _lay_out(self) -> None:
        column = QVBoxLayout(self)
        column.setContentsMargins(INSET, INSET - 2, INSET, INSET)
        column.setSpacing(GAP)
        head = QHBoxLayout()
        head.addWidget(self.name)
        head.addStretch(1)
        head.addWidget(self._clock)
        column.addLayout(head)
        for widget in (self._detail, self.bar, self.numbers):
            column.addWidget(widget)
        column.addSpacing(GAP // 2)
        column.addWidget(self.reader, 1)

    def _show_numbers(self, state: PaneState) -> None:
        self.bar.show_share(state.share, state.done)
        self._clock.setText(f"{state.clock_s:.1f} s")
        style(self._clock, tone="good" if state.done else "text")
        self.numbers.show_values(race_text.numbers(state))

    def _select(self) -> None:
        selections = []
        for cursor, shape in self.script.mark(self._marked, self._mark):
            selection = QTextEdit.ExtraSelection()
            selection.cursor, selection.format = cursor, shape  # type: ignore[attr-defined]  # unknown to the stubs
            selections.append(selection)
        self.reader.setExtraSelections(selections)


def _longest(run: Run) -> tuple[str, ...]:
    """Returns values as long as any of this run."""
    tokens, rounds = sum(len(one.round.tokens) for one in run.rounds), len(run.rounds)
    return f"{tokens} / {tokens}", "888.8", "88.88 s", str(rounds), "8.88"
