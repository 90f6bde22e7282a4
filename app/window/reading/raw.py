"""The source as it is, token by token."""

from __future__ import annotations

from collections.abc import Sequence

from PySide6.QtGui import QTextBlockFormat, QTextCursor

from app.window.look import Look
from app.window.reading.page import Page
from app.window.reading.shapes import CODE_LINE_HEIGHT, CODE_TEXT, GAP, KIND, RAW, Place, block_shape
from app.window.reading.sources import normalised
from app.window.reading.spans import Span
from app.window.reading.tracing import Traced

# A line is cut at the first space from here on, or at the longest.
LONG_LINE, LONGEST_LINE = 1600, 2000


def write_raw(cursor: QTextCursor, source: str, spans: Sequence[Span], look: Look, tinted: bool) -> None:
    """The source as it is, coloured. Goes on in the line that the cursor's document ends with, so that a source may be
    written in parts."""
    cursor.document().setUndoRedoEnabled(False)
    cursor.beginEditBlock()
    cursor.movePosition(QTextCursor.MoveOperation.End)
    text, spans = normalised(source, spans)
    page = Page(cursor, len(text), spans, look, tinted)
    if cursor.document().isEmpty():
        page.block(_shape())
    _flow(page, Traced(text, range(len(text))))
    cursor.endEditBlock()


def write_lines(page: Page, text: Traced) -> None:
    """Beginning in a line of its own."""
    page.block(_shape())
    _flow(page, text)
    last = _shape()
    last.setBottomMargin(GAP)
    page.cursor.setBlockFormat(last)


def _shape() -> QTextBlockFormat:
    shape = QTextBlockFormat(block_shape(Place(), 0, 0, CODE_LINE_HEIGHT))
    shape.setProperty(KIND, RAW)
    return shape


def _flow(page: Page, text: Traced) -> None:
    """Where a line is cut depends on what stands before, so that it does not matter in which parts it comes."""
    shape, plain = _shape(), page.shapes.characters(CODE_TEXT)
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
    """How far text[start:end] goes on in a block where `before` characters stand: until that is full."""
    space = text.find(" ", start + max(0, LONG_LINE - before), end)
    cut = space + 1 if space >= 0 else end
    return min(cut, start + LONGEST_LINE - before, end)
