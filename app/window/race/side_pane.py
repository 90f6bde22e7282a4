"""One side of a race at one moment of its replay: its name, its progress, its numbers, its text."""

from collections.abc import Sequence

from PySide6.QtCore import Qt, QUrl, Signal
from PySide6.QtGui import QColor, QResizeEvent, QTextCursor, QTextDocument
from PySide6.QtWidgets import QFrame, QGridLayout, QSizePolicy, QTextEdit, QWidget

from app.palette import mix
from app.protocol.race_messages import Run
from app.race import race_text
from app.race.race_replay import PaneState
from app.reply import Reply
from app.window.common import theme
from app.window.common.appearance import GAP, Appearance
from app.window.common.layouts import column, row
from app.window.common.widgets import ElidedLabel, ProgressBar, label, style
from app.window.inspector import NumberTile
from app.window.markdown import GrowingDocument, Reader, token_runs
from app.window.transcript.text_page import document_font

APART = 14  # px, between two numbers
INSET = 14  # px, around what is in a pane
LEAST_TEXT = 72  # px


class RevealedText:
    """The text of a run in a document, of which any number of tokens is shown. Going forward costs only what is new."""

    def __init__(self, run: Run, document: QTextDocument) -> None:
        reply = Reply(run.rounds)
        reply.read()
        self._spans = reply.spans
        self._text = reply.text + run.finished.text
        if (answer := race_text.answer_start(run.rounds)) is not None:
            self._insert(f"\n\n*{race_text.THOUGHT_END}*\n\n", answer)
        self._document = document
        self._growing: GrowingDocument | None = None
        self._look: Appearance | None = None
        self._shown = -1

    def _insert(self, note: str, token: int) -> None:
        """Inserts text that belongs to no token, before a given token."""
        at, by = self._spans[token].start, len(note)
        self._text = f"{self._text[:at]}{note}{self._text[at:]}"
        moved = [span._replace(start=span.start + by, end=span.end + by) for span in self._spans[token:]]
        self._spans = [*self._spans[:token], *moved]

    def show(self, tokens: int) -> bool:
        """Shows the first `tokens`, and after the last what was held back, in the current appearance. Returns whether
        anything changed."""
        look = theme.current()
        if tokens == self._shown and look is self._look:
            return False
        if self._growing is None or tokens < self._shown or look is not self._look:
            self._look = look
            self._document.clear()
            self._document.setDefaultFont(document_font(look))
            self._growing = GrowingDocument(self._document, look, tinted=True)
        spans = self._spans[:tokens]
        end = len(self._text) if tokens == len(self._spans) else spans[-1].end if spans else 0
        self._growing.grow(self._text[:end], spans)
        self._shown = tokens
        return True

    def places(self, token: int | None) -> list[QTextCursor]:
        """Returns where a token stands, as selections of the document; nowhere for None."""
        found = []
        for number, start, end in token_runs(self._document) if token is not None else ():
            if number == token:
                cursor = QTextCursor(self._document)
                cursor.setPosition(start)
                cursor.setPosition(end, QTextCursor.MoveMode.KeepAnchor)
                found.append(cursor)
        return found


