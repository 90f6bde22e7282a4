"""One piece of a message as a document of its own, and how all pieces are shown and selected."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from math import ceil
from typing import Any

from PySide6.QtCore import QEvent, QPoint, QPointF, QRect, QRectF, Qt, Signal
from PySide6.QtGui import (
    QColor,
    QContextMenuEvent,
    QFont,
    QKeyEvent,
    QMouseEvent,
    QTextCharFormat,
    QTextCursor,
    QWheelEvent,
)
from PySide6.QtWidgets import QFrame, QSizePolicy, QTextEdit, QWidget

from app.palette import mix
from app.reply import Span
from app.window.common.appearance import GAP, TEXT_WIDTH, Appearance
from app.window.common.screens import text_dpi
from app.window.markdown import GrowingDocument, Reader, code_blocks, plain_text, token_of, token_runs
from app.window.markdown.formula_object import formula_mark, token_within
from app.window.markdown.markdown_writer import first_code
from app.window.markdown.text_formats import FORMULA, WHOLE
from app.window.markdown.text_matches import document_matches
from app.window.transcript.tile_buttons import CodeButtons

SIDE = 3 * GAP  # px, least free space beside the column
BODY = 15  # px at scale 1, of the text of messages
NONE = -1  # no token
_FOUND_SHARE = 0.3  # of the accent, behind what is looked for


@dataclass(frozen=True)
class DisplayOptions:
    """How messages are shown. tints: tokens are tinted by their kind, and have a panel while the mouse rests on them.
    raw: the source as the model wrote it instead of Markdown. refused: refused draft tokens too, where they were
    refused. still: nothing moves that need not. find: what is looked for, and marked where it is."""

    appearance: Appearance
    tints: bool = True
    raw: bool = False
    refused: bool = False
    still: bool = False
    find: str = ""

    @property
    def document_key(self) -> tuple[object, ...]:
        """All that a document depends on."""
        return self.appearance, self.tints, self.raw, self.refused


def column_width(width: int, appearance: Appearance) -> int:
    """Returns how wide the text may be in a window of `width` px."""
    return max(120, min(round(TEXT_WIDTH * max(1.0, appearance.scale)), width - 2 * SIDE))


def document_font(appearance: Appearance) -> QFont:
    """Returns the system's font for documents, which measure in points."""
    made = appearance.font(BODY)
    made.setPointSizeF(made.pixelSize() * 72 / text_dpi())
    return made


@dataclass(frozen=True)
class PageText:
    """What a page shows: a source, its spans, and the refused texts by the number of the token that came instead.
    plain: as plain text. noted: which a line above says."""

    source: str
    spans: Sequence[Span] = field(default_factory=tuple)
    refused: dict[int, str] = field(default_factory=dict)
    plain: bool = False
    noted: bool = False


