"""Find in a chat: a bar above the transcript, the matches in all messages of the branch, and the way from one to the
next, also into folded thoughts and long replies of which little is laid out."""

from bisect import bisect_left, bisect_right
from dataclasses import dataclass, replace
from itertools import accumulate

from PySide6.QtCore import QRect, Qt, Signal
from PySide6.QtGui import QKeyEvent
from PySide6.QtWidgets import QLineEdit, QWidget

from app.window.common.appearance import GAP
from app.window.common.layouts import STRETCH, row
from app.window.common.timer import Timer
from app.window.common.widgets import IconButton, label, style
from app.window.markdown.text_matches import match_places
from app.window.transcript.message_entry import MessageEntry
from app.window.transcript.message_tile import TURN_MS, MessageTile
from app.window.transcript.text_page import NONE
from app.window.transcript.virtual_list import VirtualList

_TYPED_MS = 150  # after a key, before the messages are searched
_TRIES = 40  # turns in which the page of a match may be laid out, once its message has nothing else to do
_WIDEST = 320  # px


@dataclass(frozen=True)
class Match:
    """An occurrence in a message: the place of the message in the branch, and its number among those of the message."""

    message: int
    number: int


class FindBar(QWidget):
    """The field, how many matches there are, and the buttons. closed: the user wants it to go."""

    closed = Signal()

    def __init__(self, column: VirtualList, parent: QWidget) -> None:
        super().__init__(parent)
        self._column = column
        self._found: list[int] = []  # of each message, how many
        self._current: Match | None = None
        self._tries = 0
        self._places: tuple[object, list[int]] | None = None  # what was looked for in which message, and where it is
        self.field, self.count = QLineEdit(), label(role="detail", tone="faint")
        self.field.setPlaceholderText("Find in Chat")
        self.field.setAccessibleName("Find in chat")
        self.field.setMaximumWidth(_WIDEST)
        self.previous, self.next = IconButton("up", "Previous Match"), IconButton("down", "Next Match")
        self.close_button = IconButton("close", "Close Find Bar")
        style(self, kind="bar")
        parts = (STRETCH, self.count, (self.field, 1), self.previous, self.next, self.close_button)
        row(*parts, on=self, margins=(2 * GAP, 4, GAP, 4), gap=6)
        self._typed = Timer(self, singleShot=True, interval=_TYPED_MS)
        self._typed.timeout.connect(self.search)
        self._settle = Timer(self, singleShot=True, interval=TURN_MS)
        self._settle.timeout.connect(self._reveal)
        self.field.textEdited.connect(lambda: self._typed.start())
        self.previous.clicked.connect(lambda: self.step(-1))
        self.next.clicked.connect(lambda: self.step(1))
        self.close_button.clicked.connect(self.closed)
        self.hide()

    @property
    def term(self) -> str:
        """What is looked for, "" while the bar is hidden."""
        return self.field.text() if not self.isHidden() else ""

    def begin(self) -> None:
        """Shows the bar, and selects what was looked for last."""
        self.show()
        self.field.setFocus(Qt.FocusReason.ShortcutFocusReason)
        self.field.selectAll()
        self.search()

    def end(self) -> None:
        """Hides the bar and the marks of the matches."""
        self.hide()
        self.search()

    def search(self) -> None:
        """Looks for the term in all messages, and goes to the first match from the one that is in view on."""
        self._typed.stop()
        column, term = self._column, self.term
        column.set_options(replace(column.options, find=term))
        self._found = [occurrences(entry, term, column.options.raw) for entry in column.entries]
        self._current = None
        if any(self._found):
            first = column.first_in_view()
            self._current = self._at(sum(self._found[:first]) % sum(self._found))
            self._begin_reveal()
        self._show_count()

    def step(self, by: int) -> None:
        """Goes to the next match (1) or the one before (-1), around the end."""
        if self._typed.isActive() or len(self._found) != len(self._column.entries):
            self.search()
        elif self._current is not None:
            self._current = self._at((self._place + by) % sum(self._found))
            self._begin_reveal()
            self._show_count()

    def keyPressEvent(self, event: QKeyEvent) -> None:
        if event.key() in (Qt.Key.Key_Return, Qt.Key.Key_Enter):
            self.step(-1 if event.modifiers() & Qt.KeyboardModifier.ShiftModifier else 1)
        elif event.key() == Qt.Key.Key_Escape:
            self.closed.emit()
        else:
            super().keyPressEvent(event)

    @property
    def _place(self) -> int:
        """The number of the current match among all."""
        assert self._current is not None
        return sum(self._found[: self._current.message]) + self._current.number

    def _at(self, place: int) -> Match:
        """Returns the match with this number among all."""
        ends = list(accumulate(self._found))
        message = bisect_right(ends, place)
        return Match(message, place - (ends[message - 1] if message else 0))

    def _show_count(self) -> None:
        total = sum(self._found)
        if not self.term:
            text = ""
        else:
            text = f"{self._place + 1:,} of {total:,}" if self._current is not None else "Not found"
        self.count.setText(text)
        self.count.setAccessibleName(text)
        for button in (self.previous, self.next):
            button.setEnabled(total > 0)

    # --- the way to a match -----------------------------------------------------------------------

    def _begin_reveal(self) -> None:
        self._tries = 0
        self._reveal()

    def _reveal(self) -> None:
        """Scrolls to the current match. A page that is not laid out yet is tried again in the next turn."""
        if self._current is None or self._current.message >= len(self._column.entries):
            return
        entry = self._column.entries[self._current.message]
        places = self._places_in(entry)
        if not places:
            return
        number, within = self._page_of(entry, places, min(self._current.number, len(places) - 1))
        tile = self._column.show_page(entry, number)
        page = tile.pages.get(number) if tile is not None else None
        if tile is None or page is None or not page.isVisibleTo(tile):
            self._tries += tile is None or not tile.has_work_left
            if self._tries < _TRIES:
                self._settle.start()
            return
        self._mark(tile, number, within)

    def _places_in(self, entry: MessageEntry) -> list[int]:
        """Returns the places of all matches in the source of a message."""
        raw = _is_raw(entry, self._column.options.raw)
        key = (entry, len(entry.source), self.term, raw)
        if self._places is None or self._places[0] != key:
            self._places = key, match_places(entry.source, self.term, raw)
        return self._places[1]

    def _page_of(self, entry: MessageEntry, places: list[int], wanted: int) -> tuple[int, int]:
        """Returns the number of the page with the wanted one of `places`, which is unfolded, and how many of them come
        before it there."""
        if entry.record.role == "user":
            entry.expanded = True
            return 0, wanted
        pieces = entry.pieces
        number = max(0, bisect_right(pieces, places[wanted], key=lambda piece: piece.start) - 1)
        if pieces[number].section in entry.thoughts:
            entry.unfolded.add(pieces[number].section)
        return number, wanted - bisect_left(places, pieces[number].start)

    def _mark(self, tile: MessageTile, number: int, within: int) -> None:
        for page in [page for other in self._column.tiles.values() for page in other.pages.values()]:
            page.show_found(self.term, NONE)
        box = tile.pages[number].show_found(self.term, within)
        if not box.isNull():
            self._column.bring_into_view(QRect(box.translated(tile.pages[number].pos() + tile.pos())))


def occurrences(entry: MessageEntry, term: str, raw: bool) -> int:
    """Returns how often a message says `term`, in its thought too. raw: it is shown as the model wrote it."""
    raw = _is_raw(entry, raw)
    return sum(len(match_places(text, term, raw)) for text in (entry.record.thought, entry.record.text))


def _is_raw(entry: MessageEntry, raw: bool) -> bool:
    """Whether a message is shown as it is written. Questions always are."""
    return raw or entry.record.role == "user"