class NumberTiles(QWidget):
    """Numbers over their names, side by side; in more rows if there is no room. widest: for each number a value as long
    as any that will be shown."""

    def __init__(self, names: Sequence[str], widest: Sequence[str], parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.setSizePolicy(QSizePolicy.Policy.Ignored, QSizePolicy.Policy.Preferred)
        self.tiles = [NumberTile(name) for name in names]
        self._widest, self._columns = widest, 0
        self._grid = QGridLayout(self)
        self._grid.setContentsMargins(0, 0, 0, 0)
        self._grid.setHorizontalSpacing(APART)
        self._grid.setVerticalSpacing(4)
        self._arrange(len(names))

    def resizeEvent(self, event: QResizeEvent) -> None:
        super().resizeEvent(event)
        for tile, widest in zip(self.tiles, self._widest, strict=True):
            tile.keep_room_for(widest)
        count = len(self.tiles)
        self._arrange(next((n for n in (count, (count + 1) // 2, 2) if self._needed_px(n) <= self.width()), 1))

    def _needed_px(self, columns: int) -> int:
        """Returns the width that this many columns need."""
        widths = [tile.minimumSizeHint().width() for tile in self.tiles]
        return sum(max(widths[place::columns]) for place in range(columns)) + APART * (columns - 1)

    def show_values(self, values: Sequence[str]) -> None:
        """Shows the values, in the order of the names."""
        for tile, value in zip(self.tiles, values, strict=True):
            tile.set_value(value)

    def _arrange(self, columns: int) -> None:
        if columns == self._columns:
            return
        self._columns = columns
        for place, tile in enumerate(self.tiles):
            self._grid.addWidget(tile, place // columns, place % columns)
            self._grid.setColumnStretch(place, 1 if place < columns else 0)


class SidePane(QFrame):
    """Shows one side of a race. name, detail: of the side. link_clicked(QUrl): a link in the text was clicked."""

    link_clicked = Signal(QUrl)

    def __init__(self, name: str, detail: str, run: Run, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        style(self, kind="pane")
        self.setAccessibleName(name)
        self._name, self._clock = ElidedLabel(name, role="header"), label(role="header")
        self._detail = ElidedLabel(detail, role="detail")
        self.bar, self.reader = ProgressBar(f"Progress of {name}"), Reader()
        self.numbers = NumberTiles(race_text.NUMBERS, race_text.widest_numbers(run))
        self.reader.setFrameShape(QFrame.Shape.NoFrame)
        self.reader.setHorizontalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)
        self.reader.setAccessibleName(f"Text of {name}")
        self.reader.document().setDocumentMargin(0)
        self.reader.setSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Ignored)
        self.reader.setMinimumHeight(LEAST_TEXT)
        self.reader.link_clicked.connect(self.link_clicked)
        style(self.reader, ground="clear")
        self._text = RevealedText(run, self.reader.document())
        self._marked: int | None = None
        self._mark = ""
        self._lay_out()

    def show_state(self, state: PaneState, marked: int | None, mark: str) -> None:
        """Shows the side at a time. marked: the token that differs, shown in the colour `mark`; None for none."""
        changed = self._text.show(state.tokens)
        if changed or (marked, mark) != (self._marked, self._mark):
            self._marked, self._mark = marked, mark
            self._show_mark()
        if changed:
            bar = self.reader.verticalScrollBar()
            bar.setValue(bar.maximum())
        self.bar.show_share(state.share, state.done)
        self._clock.setText(f"{state.clock_s:.1f} s")
        style(self._clock, tone="good" if state.done else "text")
        self.numbers.show_values(race_text.numbers(state))

    def reveal_mark(self) -> None:
        """Scrolls to the token that differs."""
        for cursor in self._text.places(self._marked)[:1]:
            cursor.clearSelection()
            self.reader.setTextCursor(cursor)
            self.reader.ensureCursorVisible()

    def _show_mark(self) -> None:
        selections, look = [], theme.current()
        for cursor in self._text.places(self._marked):
            selection = QTextEdit.ExtraSelection()
            selection.cursor = cursor  # type: ignore[attr-defined]  # unknown to the stubs
            shape = selection.format  # type: ignore[attr-defined]
            shape.setBackground(QColor(mix(look.background, self._mark, race_text.MARKED)))
            shape.setForeground(QColor(look.text))
            selections.append(selection)
        self.reader.setExtraSelections(selections)

    def _lay_out(self) -> None:
        head = row((self._name, 1), self._clock, gap=GAP)
        parts = (head, self._detail, self.bar, self.numbers, GAP // 2, (self.reader, 1))
        column(*parts, on=self, margins=(INSET, INSET - 2, INSET, INSET), gap=GAP)
