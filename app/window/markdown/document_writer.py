"""Markdown, written into a document block by block."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import takewhile
from typing import NamedTuple

from markdown_it.token import Token
from markdown_it.utils import EnvType
from PySide6.QtCore import Qt
from PySide6.QtGui import (
    QBrush,
    QColor,
    QTextBlockFormat,
    QTextCharFormat,
    QTextCursor,
    QTextFrameFormat,
    QTextTable,
    QTextTableCellFormat,
    QTextTableFormat,
)

from app.window.common.appearance import Appearance
from app.window.markdown.code_boxes import write_code
from app.window.markdown.document_tail import DocumentTail, write_lines
from app.window.markdown.formula_text import readable
from app.window.markdown.inline_runs import inline_runs
from app.window.markdown.text_formats import (
    BODY,
    GAP,
    HEADINGS,
    INDENT,
    KIND,
    LINE_HEIGHT,
    MARKER,
    RULE,
    TIGHT,
    BlockPlace,
    Style,
    block_shape,
)
from app.window.markdown.token_spans import Lines, Span, normalised
from app.window.markdown.traced_parser import LONGEST_INLINE, Block, Traced, blocks, is_closed, pieces

_ALIGNMENTS = {"center": Qt.AlignmentFlag.AlignHCenter, "right": Qt.AlignmentFlag.AlignRight}


class Cell(NamedTuple):
    """A cell of a table. content: not yet parsed."""

    content: Traced
    alignment: str
    header: bool


def rows_of(tokens: Sequence[Token]) -> list[list[Cell]]:
    """Returns the rows of a table from its tokens."""
    rows: list[list[Cell]] = []
    for i, token in enumerate(tokens):
        if token.type == "tr_open":
            rows.append([])
        elif token.type in ("th_open", "td_open"):
            content = tokens[i + 1].content
            assert isinstance(content, Traced)
            alignment = str(token.attrs.get("style", "")).removeprefix("text-align:")
            rows[-1].append(Cell(content, alignment, token.type == "th_open"))
    return rows


def write_table(tail: DocumentTail, rows: list[list[Cell]], place: BlockPlace, environment: EnvType) -> None:
    """Writes a table: hairlines between rows, a header that stands out, columns aligned as they are marked. Leaves the
    cursor behind it, in an empty block that takes next to no space."""
    above = tail.cursor.blockFormat().bottomMargin()  # Qt leaves it out before a table
    table = tail.cursor.insertTable(len(rows), len(rows[0]), _shape(place, above))
    cursor = table.firstCursorPosition()
    for r, row in enumerate(rows):
        for c, cell in enumerate(row):
            _line_below(table, r, c, tail)
            _write_cell(tail, cursor, cell, place, environment)
            cursor.movePosition(QTextCursor.MoveOperation.NextBlock)
    tail.cursor.movePosition(QTextCursor.MoveOperation.End)
    tiny = QTextCharFormat()
    tiny.setFontPointSize(1)
    tail.cursor.setBlockFormat(QTextBlockFormat())
    tail.cursor.setBlockCharFormat(tiny)


def _write_cell(tail: DocumentTail, cursor: QTextCursor, cell: Cell, place: BlockPlace, environment: EnvType) -> None:
    shape = QTextBlockFormat(block_shape(BlockPlace(bars=place.bars), 0, 0, 130.0))
    shape.setAlignment(_ALIGNMENTS.get(cell.alignment, Qt.AlignmentFlag.AlignLeft))
    cursor.setBlockFormat(shape)
    outer, tail.cursor = tail.cursor, cursor
    tail.runs(inline_runs(cell.content, environment, Style(bold=cell.header)))
    tail.cursor = outer


def _shape(place: BlockPlace, above: float) -> QTextTableFormat:
    shape = QTextTableFormat()
    shape.setBorder(0)
    shape.setBorderCollapse(True)
    shape.setCellSpacing(0)
    shape.setLeftMargin(place.left)
    shape.setTopMargin(above)
    shape.setBottomMargin(GAP)
    shape.setHeaderRowCount(1)
    return shape


def _line_below(table: QTextTable, row: int, column: int, tail: DocumentTail) -> None:
    shape = QTextTableCellFormat()
    shape.setBottomBorder(1)
    shape.setBottomBorderStyle(QTextFrameFormat.BorderStyle.BorderStyle_Solid)
    shape.setBottomBorderBrush(
        QBrush(QColor(tail.formats.appearance.faint if row == 0 else tail.formats.appearance.hairline))
    )
    shape.setLeftPadding(0 if column == 0 else 10)
    shape.setRightPadding(10)
    shape.setTopPadding(5)
    shape.setBottomPadding(5)
    table.cellAt(row, column).setFormat(shape)


BULLETS = "•◦▪"
BOXES = {"[ ] ": "☐", "[x] ": "☑", "[X] ": "☑"}


def write(cursor: QTextCursor, source: str, spans: Sequence[Span], appearance: Appearance, tinted: bool) -> None:
    """Appends rendered Markdown. What was written before may have ended within a list or a long paragraph, which
    `source` then continues. The cost depends on `source` alone, however long the document is."""
    cursor.document().setUndoRedoEnabled(False)
    cursor.beginEditBlock()
    cursor.movePosition(QTextCursor.MoveOperation.End)
    text, spans = normalised(source, spans)
    DocumentWriter(DocumentTail(cursor, len(text), spans, appearance, tinted), Lines(text)).write()
    cursor.endEditBlock()


class DocumentWriter:
    """Writes one source at the end of a document."""

    def __init__(self, tail: DocumentTail, lines: Lines) -> None:
        self._tail = tail
        self._lines = lines
        self._environment: EnvType = {}
        self._place = BlockPlace()
        self._places: list[BlockPlace] = []
        self._numbers: list[int | None] = []  # of the next item, of each list around; None: bullets
        self._continued_number: int | None = None  # number that the list goes on with that the source begins with
        self._next: int | None = None  # number of the item that would follow the last list
        self._marker: Traced | None = None  # of an item that has no block yet

    def write(self) -> None:
        """Writes the whole source."""
        before = self._tail.ends
        last: Block | None = None
        for block in blocks(self._lines.text, self._environment):
            if last is None:
                self._continue(before, block)
            why = _too_much(block)
            if why:
                self._as_written(block, why)
            else:
                self._write(block.tokens)
            last = block
        if last is not None:
            self._tail.ends = self._ending(last)

    # --- over the border of two sources ------------------------------------------------------------

    def _ending(self, last: Block) -> str:
        if last.kind == "paragraph_open" and last.lines[1] >= len(self._lines):
            end = self._lines.text[-1]
            return "paragraph" + (end if end in " \n" else "")
        if last.kind.endswith("list_open"):
            return f"{last.kind} {last.tokens[0].markup} {self._next or ''}"
        return ""

    def _continue(self, before: str, first: Block) -> None:
        if before.startswith("paragraph") and first.kind == "paragraph_open" and not self._lines.is_empty(0):
            self._tail.joined(before.removeprefix("paragraph"))
        elif before.startswith(f"{first.kind} {first.tokens[0].markup} "):
            number = before.rpartition(" ")[2]
            self._continued_number = int(number) if number else None

    # --- blocks ------------------------------------------------------------------------------------

    def _write(self, tokens: list[Token]) -> None:
        i = 0
        while i < len(tokens):
            token = tokens[i]
            if token.type == "table_open":
                end = next(j for j in range(i, len(tokens)) if tokens[j].type == "table_close")
                self._table(tokens[i:end])
                i = end
            elif token.nesting > 0:
                self._open(token, tokens[i + 1])
            elif token.nesting < 0:
                self._close(token)
            else:
                self._leaf(token)
            i += 1

    def _open(self, token: Token, after: Token) -> None:
        if token.type == "paragraph_open":
            self._paragraph(token, after)
        elif token.type == "heading_open":
            self._heading(token, _traced(after))
        elif token.type == "list_item_open":
            self._item(token)
        elif token.type in ("bullet_list_open", "ordered_list_open", "blockquote_open"):
            self._flush_marker()
            self._places.append(self._place)
            quoted = token.type == "blockquote_open"
            self._place = self._place.within_quote() if quoted else self._place.within_list()
            if not quoted:
                self._numbers.append(self._first_number(token))

    def _close(self, token: Token) -> None:
        if token.type in ("bullet_list_close", "ordered_list_close", "blockquote_close"):
            self._place = self._places.pop()
            if token.type != "blockquote_close":
                self._next = self._numbers.pop()
        elif token.type == "list_item_close":
            self._flush_marker()

    def _leaf(self, token: Token) -> None:
        if token.type == "inline":
            return
        self._flush_marker()
        if token.type in ("fence", "code_block"):
            label = self._label(token)
            write_code(self._tail, _traced(token), label, self._place, is_closed(token))
        elif token.type == "maths_block":
            shape = QTextBlockFormat(block_shape(replace(self._place, left=self._place.left + 24), 4, GAP))
            self._tail.block(shape)
            self._tail.text(readable(_traced(token)), Style(italic=True, size=1.05))
        elif token.type == "hr":
            shape = QTextBlockFormat(block_shape(self._place, 8, 8 + GAP, 100.0))
            shape.setProperty(KIND, RULE)
            self._tail.block(shape)
            self._tail.text(Traced("\u00a0", [-1]), BODY)  # Qt gives an empty block behind a table no room

    def _paragraph(self, token: Token, inline: Token) -> None:
        assert token.map is not None
        below = GAP if not self._place.lists or self._lines.is_empty(token.map[1]) else TIGHT
        self._pieces(list(pieces(_traced(inline))), below)

    def _pieces(self, parts: list[Traced], below: float) -> None:
        """Writes one paragraph."""
        for i, part in enumerate(parts):
            self._text_block(part.strip(), Style(), 0, below)
            if i < len(parts) - 1:
                self._tail.joined(part[-1] if part[-1] in " \n" else "")

    def _heading(self, token: Token, content: Traced) -> None:
        """Writes a heading. Of an underlined paragraph that had to be cut, the last piece is the heading."""
        *before, last = pieces(content) if token.markup in ("=", "-") else [content]
        self._pieces(before, GAP)
        size, above, below = HEADINGS[int(token.tag[1])]
        self._text_block(last, Style(bold=True, size=size), above, below, 125.0)

    def _text_block(self, content: Traced, style: Style, above: float, below: float, line: float = LINE_HEIGHT) -> None:
        """Writes a block of text, with the marker of the item that it is the first block of."""
        marker, self._marker = self._marker, None
        if marker is not None and content[:4] in BOXES:
            marker = Traced(BOXES[content[:4]], content.at[:1])
            content = content.part(4, len(content))
        if marker is None:
            self._tail.block(block_shape(self._place, above, below, line))
        else:
            hanging = self._tail.formats.hanging(marker)
            place = replace(self._place, left=self._place.left + max(0.0, hanging - INDENT))
            shape = QTextBlockFormat(block_shape(place, above, below, line, hanging))
            shape.setProperty(MARKER, len(marker) + 1)
            self._tail.block(shape)
            self._tail.text(Traced(marker + "\t", [*marker.at, -1]), BODY)
        self._tail.runs(inline_runs(content, self._environment, style))

    def _flush_marker(self) -> None:
        if self._marker is not None:
            self._text_block(Traced("", ()), BODY, 0, 0)

    def _table(self, tokens: list[Token]) -> None:
        self._flush_marker()
        write_table(self._tail, rows_of(tokens), self._place, self._environment)

    # --- items of lists ----------------------------------------------------------------------------

    def _first_number(self, token: Token) -> int | None:
        if token.type == "bullet_list_open":
            return None
        continued, self._continued_number = self._continued_number, None
        return int(token.attrs.get("start", 1)) if continued is None else continued

    def _item(self, token: Token) -> None:
        start = token.meta["at"]
        number = self._numbers[-1]
        if number is None:
            self._marker = Traced(BULLETS[min(self._place.lists - 1, 2)], [start])
            return
        written = f"{token.info}{token.markup}"
        shown = f"{number}{token.markup}"
        at = range(start, start + len(shown)) if shown == written else [start] * len(shown)
        self._marker = Traced(shown, at)
        self._numbers[-1] = number + 1

    # --- code ---------------------------------------------------------------------------------------

    def _label(self, token: Token) -> Traced:
        """Returns the first word after a fence, which names the language."""
        words = token.info.split()
        if not words or token.map is None:
            return Traced("", ())
        line = self._lines[token.map[0]]
        start = self._lines.start(token.map[0]) + len(line) - len(token.info)
        start += token.info.find(words[0])
        word = words[0][:40]
        return Traced(word, range(start, start + len(word)))

    # --- what is not rendered -----------------------------------------------------------------------

    def _as_written(self, block: Block, why: str) -> None:
        """Writes a block without rendering it. Of a paragraph that is too long from some piece on, what stands before
        is rendered, because it may have been shown before the rest came."""
        start = self._lines.start(block.lines[0])
        text = "\n".join(self._lines[line] for line in range(*block.lines))
        written = Traced(text, range(start, start + len(text)))
        before = rendered_pieces(block)
        if before:
            self._pieces(before, GAP)
            end = before[-1]
            self._tail.joined(end[-1] if end[-1] in " \n" else "")
            written = written.part(end.at[-1] + 1 - start, len(written))
        self._tail.note(f"Shown as written: {why}.")
        write_lines(self._tail, written)


def _traced(token: Token) -> Traced:
    assert isinstance(token.content, Traced)
    return token.content


def rendered_pieces(block: Block) -> list[Traced]:
    """Returns the pieces of a paragraph before the first that is too long; nothing for other blocks."""
    if block.deep or block.kind != "paragraph_open":
        return []
    return list(takewhile(lambda piece: len(piece) <= LONGEST_INLINE, pieces(_traced(block.tokens[1]))))


def _too_much(block: Block) -> str:
    """Returns why a block is not rendered; "" if it is."""
    if block.deep:
        return "nested too deeply"
    contents = (_traced(token) for token in block.tokens if token.type == "inline")
    long = (piece for content in contents if len(content) > LONGEST_INLINE for piece in pieces(content))
    return "a line is too long" if any(len(piece) > LONGEST_INLINE for piece in long) else ""
