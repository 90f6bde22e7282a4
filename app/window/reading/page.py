"""The end of a document, where blocks are appended and text flows into them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from PySide6.QtGui import QTextBlockFormat, QTextCharFormat, QTextCursor

from app.window.look import Look
from app.window.reading.inline import Run
from app.window.reading.shapes import (
    BODY,
    ENDS,
    GOES_ON,
    KIND,
    LOOK,
    NOTE,
    Place,
    Shapes,
    Style,
    block_shape,
    note,
    noted,
)
from app.window.reading.spans import TOKEN, Owners, Span
from app.window.reading.tracing import Traced
from app.window.reading.visible import visible


class Page:
    """`cursor` is at the end of its document and stays there. places: what `Traced.at` counts."""

    def __init__(self, cursor: QTextCursor, length: int, spans: Sequence[Span], look: Look, tinted: bool) -> None:
        self.cursor = cursor
        cursor.document().setProperty(LOOK, look)
        self.shapes = Shapes(look, tinted, cursor.document().defaultFont())
        self._owners = Owners(length, spans)

    @property
    def ends(self) -> str:
        """What was noted at the end of what was written before."""
        return noted(self.cursor.blockFormat(), ENDS) or ""

    @ends.setter
    def ends(self, said: str) -> None:
        shape = self.cursor.blockFormat()
        note(shape, ENDS, said)
        self.cursor.setBlockFormat(shape)

    def block(self, shape: QTextBlockFormat) -> None:
        """A new block, or the last one where nothing stands in it; the first of all has nothing above it."""
        block = self.cursor.block()
        empty = block.length() == 1 and not block.blockFormat().hasProperty(KIND)
        if not empty:
            self.cursor.insertBlock(shape, self.shapes.characters(BODY))
            return
        if block.position() == 0 and not shape.hasProperty(KIND):
            shape = QTextBlockFormat(shape)
            shape.setTopMargin(0)
        self.cursor.setBlockFormat(shape)
        self.cursor.setBlockCharFormat(self.shapes.characters(BODY))

    def joined(self, separator: str) -> None:
        """The last block and the next are one paragraph that was cut at `separator`."""
        shape = self.cursor.blockFormat()
        shape.setBottomMargin(0)
        note(shape, GOES_ON, separator)
        self.cursor.setBlockFormat(shape)

    def text(self, text: Traced, style: Style) -> None:
        """Line feeds break the line within the block."""
        shown = visible(text).replace("\n", "\u2028")
        shapes, insert = self.shapes.by_origin(style), self.cursor.insertText
        for piece, span in self._owners.runs(shown, text.at):
            if span is None:
                insert(piece, shapes[None])
            else:
                shape = QTextCharFormat(shapes[span.origin])
                shape.setProperty(TOKEN, span.token)
                insert(piece, shape)

    def runs(self, runs: Iterable[Run]) -> None:
        for run in runs:
            self.text(run.text, run.style)

    def note(self, said: str) -> None:
        """Something about the text that is not of it."""
        shape = QTextBlockFormat(block_shape(Place(), 0, 4))
        shape.setProperty(KIND, NOTE)
        self.block(shape)
        self.cursor.insertText(said, self.shapes.characters(Style(faint=True, italic=True)))


def remove_from(cursor: QTextCursor, place: int, shape: QTextBlockFormat) -> None:
    """All of the document behind `place`; the block that this is in gets `shape`."""
    cursor.setPosition(place)
    colours = cursor.block().layout().formats() if place > 0 else []
    cursor.movePosition(QTextCursor.MoveOperation.End, QTextCursor.MoveMode.KeepAnchor)
    if cursor.hasSelection():
        cursor.removeSelectedText()
        cursor.block().layout().setFormats(colours)  # Qt may have kept the layout of a block that went
    cursor.setBlockFormat(shape)
