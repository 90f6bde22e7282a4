"""Code boxes: a label, then the code line by line, highlighted once it is whole."""

from __future__ import annotations

from bisect import bisect_right
from itertools import accumulate

from PySide6.QtGui import QColor, QFont, QTextBlock, QTextBlockFormat, QTextCharFormat, QTextLayout

from app.window.reading.highlighting import highlighted
from app.window.reading.page import Page
from app.window.reading.palette import code_colours
from app.window.reading.shapes import (
    CODE,
    CODE_HEAD,
    CODE_LINE,
    CODE_LINE_HEIGHT,
    CODE_TEXT,
    GAP,
    KIND,
    LANGUAGE,
    PADDING,
    Place,
    Style,
    block_shape,
    note,
)
from app.window.reading.tracing import Traced

LONGEST_LINE = 2000  # characters; longer ones are cut, because Qt lays out a block as one
LABEL = Style(faint=True, size=0.85)
NO_LABEL = "code"


def write_code(page: Page, code: Traced, label: Traced, place: Place, whole: bool) -> None:
    """label: the language as it was written. whole: whether the fence is closed, so that it can be highlighted."""
    code = code.part(0, len(code) - code.endswith("\n"))
    _head(page, str(code) if whole else None, label, place)
    lines = code.split("\n")
    blocks: list[QTextBlock] = []
    start = 0
    for line in lines:
        blocks.append(write_line(page, code.part(start, start + len(line)), place))
        start += len(line) + 1
    end_box(page)
    if whole:
        _highlight(page, blocks, lines, str(label))


def _head(page: Page, exact: str | None, label: Traced, place: Place) -> None:
    shape = _shape(place, CODE_HEAD, above=GAP + 8, below=6)
    note(shape, LANGUAGE, label)
    if exact is not None:
        note(shape, CODE, exact.encode("utf-8", "replace").decode())
    page.block(shape)
    page.text(label or Traced(NO_LABEL, [-1] * len(NO_LABEL)), LABEL)


def write_line(page: Page, line: Traced, place: Place) -> QTextBlock:
    """One line of code; returns the block that it begins in."""
    first: QTextBlock | None = None
    start = 0
    while first is None or start < len(line):
        end = min(len(line), start + LONGEST_LINE)
        page.block(_shape(place, CODE_LINE))
        page.text(line.part(start, end), CODE_TEXT)
        if end < len(line):
            page.joined("")
        first = first or page.cursor.block()
        start = end
    return first


def end_box(page: Page) -> None:
    """The last line that was written is the last of the box."""
    shape = page.cursor.blockFormat()
    shape.setBottomMargin(PADDING + GAP)
    page.cursor.setBlockFormat(shape)


def _shape(place: Place, kind: str, above: float = 0, below: float = 0) -> QTextBlockFormat:
    within = Place(place.left + PADDING, place.bars, place.lists)
    shape = QTextBlockFormat(block_shape(within, above, below, CODE_LINE_HEIGHT))
    shape.setRightMargin(PADDING)
    shape.setProperty(KIND, kind)
    return shape


def _highlight(page: Page, blocks: list[QTextBlock], lines: list[str], language: str) -> None:
    """Colours lie over the text in its layout, so that formats stay one a token. What is coloured may span lines."""
    starts = [0, *accumulate(len(line) + 1 for line in lines)]
    over: dict[int, list[QTextLayout.FormatRange]] = {}
    shapes = {kind: _colour(kind, colour) for kind, colour in code_colours(page.shapes.look).items()}
    for start, end, kind in highlighted("\n".join(lines), language):
        line = bisect_right(starts, start) - 1
        while start < end:
            stop = min(end, starts[line + 1] - 1)
            if start < stop:
                piece = _range(lines[line], start - starts[line], stop - starts[line], shapes[kind])
                over.setdefault(line, []).append(piece)
            line += 1
            start = starts[line]
    for line, ranges in over.items():
        blocks[line].layout().setFormats(ranges)


def _colour(kind: str, colour: str) -> QTextCharFormat:
    shape = QTextCharFormat()
    shape.setForeground(QColor(colour))
    if kind == "comment":
        shape.setFontItalic(True)
    if kind == "keyword":
        shape.setFontWeight(QFont.Weight.DemiBold)
    return shape


def _range(line: str, start: int, end: int, shape: QTextCharFormat) -> QTextLayout.FormatRange:
    """Qt counts in UTF-16."""
    made = QTextLayout.FormatRange()
    if not line.isascii():
        start, end = (len(line[:place].encode("utf-16-le", "surrogatepass")) // 2 for place in (start, end))
    made.start = start  # type: ignore[attr-defined]
    made.length = end - start  # type: ignore[attr-defined]
    made.format = shape  # type: ignore[attr-defined]
    return made
