"""The text of a reply: its pages one below the other, of which only those in view exist, and folded thought."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import NamedTuple

from PySide6.QtCore import QPoint, QRect, QUrl, Signal
from PySide6.QtWidgets import QApplication, QWidget

from app.window.look import GAP
from app.window.reading.shapes import GAP as BLOCK_GAP
from app.window.reading.shapes import HEADINGS
from app.window.transcript.entry import Entry
from app.window.transcript.fold import Fold
from app.window.transcript.manner import Manner
from app.window.transcript.page import Page
from app.window.transcript.selection import Selection
from app.window.transcript.token_cursor import TokenCursor

_KEPT = 1500  # px beyond the view within which pages that were made stay
_INDENT = 2 * GAP


class Place(NamedTuple):
    """What of a body is at some height. row: of the body. character: the first of the line there, None where there is
    no page yet. offset: px below the line's top, or the share of the row that is above."""

    row: int
    character: int | None
    offset: float


class _Row(NamedTuple):
    """A page by the number of its piece, or the header of a section of thought."""

    kind: str
    number: int
    top: int
    height: int


class Body(QWidget):
    """pointed: the number of the token under the pointer, or NONE, and its place. stepped: the same of the token
    cursor. refolded: a section was opened or closed. dragged: a selection, to this height of the screen. menu_asked:
    on a page, at a place in it."""

    pointed = Signal(int, QRect)
    stepped = Signal(int, QRect)
    link_asked = Signal(QUrl)
    refolded = Signal()
    dragged = Signal(int)
    copy_asked = Signal()
    menu_asked = Signal(object, QPoint)

    def __init__(self, entry: Entry, manner: Manner, parent: QWidget) -> None:
        super().__init__(parent)
        self.entry, self.manner = entry, manner
        self.pages: dict[int, Page] = {}
        self.folds: dict[int, Fold] = {}
        self.selection = Selection(self.pages)
        self.token_cursor = TokenCursor(self.pages)
        self.focused = False  # the focus is within the message
        self._rows: list[_Row] = []
        self._held: tuple[Page, int] | None = None

    # --- geometry -----------------------------------------------------------------------------

    def arrange(self, width: int, top: int, bottom: int) -> int:
        """Lay out what is between `top` and `bottom`, px from the body's top; returns the height of all of it."""
        y, rows = 0, []
        for kind, index in self._parts():
            if kind == "fold":
                height = self._fold(index).lay_out(y, width)
            else:
                height = self._arrange_page(index, y, width, (top, bottom))
            rows.append(_Row(kind, index, y, height))
            y += height + (GAP if kind == "fold" else self._gap(index))
        self._rows = rows
        for section, fold in self.folds.items():
            fold.setVisible(any(row.kind == "fold" and row.number == section for row in rows))
        self._drop({row.number for row in rows if row.kind == "page"}, top - _KEPT, bottom + _KEPT)
        return rows[-1].top + rows[-1].height if rows else 0

    def place_at(self, y: int) -> Place | None:
        """What is at `y`; None above and below the text."""
        for number, row in enumerate(self._rows):
            if row.top <= y < row.top + row.height:
                page = self.pages.get(row.number) if row.kind == "page" else None
                if page is None:
                    return Place(number, None, (y - row.top) / max(1, row.height))
                character = page.character_at(y - row.top)
                return Place(number, character, y - row.top - page.top_of(character))
        return None

    def y_of(self, place: Place) -> int:
        """Where that is now."""
        if place.row >= len(self._rows):
            return 0
        row = self._rows[place.row]
        page = self.pages.get(row.number) if row.kind == "page" else None
        if page is None or place.character is None:
            return round(row.top + (place.offset * row.height if place.character is None else 0))
        return round(row.top + page.top_of(place.character) + place.offset)

    def _parts(self) -> Iterator[tuple[str, int]]:
        section = -1
        for index, piece in enumerate(self.entry.pieces):
            if piece.kind == "think" and not self.manner.raw:
                if piece.section != section:
                    yield "fold", piece.section
                section = piece.section
                if section not in self.entry.opened:
                    continue
            yield "page", index

    def _arrange_page(self, index: int, y: int, width: int, view: tuple[int, int]) -> int:
        entry, manner = self.entry, self.manner
        piece = entry.pieces[index]
        indent = _INDENT if piece.kind == "think" and not manner.raw else 0
        height = entry.piece_height(index, width - indent, manner)
        if (y >= view[1] or y + height <= view[0]) and index not in self._beside_focus():
            if index in self.pages:
                self.pages[index].move(indent, y)
            return height
        page = self._page(index)
        page.joint = entry.joint(index, manner)
        page.block = partial(entry.block_of, index)
        key = (piece, len(entry.source) if manner.raw else 0, manner.drawing)
        if page.key != key:
            page.show_text(entry.text_of(index, manner), manner, width - indent, whole=piece.final)
            page.key = key
            self.token_cursor.draw(page, manner.look)
        height = page.lay_out(width - indent)
        entry.piece_measured(index, width - indent, manner, height)
        page.move(indent, y)
        page.show()
        return height

    def _beside_focus(self) -> set[int]:
        """The neighbours of the page that has the focus, so that the keyboard can go there; behind the last is what
        stands below the text."""
        if not self.focused:
            return set()
        now = QApplication.focusWidget()
        own = [i for i, page in self.pages.items() if now is not None and (page is now or page.isAncestorOf(now))]
        last = len(self.entry.pieces) - 1
        return {index + by for index in own for by in (-1, 1)} or {last}

    def _gap(self, index: int) -> int:
        """Between a page and the next, as between the blocks of one: nothing where a block was cut."""
        pieces = self.entry.pieces
        if self.manner.raw or index + 1 == len(pieces) or pieces[index + 1].carry:
            return 0
        heads = self.entry.source.startswith("#", pieces[index + 1].start)
        return HEADINGS[2][1] if heads else BLOCK_GAP

    def _drop(self, kept: set[int], top: int, bottom: int) -> None:
        """Pages far from the view go, unless something is selected in them."""
        tops = {row.number: row for row in self._rows if row.kind == "page"}
        for index in list(self.pages):
            page = self.pages[index]
            far = index in kept and (tops[index].top > bottom or tops[index].top + tops[index].height < top)
            if index not in kept or (far and not page.textCursor().hasSelection() and not page.hasFocus()):
                self.pages.pop(index).deleteLater()

    # --- parts --------------------------------------------------------------------------------

    def _page(self, index: int) -> Page:
        if index not in self.pages:
            page = Page(self.manner, self)
            page.setAccessibleName("Reply")
            page.pointed.connect(lambda token: self.pointed.emit(token, self.box_of(token)))
            page.link_asked.connect(self.link_asked)
            page.pressed.connect(lambda: self.selection.clear(but=page))
            page.dragged.connect(lambda place: self._drag(page, place.y()))
            page.copy_asked.connect(self.copy_asked)
            page.menu_asked.connect(self.menu_asked)
            self.pages[index] = page
        return self.pages[index]

    def _fold(self, section: int) -> Fold:
        if section not in self.folds:
            fold = Fold(self)
            fold.clicked.connect(lambda: self._refold(section))
            fold.show()
            self.folds[section] = fold
        fold = self.folds[section]
        entry = self.entry
        fold.tell(section in entry.opened, entry.thinks(section), entry.tokens_in(section), self.manner.look)
        return fold

    def _refold(self, section: int) -> None:
        self.entry.opened ^= {section}
        self.refolded.emit()

    def stops(self) -> list[QWidget]:
        """What the keyboard reaches, in order."""
        found: list[QWidget] = []
        for row in self._rows:
            if row.kind == "fold":
                found.append(self.folds[row.number])
            elif row.number in self.pages:
                found += self.pages[row.number].stops()
        return found

    # --- tokens and selection -----------------------------------------------------------------

    def mark_differences(self) -> None:
        """The record is another: what its check found is to be seen in the text."""
        if self.token_cursor.differences != (found := self.entry.differences):
            self.token_cursor.differences = found
            for page in self.pages.values():
                self.token_cursor.draw(page, self.manner.look)

    def step(self, by: int) -> bool:
        """Move the token cursor; False where there is no token to stand on."""
        token = self.token_cursor.step(by, self.manner.look)
        if token is None:
            return False
        self.stepped.emit(token, self.box_of(token))
        return True

    def box_of(self, token: int) -> QRect:
        """The place of a token in the body, empty where it is not seen."""
        for page in self.pages.values():
            box = page.box_of(token)
            if not box.isNull():
                return box.translated(page.pos())
        return QRect()

    def drag_on(self) -> None:
        """The body moved below the mouse."""
        if self._held is not None:
            self._select_to(*self._held)

    def _drag(self, page: Page, y: int) -> None:
        """y: of the screen."""
        self._held = (page, y)
        self._select_to(page, y)
        self.dragged.emit(y)

    def _select_to(self, page: Page, y: int) -> None:
        if page in self.pages.values():
            self.selection.drag(page, y - self.mapToGlobal(self.rect().topLeft()).y())
