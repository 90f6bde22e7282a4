"""The text of a reply: its pages one below the other, of which only those in view exist, and folded thought."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Any, NamedTuple

from PySide6.QtCore import QEvent, QPoint, QRect, QSize, Qt, QTimer, QUrl, Signal
from PySide6.QtGui import QColor, QTextCharFormat, QTextCursor
from PySide6.QtWidgets import QApplication, QTextEdit, QToolButton, QWidget

from app.palette import mix
from app.window.common import theme
from app.window.common.appearance import GAP, Appearance
from app.window.common.icons import icon
from app.window.common.widgets import style
from app.window.markdown import token_runs
from app.window.markdown.text_formats import GAP as BLOCK_GAP
from app.window.markdown.text_formats import HEADINGS
from app.window.transcript.message_entry import MessageEntry
from app.window.transcript.text_page import NONE, DisplayOptions, Selection, TextPage
from engine.audit.receipt import Difference

_KEPT = 1500  # px beyond the view within which pages that were made stay
_INDENT = 2 * GAP
_SHARE = 0.4  # of its colour in the ground of a difference


class ThoughtHeader(QToolButton):
    """The one line that a section of thought is folded into; a click unfolds it and folds it again."""

    def __init__(self, parent: QWidget) -> None:
        super().__init__(parent)
        self.setToolButtonStyle(Qt.ToolButtonStyle.ToolButtonTextBesideIcon)
        self.setFocusPolicy(Qt.FocusPolicy.StrongFocus)
        self.setAutoRaise(True)
        self.setIconSize(QSize(16, 16))
        self.setCheckable(True)
        style(self, role="quiet")
        self._state: tuple[bool, bool, int] | None = None

    def show_state(self, unfolded: bool, thinking: bool, tokens: int) -> None:
        """unfolded: whether the section is shown. thinking: whether it is being written. tokens: its length."""
        if self._state == (unfolded, thinking, tokens):
            return
        self._state = (unfolded, thinking, tokens)
        title = "Thinking…" if thinking else "Thought"
        self.setText(f"{title}  {tokens:,} tokens" if tokens else title)
        self.setAccessibleName(f"{self.text()}, {'shown' if unfolded else 'folded'}")
        self.setToolTip("Hide Thoughts" if unfolded else "Show Thoughts")
        self.setChecked(unfolded)
        self._show_icon()

    def changeEvent(self, event: QEvent) -> None:
        super().changeEvent(event)
        if event.type() == QEvent.Type.StyleChange:
            self._show_icon()

    def place(self, y: int, width: int) -> int:
        """Moves to `y`; returns the height."""
        size = self.sizeHint()
        height = max(size.height(), 3 * GAP)
        self.setGeometry(0, y, min(width, size.width() + GAP), height)
        return height

    def _show_icon(self) -> None:
        self.setIcon(icon("down" if self.isChecked() else "right", theme.current().faint))


class TokenCursor:
    """Marks tokens in the pages of one reply: the one that the keyboard points at, and those that a verification found.

    token: its number, NONE while there is none. differences: from plain decoding, by the number of the token; they have
    a wavy line and a ground of its colour."""

    def __init__(self, pages: dict[int, TextPage]) -> None:
        self._pages = pages
        self.token = NONE
        self.differences: dict[int, Difference] = {}

    def step(self, by: int, appearance: Appearance) -> int | None:
        """Moves to the next token that can be seen (by 1) or the one before (-1). Returns it; None where there are
        none."""
        tokens = sorted({token for page in self._pages.values() for token in page.tokens()})
        if not tokens:
            return None
        ahead = [token for token in tokens if (token > self.token if by > 0 else token < self.token)]
        if self.token == NONE:
            ahead = tokens if by > 0 else tokens[-1:]
        if ahead:
            self.token = ahead[0] if by > 0 else ahead[-1]
        self._draw_all(appearance)
        return self.token

    def clear(self, appearance: Appearance) -> bool:
        """Points at nothing. Returns whether it pointed at a token."""
        had, self.token = self.token != NONE, NONE
        self._draw_all(appearance)
        return had

    def draw(self, page: TextPage, appearance: Appearance) -> None:
        """Marks the tokens of a page that shows something new."""
        if self.token == NONE and not self.differences:
            page.setExtraSelections([])
            return
        marks = []
        for token, start, end in token_runs(page.document()):
            if token == self.token or token in self.differences:
                mark: Any = QTextEdit.ExtraSelection()  # whose fields PySide's stubs do not know
                mark.cursor = QTextCursor(page.document())
                mark.cursor.setPosition(start)
                mark.cursor.setPosition(end, QTextCursor.MoveMode.KeepAnchor)
                mark.format = self._shape(token, appearance)
                marks.append(mark)
        page.setExtraSelections(marks)

    def _draw_all(self, appearance: Appearance) -> None:
        for page in self._pages.values():
            self.draw(page, appearance)

    def _shape(self, token: int, appearance: Appearance) -> QTextCharFormat:
        shape = QTextCharFormat()
        if (difference := self.differences.get(token)) is not None:
            hue = appearance.warning if difference.near_tie else appearance.error
            shape.setUnderlineStyle(QTextCharFormat.UnderlineStyle.WaveUnderline)
            shape.setUnderlineColor(QColor(hue))
            shape.setBackground(QColor(mix(appearance.background, hue, _SHARE)))
        if token == self.token:
            shape.setBackground(QColor(appearance.accent))
            shape.setForeground(QColor(appearance.on_accent))
        return shape


class TextPlace(NamedTuple):
    """A place in the text of a reply. row: of the body. character: the first of the line there, None where there is no
    page yet. offset: px below the top of the line, or the share of the row that is above."""

    row: int
    character: int | None
    offset: float


class _Row(NamedTuple):
    """A page by the number of its piece, or the header of a section of thought."""

    kind: str
    number: int
    top: int
    height: int


class ReplyBody(QWidget):
    """The pages of a reply and the headers of its thoughts.

    pointed: the number of the token under the pointer, or NONE, and its place. stepped: the same of the token cursor.
    refolded: the height changed. dragged: the mouse drags a selection to this height of the screen. menu_asked: on a
    page, at a place in it.
    """

    pointed = Signal(int, QRect)
    stepped = Signal(int, QRect)
    link_clicked = Signal(QUrl)
    refolded = Signal()
    dragged = Signal(int)
    copy_asked = Signal()
    menu_asked = Signal(object, QPoint)

    def __init__(self, entry: MessageEntry, options: DisplayOptions, parent: QWidget) -> None:
        super().__init__(parent)
        self.entry, self.options = entry, options
        self.pages: dict[int, TextPage] = {}
        self.folds: dict[int, ThoughtHeader] = {}
        self.selection = Selection(self.pages)
        self.token_cursor = TokenCursor(self.pages)
        self.focused = False  # the focus is within the message
        self._rows: list[_Row] = []
        self._held: tuple[TextPage, int] | None = None
        self._divide = QTimer(self, singleShot=True, interval=0)
        self._divide.timeout.connect(self._divide_on)

    # --- geometry -----------------------------------------------------------------------------

    def arrange(self, width: int, top: int, bottom: int) -> int:
        """Lays out what is between `top` and `bottom`, px from the top of the body. Returns the height of the body."""
        y, rows = 0, []
        for kind, index in self._parts():
            if kind == "fold":
                height = self._fold(index).place(y, width)
            else:
                height = self._arrange_page(index, y, width, (top, bottom))
            rows.append(_Row(kind, index, y, height))
            y += height + (GAP if kind == "fold" else self._gap(index))
        self._rows = rows
        for section, fold in self.folds.items():
            fold.setVisible(any(row.kind == "fold" and row.number == section for row in rows))
        self._drop({row.number for row in rows if row.kind == "page"}, top - _KEPT, bottom + _KEPT)
        return rows[-1].top + rows[-1].height if rows else 0

    def _divide_on(self) -> None:
        """Divides another part of a very long reply, one a turn of the event loop."""
        self.entry.divide_on()
        self.refolded.emit()

    def place_at(self, y: int) -> TextPlace | None:
        """Returns the place at `y`; None above and below the text."""
        for number, row in enumerate(self._rows):
            if row.top <= y < row.top + row.height:
                page = self.pages.get(row.number) if row.kind == "page" else None
                if page is None:
                    return TextPlace(number, None, (y - row.top) / max(1, row.height))
                character = page.character_at(y - row.top)
                return TextPlace(number, character, y - row.top - page.top_of(character))
        return None

    def y_of(self, place: TextPlace) -> int:
        """Returns where `place` is now."""
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
            if self.entry.is_thought(index) and not self.options.raw:
                if piece.section != section:
                    yield "fold", piece.section
                section = piece.section
                if section not in self.entry.unfolded:
                    continue
            yield "page", index

    def _arrange_page(self, index: int, y: int, width: int, view: tuple[int, int]) -> int:
        entry, options = self.entry, self.options
        piece = entry.pieces[index]
        indent = _INDENT if entry.is_thought(index) and not options.raw else 0
        height = entry.piece_height(index, width - indent, options)
        if not piece.divided:
            self._divide.start()
            if index in self.pages:
                self.pages[index].hide()
            return height
        if (y >= view[1] or y + height <= view[0]) and index not in self._beside_focus():
            if index in self.pages:
                self.pages[index].move(indent, y)
            return height
        page = self._page(index)
        page.joint = entry.joint(index, options)
        page.block = partial(entry.block_of, index)
        key = (piece, len(entry.source) if options.raw else 0, options.document_key)
        if page.key != key:
            page.show_text(entry.text_of(index, options), options, width - indent)
            page.key = key
            self.token_cursor.draw(page, options.appearance)
        height = page.lay_out(width - indent)
        entry.piece_measured(index, width - indent, options, height)
        page.move(indent, y)
        page.show()
        return height

    def _beside_focus(self) -> set[int]:
        """Returns the neighbours of the page that has the focus, so that the keyboard can go there; the last page where
        the focus is below the text."""
        if not self.focused:
            return set()
        now = QApplication.focusWidget()
        own = [i for i, page in self.pages.items() if now is not None and (page is now or page.isAncestorOf(now))]
        last = len(self.entry.pieces) - 1
        return {index + by for index in own for by in (-1, 1)} or {last}

    def _gap(self, index: int) -> int:
        """Returns the distance to the next page, as between the blocks of one page: none where a block was cut."""
        pieces = self.entry.pieces
        if self.options.raw or index + 1 == len(pieces) or pieces[index].cut:
            return 0
        heads = self.entry.source.startswith("#", pieces[index + 1].start)
        return HEADINGS[2][1] if heads else BLOCK_GAP

    def _drop(self, kept: set[int], top: int, bottom: int) -> None:
        """Drops pages far from the view, unless something is selected in them."""
        tops = {row.number: row for row in self._rows if row.kind == "page"}
        for index in list(self.pages):
            page = self.pages[index]
            far = index in kept and (tops[index].top > bottom or tops[index].top + tops[index].height < top)
            if index not in kept or (far and not page.textCursor().hasSelection() and not page.hasFocus()):
                self.pages.pop(index).deleteLater()

    # --- parts --------------------------------------------------------------------------------

    def _page(self, index: int) -> TextPage:
        if index not in self.pages:
            page = TextPage(self.options, self)
            page.setAccessibleName("Reply")
            page.pointed.connect(lambda token: self.pointed.emit(token, self.box_of(token)))
            page.link_clicked.connect(self.link_clicked)
            page.pressed.connect(lambda: self.selection.clear(but=page))
            page.dragged.connect(lambda place: self._drag(page, place.y()))
            page.copy_asked.connect(self.copy_asked)
            page.menu_asked.connect(self.menu_asked)
            self.pages[index] = page
        return self.pages[index]

    def _fold(self, section: int) -> ThoughtHeader:
        if section not in self.folds:
            fold = ThoughtHeader(self)
            fold.clicked.connect(lambda: self._refold(section))
            fold.show()
            self.folds[section] = fold
        fold = self.folds[section]
        entry = self.entry
        fold.show_state(section in entry.unfolded, entry.thinks(section), entry.tokens_in(section))
        return fold

    def _refold(self, section: int) -> None:
        self.entry.unfolded ^= {section}
        self.refolded.emit()

    def focus_widgets(self) -> list[QWidget]:
        """Returns what the keyboard reaches, in order."""
        found: list[QWidget] = []
        for row in self._rows:
            if row.kind == "fold":
                found.append(self.folds[row.number])
            elif row.number in self.pages:
                found += self.pages[row.number].focus_widgets()
        return found

    # --- tokens and selection -----------------------------------------------------------------

    def mark_differences(self) -> None:
        """Marks what the verification of the record found."""
        if self.token_cursor.differences != (found := self.entry.differences):
            self.token_cursor.differences = found
            for page in self.pages.values():
                self.token_cursor.draw(page, self.options.appearance)

    def step(self, by: int) -> bool:
        """Moves the token cursor; False where there is no token."""
        token = self.token_cursor.step(by, self.options.appearance)
        if token is None:
            return False
        self.stepped.emit(token, self.box_of(token))
        return True

    def box_of(self, token: int) -> QRect:
        """Returns the place of a token in the body; empty where it is not seen."""
        for page in self.pages.values():
            box = page.box_of(token)
            if not box.isNull():
                return box.translated(page.pos())
        return QRect()

    def drag_on(self) -> None:
        """Extends the selection after the body moved below the mouse."""
        if self._held is not None:
            self._select_to(*self._held)

    def _drag(self, page: TextPage, y: int) -> None:
        """y: of the screen."""
        self._held = (page, y)
        self._select_to(page, y)
        self.dragged.emit(y)

    def _select_to(self, page: TextPage, y: int) -> None:
        if page in self.pages.values():
            self.selection.drag(page, y - self.mapToGlobal(self.rect().topLeft()).y())