class TextPage(Reader):
    """A document as tall as its text.

    pointed: the mouse points at a token (its number) or at none (NONE). pressed: the mouse was pressed in this page.
    dragged: the mouse was dragged to a place of the screen. copy_asked, menu_asked: the user asks for a copy, or for
    the menu at a place of this page. key: for the owner, to know what the page shows. joint: what stands between its
    text and that of the next page when both are copied. block: returns the source of the block that was cut at the
    edges of the page, "" if there is none.
    """

    pointed = Signal(int)
    pressed = Signal()
    dragged = Signal(QPoint)
    copy_asked = Signal()
    menu_asked = Signal(object, QPoint)

    def __init__(self, options: DisplayOptions, parent: QWidget) -> None:
        super().__init__(parent)
        self.setFrameShape(QFrame.Shape.NoFrame)
        self.setHorizontalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)
        self.setVerticalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)
        self.setSizePolicy(QSizePolicy.Policy.Fixed, QSizePolicy.Policy.Fixed)
        self.setUndoRedoEnabled(False)
        self.setMouseTracking(True)
        self.viewport().setMouseTracking(True)
        self.viewport().setAutoFillBackground(False)
        self.document().setDocumentMargin(0)
        self.text = PageText("")
        self.key: object = None
        self.joint = ""
        self.block: Callable[[], str] = lambda: ""
        self._options = options
        self._pointed = NONE
        self._grow: Callable[[str, Sequence[Span], Mapping[int, str]], None] | None = None  # writes what was added
        self._buttons = CodeButtons()
        self._marks: list[Any] = []  # of tokens
        self._found: list[Any] = []  # what is looked for
        self._current = NONE  # the number of the one that the reader has come to

    def show_text(self, text: PageText, options: DisplayOptions, width: int) -> None:
        """Shows `text` in this width, at low cost when it only grew."""
        fresh = self._grow is None or options.document_key != self._options.document_key
        if text == self.text and not fresh:
            return
        cursor = self.textCursor()
        selected = (cursor.anchor(), cursor.position())
        known = self.text
        fresh = fresh or (text.plain, text.noted) != (known.plain, known.noted)
        fresh = fresh or not text.source.startswith(known.source)
        self.text, self._options = text, options
        if fresh:
            self.document().clear()
            self.document().setDefaultFont(document_font(options.appearance))
            self._grow = self._writer()
        if self.width() != width:
            self.setFixedWidth(width)  # otherwise Qt lays the text out for the width that the widget has, too
        self.document().setTextWidth(width)
        assert self._grow is not None
        self._grow(text.source, text.spans, text.refused)
        if selected[0] != selected[1]:
            self.select(*selected)
        self._place_buttons()

    def _writer(self) -> Callable[[str, Sequence[Span], Mapping[int, str]], None]:
        """Returns what writes the text into the empty document, and then what is added to it."""
        options, text = self._options, self.text
        raw = options.raw or text.plain
        return GrowingDocument(self.document(), options.appearance, options.tints, raw, text.noted).grow

    def lay_out(self, width: int) -> int:
        """Takes this width. Returns the height that the text then has."""
        if self.document().textWidth() != width:
            self.document().setTextWidth(width)
        height = max(1, ceil(self.document().size().height()))
        if self.size().width() != width or self.size().height() != height:
            self.setFixedSize(width, height)
            self._place_buttons()
        return height

    def code_at(self, y: float) -> str | None:
        """Returns the code of the block at `y`; None between blocks."""
        boxes = [block.box for block in self._buttons.blocks]
        return next((self.code(i) for i, box in enumerate(boxes) if box.top() <= y <= box.bottom()), None)

    def code(self, number: int) -> str:
        """Returns the code of a block by its number, whole where it was cut. Only the first of a page can have been."""
        cut = self.block() if number == 0 else ""
        return first_code(cut) if cut else self._buttons.blocks[number].code

    def focus_widgets(self) -> list[QWidget]:
        """Returns what the keyboard reaches, in order."""
        return [self, *self._buttons.buttons]

    # --- places -------------------------------------------------------------------------------

    def character_at(self, y: float) -> int:
        """Returns the first character of the line at `y`, px from the top."""
        return self.document().documentLayout().hitTest(QPointF(0, y), Qt.HitTestAccuracy.FuzzyHit)

    def top_of(self, character: int) -> float:
        """Returns where the line of a character begins, px from the top."""
        cursor = QTextCursor(self.document())
        cursor.setPosition(max(0, min(character, self.document().characterCount() - 1)))
        return float(self.cursorRect(cursor).top())

    def token_at(self, place: QPointF) -> int:
        """Returns the number of the token whose text is at `place`, or NONE."""
        character = self.document().documentLayout().hitTest(place, Qt.HitTestAccuracy.ExactHit)
        if character < 0 or character + 1 >= self.document().characterCount():
            return NONE
        cursor = QTextCursor(self.document())
        cursor.setPosition(character)
        left = QPointF(self.cursorRect(cursor).topLeft())
        cursor.setPosition(character + 1)
        shape = cursor.charFormat()
        token = token_of(self.document(), character)
        if shape.hasProperty(FORMULA):
            box = QRectF(left, QPointF(self.cursorRect(cursor).bottomRight()))
            token = token_within(self.document(), character, box, place)
        return NONE if token is None else token

    def tokens(self) -> list[int]:
        """Returns the numbers of the tokens that can be seen, in order."""
        return list(dict.fromkeys(token for token, _, _ in token_runs(self.document())))

    def box_of(self, token: int) -> QRect:
        """Returns the place of the first line of a token in the page; empty where it is not seen."""
        for number, start, end in token_runs(self.document()):
            if number == token:
                cursor = QTextCursor(self.document())
                cursor.setPosition(start)
                first = self.cursorRect(cursor)
                cursor.setPosition(end)
                last = self.cursorRect(cursor)
                return first.united(last) if last.top() == first.top() else first.adjusted(0, 0, self.width() // 8, 0)
        return QRect()

    @property
    def length(self) -> int:
        """How many characters can be selected."""
        return self.document().characterCount() - 1

    # --- marks --------------------------------------------------------------------------------

    def set_marks(self, marks: list[Any]) -> None:
        """Marks tokens, with QTextEdit's selections."""
        self._marks = marks
        self.setExtraSelections([*self._found, *self._marks])

    def show_found(self, term: str, current: int | None = None) -> QRect:
        """Marks every occurrence of `term`, none for "", and one of them as the current one: NONE for none, or None for
        the same as before. Returns the place of that one, or of the last if there are fewer; empty if there are
        none."""
        current = self._current = self._current if current is None else current
        self._found, box = [], QRect()
        for cursor in document_matches(self.document(), term):
            mark: Any = QTextEdit.ExtraSelection()  # whose fields PySide's stubs do not know
            mark.cursor = cursor
            shape = self._found_format(len(self._found) == current)
            mark.format = formula_mark(WHOLE, shape) if cursor.charFormat().hasProperty(FORMULA) else shape
            self._found.append(mark)
            if len(self._found) <= current + 1:
                start = QTextCursor(self.document())
                start.setPosition(cursor.selectionStart())
                box = self.cursorRect(start)
        self.setExtraSelections([*self._found, *self._marks])
        return box

    def _found_format(self, current: bool) -> QTextCharFormat:
        look, shape = self._options.appearance, QTextCharFormat()
        shape.setBackground(QColor(look.accent if current else mix(look.background, look.accent, _FOUND_SHARE)))
        shape.setForeground(QColor(look.on_accent if current else look.text))
        return shape

    # --- selection ----------------------------------------------------------------------------

    def select(self, start: int, end: int) -> None:
        """Selects from character `start`, where the selection began, to `end`."""
        cursor = self.textCursor()
        cursor.setPosition(min(start, self.length))
        cursor.setPosition(min(end, self.length), QTextCursor.MoveMode.KeepAnchor)
        self.setTextCursor(cursor)

    def selected_text(self) -> str:
        """Returns what is selected, without refused tokens."""
        cursor = self.textCursor()
        return plain_text(self.document(), cursor.selectionStart(), cursor.selectionEnd())

    def copy(self) -> None:
        """Asks to copy what is selected, in the other pages of the message too."""
        self.copy_asked.emit()

    def _place_buttons(self) -> None:
        self._buttons.follow(code_blocks(self.document()), self, self.code)

    # --- events -------------------------------------------------------------------------------

    def mousePressEvent(self, event: QMouseEvent) -> None:
        self.pressed.emit()
        super().mousePressEvent(event)

    def mouseMoveEvent(self, event: QMouseEvent) -> None:
        super().mouseMoveEvent(event)
        if event.buttons() & Qt.MouseButton.LeftButton:
            self.dragged.emit(event.globalPosition().toPoint())
        else:
            self._point(self.token_at(event.position()))

    def keyPressEvent(self, event: QKeyEvent) -> None:
        """Enter follows links; all other keys are for the message as a whole."""
        if event.key() in (Qt.Key.Key_Return, Qt.Key.Key_Enter):
            super().keyPressEvent(event)
        else:
            event.ignore()

    def contextMenuEvent(self, event: QContextMenuEvent) -> None:
        self.menu_asked.emit(self, event.pos())

    def leaveEvent(self, event: QEvent) -> None:
        self._point(NONE)

    def wheelEvent(self, event: QWheelEvent) -> None:
        event.ignore()

    def _point(self, token: int) -> None:
        if token != self._pointed:
            self._pointed = token
            self.pointed.emit(token)


class Selection:
    """A selection that runs through the pages of one message as if they were one text. pages: by the number of their
    piece, as far as they are in view."""

    def __init__(self, pages: dict[int, TextPage]) -> None:
        self._pages = pages

    def __bool__(self) -> bool:
        return any(page.textCursor().hasSelection() for page in self._pages.values())

    @property
    def text(self) -> str:
        """What is selected, without refused tokens."""
        chosen = [self._pages[index] for index in sorted(self._pages) if self._pages[index].textCursor().hasSelection()]
        parts = [page.selected_text() + page.joint for page in chosen[:-1]]
        return "".join([*parts, *(page.selected_text() for page in chosen[-1:])])

    def clear(self, but: TextPage | None = None) -> None:
        """Selects nothing, but leaves the page alone that is about to begin a selection."""
        for page in self._pages.values():
            if page is not but and page.textCursor().hasSelection():
                page.select(0, 0)

    def select_all(self) -> None:
        for page in self._pages.values():
            page.select(0, page.length)

    def drag(self, origin: TextPage, y: int) -> None:
        """Selects from `origin`, where the mouse was pressed, to height `y` of the parent of the pages."""
        begun = origin.textCursor().anchor()
        down = y >= origin.geometry().bottom()
        if not down and y >= origin.y():
            self.clear(but=origin)
            return
        origin.select(begun, origin.length if down else 0)
        for page in self._pages.values():
            if page is origin:
                continue
            behind = page.y() > origin.y()
            reached = y >= page.y() if behind else y <= page.geometry().bottom()
            if behind != down or not reached:
                page.select(0, 0)
                continue
            inside = page.y() <= y <= page.geometry().bottom()
            at = page.character_at(y - page.y()) if inside else page.length if down else 0
            page.select(0 if down else page.length, at)
