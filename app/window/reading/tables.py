"""Tables: hairlines between rows, a header that stands out, columns aligned as they are marked."""

from __future__ import annotations

from collections.abc import Sequence
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

from app.window.reading.inline import inline_runs
from app.window.reading.page import Page
from app.window.reading.shapes import GAP, Place, Style, block_shape
from app.window.reading.tracing import Traced

_ALIGNMENTS = {"center": Qt.AlignmentFlag.AlignHCenter, "right": Qt.AlignmentFlag.AlignRight}


class Cell(NamedTuple):
    """content: not yet parsed."""

    content: Traced
    alignment: str
    header: bool


def rows_of(tokens: Sequence[Token]) -> list[list[Cell]]:
    """The cells of a table from its tokens."""
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


def write_table(page: Page, rows: list[list[Cell]], place: Place, environment: EnvType) -> None:
    """Leaves the cursor behind it, in an empty block that takes next to no room."""
    above = page.cursor.blockFormat().bottomMargin()  # Qt leaves it out before a table
    table = page.cursor.insertTable(len(rows), len(rows[0]), _shape(place, above))
    cursor = table.firstCursorPosition()
    for r, row in enumerate(rows):
        for c, cell in enumerate(row):
            _line_below(table, r, c, page)
            _write_cell(page, cursor, cell, place, environment)
            cursor.movePosition(QTextCursor.MoveOperation.NextBlock)
    page.cursor.movePosition(QTextCursor.MoveOperation.End)
    tiny = QTextCharFormat()
    tiny.setFontPointSize(1)
    page.cursor.setBlockFormat(QTextBlockFormat())
    page.cursor.setBlockCharFormat(tiny)


def _write_cell(page: Page, cursor: QTextCursor, cell: Cell, place: Place, environment: EnvType) -> None:
    shape = QTextBlockFormat(block_shape(Place(bars=place.bars), 0, 0, 130.0))
    shape.setAlignment(_ALIGNMENTS.get(cell.alignment, Qt.AlignmentFlag.AlignLeft))
    cursor.setBlockFormat(shape)
    outer, page.cursor = page.cursor, cursor
    page.runs(inline_runs(cell.content, environment, Style(bold=cell.header)))
    page.cursor = outer


def _shape(place: Place, above: float) -> QTextTableFormat:
    shape = QTextTableFormat()
    shape.setBorder(0)
    shape.setBorderCollapse(True)
    shape.setCellSpacing(0)
    shape.setLeftMargin(place.left)
    shape.setTopMargin(above)
    shape.setBottomMargin(GAP)
    shape.setHeaderRowCount(1)
    return shape


def _line_below(table: QTextTable, row: int, column: int, page: Page) -> None:
    shape = QTextTableCellFormat()
    shape.setBottomBorder(1)
    shape.setBottomBorderStyle(QTextFrameFormat.BorderStyle.BorderStyle_Solid)
    shape.setBottomBorderBrush(QBrush(QColor(page.shapes.look.faint if row == 0 else page.shapes.look.hairline)))
    shape.setLeftPadding(0 if column == 0 else 10)
    shape.setRightPadding(10)
    shape.setTopPadding(5)
    shape.setBottomPadding(5)
    table.cellAt(row, column).setFormat(shape)
