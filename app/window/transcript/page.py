"""One piece of a message as a document of its own: as tall as its text, with the tokens under the pointer."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from math import ceil

from PySide6.QtCore import QEvent, QMimeData, QPoint, QPointF, QRect, Qt, Signal
from PySide6.QtGui import QContextMenuEvent, QKeyEvent, QMouseEvent, QTextCursor, QTextDocument, QWheelEvent
from PySide6.QtWidgets import QFrame, QSizePolicy, QWidget

from app.window.reading import TOKEN, Growing, Reader, Span, code_blocks, plain_text, write, write_raw
from app.window.transcript import ghosts
from app.window.transcript.code import CodeButtons
from app.window.transcript.manner import Manner, document_font

NONE = -1


@dataclass(frozen=True)
class Text:
    """What a page shows: a source, the spans in it, and the ghosts by the number of the token that came instead."""

    source: str
    spans: Sequence[Span] = field(default_factory=tuple)
    ghosts: dict[int, str] = field(default_factory=dict)


class Page(Reader):
    """pointed: the number of the token under the pointer, or NONE. pressed: the mouse, in this page. dragged: with the
    mouse held, to a place of the screen. menu_asked: with itself and the place in it. key: of whoever shows something,
    to know what it showed. joint: what stands between its text and that of the next page, where both are copied.
    block: the source of the code that is cut at its edges, where there is some."""

    pointed = Signal(int)
    pressed = Signal()
    dragged = Signal(QPoint)
    copy_asked = Signal()
    menu_asked = Signal(object, QPoint)

    def __init__(self, manner: Manner, parent: QWidget) -> None:
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
        self.text = Text("")
        self.key: object = None
        self.joint = ""
        self.block: Callable[[], str] = lambda: ""
        self._manner = manner
        self._pointed = NONE
        self._written = False
        self._growing: Growing | None = None
        self._buttons = CodeButtons(self, self.code)

    def show_text(self, text: Text, manner: Manner, width: int, whole: bool = True) -> None:
        """Show `text` in this width, as cheaply as can be when it only grew. whole: it will not grow any more."""
        same = text.source == self.text.source and text.ghosts == self.text.ghosts
        if same and manner.drawing == self._manner.drawing and self._written:
            return
        cursor = self.textCursor()
        chosen = (cursor.anchor(), cursor.position())
        fresh = (
            not self._written or manner.drawing != self._manner.drawing or not text.source.startswith(self.text.source)
        )
        self.text, self._manner = text, manner
        self._written = True
        if fresh:
            self._growing = None
            self.document().clear()
            self.document().setDefaultFont(document_font(manner.look))
        self.document().setTextWidth(width)
        if manner.ghosts or (whole and fresh):
            self._rewrite()
        else:
            self._grow()
        if chosen[0] != chosen[1]:
            self.select(*chosen)
        self._place_buttons()

    def lay_out(self, width: int) -> int:
        """Take this width; returns the height that the text then has."""
        if self.document().textWidth() != width:
            self.document().setTextWidth(width)
        height = max(1, ceil(self.document().size().height()))
        if self.size().width() != width or self.size().height() != height:
            self.setFixedSize(width, height)
            self._place_buttons()
        return height

    def code_at(self, y: float) -> str | None:
        """The code of the block at `y`; None between them."""
        number = self._buttons.number_at(y)
        return None if number is None else self.code(number)

    def code(self, number: int) -> str:
        """Of a code block, by its number: all of it, wherever it was cut. Only the first of a page can have been."""
        cut = self.block() if number == 0 else ""
        if not cut:
            return self._buttons.blocks[number].code
        document = QTextDocument()
        write(QTextCursor(document), cut, [], self._manner.look, False)
        return code_blocks(document)[0].code

    def stops(self) -> list[QWidget]:
        """What the keyboard reaches, in order."""
        return [self, *self._buttons.buttons]

    # --- places -------------------------------------------------------------------------------

    def character_at(self, y: float) -> int:
        """Of the first line at `y`, px from the top."""
        return self.document().documentLayout().hitTest(QPointF(0, y), Qt.HitTestAccuracy.FuzzyHit)

    def top_of(self, character: int) -> float:
        """Where the line of a character begins, px from the top."""
        cursor = QTextCursor(self.document())
        cursor.setPosition(max(0, min(character, self.document().characterCount() - 1)))
        return float(self.cursorRect(cursor).top())

    def token_at(self, place: QPointF) -> int:
        """The number of the token whose text is there, or NONE."""
        character = self.document().documentLayout().hitTest(place, Qt.HitTestAccuracy.ExactHit)
        if character < 0 or character + 1 >= self.document().characterCount():
            return NONE
        cursor = QTextCursor(self.document())
        cursor.setPosition(character + 1)
        shape = cursor.charFormat()
        token = shape.property(TOKEN)
        return token if isinstance(token, int) and not shape.hasProperty(ghosts.GHOST) else NONE

    def tokens(self) -> list[int]:
        """Numbers of the tokens that can be seen, in order."""
        return list(dict.fromkeys(token for token, _, _ in ghosts.runs(self.document())))

    def box_of(self, token: int) -> QRect:
        """The place of the first line of a token, in the page; empty where it is not seen."""
        for number, start, end in ghosts.runs(self.document()):
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
        """Characters that can be selected."""
        return self.document().characterCount() - 1

    # --- selection ----------------------------------------------------------------------------

    def select(self, start: int, end: int) -> None:
        """From character `start`, where a selection began, to `end`."""
        cursor = self.textCursor()
        cursor.setPosition(min(start, self.length))
        cursor.setPosition(min(end, self.length), QTextCursor.MoveMode.KeepAnchor)
        self.setTextCursor(cursor)

    def selected_text(self) -> str:
        """Without ghosts."""
        cursor, document = self.textCursor(), self.document()
        start, end = cursor.selectionStart(), cursor.selectionEnd()
        if self._manner.ghosts and self.text.ghosts:
            start, end = ghosts.without(document, start), ghosts.without(document, end)
            document = QTextDocument()
            self._write(document)
        return plain_text(document, start, end)

    def copy(self) -> None:
        """What is selected, in the other pages of the message too."""
        self.copy_asked.emit()

    def createMimeDataFromSelection(self) -> QMimeData:
        data = QMimeData()
        data.setText(self.selected_text())
        return data

    # --- writing ------------------------------------------------------------------------------

    def _grow(self) -> None:
        if self._growing is None:
            look, tints, raw, _ = self._manner.drawing
            self._growing = Growing(self.document(), look, tints, raw)
        self._growing.grow(self.text.source, self.text.spans)

    def _rewrite(self) -> None:
        """At once; where there are ghosts, they move all that comes behind them: there is nothing to go on from."""
        self._growing = None
        self.document().clear()
        self._write(self.document())
        if self._manner.ghosts:
            ghosts.insert(self.document(), self.text.ghosts, self._manner.look)

    def _write(self, document: QTextDocument) -> None:
        look, tints, raw, _ = self._manner.drawing
        (write_raw if raw else write)(QTextCursor(document), self.text.source, self.text.spans, look, tints)

    def _place_buttons(self) -> None:
        self._buttons.follow(code_blocks(self.document()), self._manner.look)

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
        """Links are followed here; all else is for the message as a whole."""
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
