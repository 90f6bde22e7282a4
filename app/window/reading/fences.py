"""A code fence that is still open grows line by line, without being written again."""

from __future__ import annotations

import re
from collections.abc import Sequence

from PySide6.QtGui import QTextCursor, QTextDocument

from app.window.look import Look
from app.window.reading.boxes import LONGEST_LINE, end_box, write_line
from app.window.reading.page import Page, remove_from
from app.window.reading.shapes import CODE_LINE, KIND, Place
from app.window.reading.spans import Span
from app.window.reading.tracing import Traced

_OPENING = re.compile(r"( {0,3})(`{3,}(?=[^`\n]*\n)|~{3,})[^\n]*\n")


class OpenFence:
    """The fence that a document ends with. start: where in its source the line begins that may still grow."""

    def __init__(self, indent: int, closing: re.Pattern[str], start: int, partial: bool) -> None:
        self._indent = indent
        self._closing = closing
        self._partial = partial  # whether the document's last block is the line that begins at `start`
        self.start = start

    @classmethod
    def begun(cls, source: str) -> OpenFence | None:
        """For a source that is one open fence and nothing else; None for all others."""
        opening = _OPENING.match(source)
        if opening is None or "\r" in source:
            return None
        indent, marker = len(opening[1]), opening[2]
        closing = re.compile(rf"^ {{0,3}}{re.escape(marker[0])}{{{len(marker)},}}[ \t]*$", re.MULTILINE)
        if closing.search(source, opening.end()):
            return None
        start = source.rfind("\n") + 1
        return cls(indent, closing, start, start == opening.end() or bool(source[start:].strip(" \t")))

    def grow(self, document: QTextDocument, source: str, spans: Sequence[Span], look: Look, tinted: bool) -> bool:
        """Shows `source`, which is all from `start` on. False, with nothing done, where the fence may have ended or
        is not that simple."""
        lines = source.split("\n")
        if self._closing.search(source) or max(map(len, lines)) > LONGEST_LINE or "\r" in source:
            return False
        if self._indent and "\t" in source:
            return False
        whole = not lines[-1].strip(" \t")  # a last line of spaces is not shown until it ends
        shown = lines[:-1] if whole else lines
        if shown:
            cursor = QTextCursor(document)
            cursor.movePosition(QTextCursor.MoveOperation.End)
            self._make_room(cursor)
            self._write(Page(cursor, len(source), spans, look, tinted), shown)
            self._partial = not whole
            self.start += source.rfind("\n") + 1
        return True

    def _make_room(self, cursor: QTextCursor) -> None:
        """Takes the partial line away, and the room below the last."""
        if self._partial:
            before = cursor.block().previous()
            remove_from(cursor, cursor.block().position() - 1, before.blockFormat())
        shape = cursor.blockFormat()
        if shape.property(KIND) == CODE_LINE:
            shape.setBottomMargin(0)
            cursor.setBlockFormat(shape)

    def _write(self, page: Page, lines: list[str]) -> None:
        place = 0
        for line in lines:
            cut = min(self._indent, len(line) - len(line.lstrip(" ")))
            write_line(page, Traced(line[cut:], range(place + cut, place + len(line))), Place())
            place += len(line) + 1
        end_box(page)
