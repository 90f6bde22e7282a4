"""The end of a document, where blocks are appended and text flows into them; and the raw source, written there."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from PySide6.QtGui import QTextBlockFormat, QTextCharFormat, QTextCursor

from app.window.common.appearance import Appearance
from app.window.markdown.inline_runs import Run
from app.window.markdown.text_formats import (
    APPEARANCE,
    BODY,
    CODE_LINE_HEIGHT,
    CODE_TEXT,
    ENDS,
    GAP,
    GOES_ON,
    KIND,
    NOTE,
    RAW,
    BlockPlace,
    Style,
    TextFormats,
    block_shape,
    note,
    noted,
)
from app.window.markdown.token_spans import TOKEN, Span, SpanIndex, normalised
from app.window.markdown.traced_parser import Traced
from app.window.markdown.visible_text import visible


class DocumentTail:
    """The end of a document. `cursor` is there and stays there. length: of the source that `Traced.at` counts in."""

    def __init__(
        self, cursor: QTextCursor, length: int, spans: Sequence[Span], appearance: Appearance, tinted: bool
    ) -> None:
        self.cursor = cursor
        cursor.document().setProperty(APPEARANCE, appearance)
        self.formats = TextFormats(appearance, tinted, cursor.document().defaultFont())
        self._owners = SpanIndex(length, spans)

    @property
    def ends(self) -> str:
        """What a source that continues here needs to know of what was written before."""
        return noted(self.cursor.blockFormat(), ENDS) or ""

    @ends.setter
    def ends(self, text: str) -> None:
        shape = self.cursor.blockFormat()
        note(shape, ENDS, text)
        self.cursor.setBlockFormat(shape)

    def block(self, shape: QTextBlockFormat) -> None:
        """Begins a block, or takes the last one if it is empty. The first block of all has no margin above."""
        block = self.cursor.block()
        empty = block.length() == 1 and not block.blockFormat().hasProperty(KIND)
        if not empty:
            self.cursor.insertBlock(shape, self.formats.characters(BODY))
            return
        if block.position() == 0 and not shape.hasProperty(KIND):
            shape = QTextBlockFormat(shape)
            shape.setTopMargin(0)
        self.cursor.setBlockFormat(shape)
        self.cursor.setBlockCharFormat(self.formats.characters(BODY))

    def joined(self, separator: str) -> None:
        """Marks the last block and the next as one paragraph that was cut at `separator`."""
        shape = self.cursor.blockFormat()
        shape.setBottomMargin(0)
        note(shape, GOES_ON, separator)
        self.cursor.setBlockFormat(shape)

    def text(self, text: Traced, style: Style) -> None:
        """Appends text. Line feeds break the line within the block."""
        shown = visible(text).replace("\n", "\u2028")
        formats, insert = self.formats.by_origin(style), self.cursor.insertText
        for piece, span in self._owners.runs(shown, text.at):
            if span is None:
                insert(piece, formats[None])
            else:
                shape = QTextCharFormat(formats[span.origin])
                shape.setProperty(TOKEN, span.token)
                insert(piece, shape)

    def runs(self, runs: Iterable[Run]) -> None:
        for run in runs:
            self.text(run.text, run.style)

    def note(self, remark: str) -> None:
        """Writes a remark on the text that is not part of it."""
        shape = QTextBlockFormat(block_shape(BlockPlace(), 0, 4))
        shape.setProperty(KIND, NOTE)
        self.block(shape)
        self.cursor.insertText(remark, self.formats.characters(Style(faint=True, italic=True)))


def remove_from(cursor: QTextCursor, place: int, shape: QTextBlockFormat) -> None:
    """Removes all of the document behind `place`. The block that it is in gets `shape`."""
    cursor.setPosition(place)
    colours = cursor.block().layout().formats() if place > 0 else []
    cursor.movePosition(QTextCursor.MoveOperation.End, QTextCursor.MoveMode.KeepAnchor)
    if cursor.hasSelection():
        cursor.removeSelectedText()
        cursor.block().layout().setFormats(colours)  # Qt may have kept the layout of a block that went
    cursor.setBlockFormat(shape)


# A line is cut at the first space from here on, or at the longest.
LONG_LINE, LONGEST_LINE = 1600, 2000


def write_raw(cursor: QTextCursor, source: str, spans: Sequence[Span], appearance: Appearance, tinted: bool) -> None:
    """Writes the source as it is, with its tints. Continues the last line of the document, so that a source may be
    written in parts."""
    cursor.document().setUndoRedoEnabled(False)
    cursor.beginEditBlock()
    cursor.movePosition(QTextCursor.MoveOperation.End)
    text, spans = normalised(source, spans)
    page = DocumentTail(cursor, len(text), spans, appearance, tinted)
    if cursor.document().isEmpty():
        page.block(_shape())
    _flow(page, Traced(text, range(len(text))))
    cursor.endEditBlock()


def write_lines(page: DocumentTail, text: Traced) -> None:
    """Writes text as it is, beginning in a line of its own."""
    page.block(_shape())
    _flow(page, text)
    last = _shape()
    last.setBottomMargin(GAP)
    page.cursor.setBlockFormat(last)


def _shape() -> QTextBlockFormat:
    shape = QTextBlockFormat(block_shape(BlockPlace(), 0, 0, CODE_LINE_HEIGHT))
    shape.setProperty(KIND, RAW)
    return shape


def _flow(page: DocumentTail, text: Traced) -> None:
    """Appends text. Where a line is cut depends on what stands before, so that it does not matter in which parts it
    comes."""
    shape, plain = _shape(), page.formats.characters(CODE_TEXT)
    start = 0
    while start < len(text):
        feed = text.find("\n", start)
        end = feed if feed >= 0 else len(text)
        if end > start:
            before = page.cursor.block().text()
            if _is_full(before):
                page.joined("")
                page.cursor.insertBlock(shape, plain)
                before = ""
            end = _cut(text, start, end, len(before))
            page.text(text.part(start, end), CODE_TEXT)
        if end == feed:
            page.cursor.insertBlock(shape, plain)
            end += 1
        start = end


def _is_full(line: str) -> bool:
    return len(line) >= LONGEST_LINE or (len(line) > LONG_LINE and line.endswith(" "))


def _cut(text: str, start: int, end: int, before: int) -> int:
    """Returns how far text[start:end] continues in a block that holds `before` characters: until the block is full."""
    space = text.find(" ", start + max(0, LONG_LINE - before), end)
    cut = space + 1 if space >= 0 else end
    return min(cut, start + LONGEST_LINE - before, end)
