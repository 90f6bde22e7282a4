"""A document that follows a source which only grows.

What is closed is written once, and only the open end again. A code fence that is still open grows line by line.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Sequence

from PySide6.QtGui import QTextBlockFormat, QTextCursor, QTextDocument

from app.window.common.appearance import Appearance
from app.window.markdown.code_boxes import LONGEST_LINE, end_box, write_line
from app.window.markdown.document_tail import DocumentTail, remove_from, write_raw
from app.window.markdown.document_writer import write
from app.window.markdown.stable_prefix import closed
from app.window.markdown.text_formats import CODE_LINE, KIND, BlockPlace
from app.window.markdown.token_spans import Span
from app.window.markdown.traced_parser import LONGEST_PARAGRAPH, Traced

_OPENING = re.compile(r"( {0,3})(`{3,}(?=[^`\n]*\n)|~{3,})[^\n]*\n")


class OpenFence:
    """The open fence that a document ends with. start: where in its source the line begins that may still grow."""

    def __init__(self, indent: int, closing: re.Pattern[str], start: int, partial: bool) -> None:
        self._indent = indent
        self._closing = closing
        self._partial = partial  # whether the document's last block is the line that begins at `start`
        self.start = start

    @classmethod
    def begun(cls, source: str) -> OpenFence | None:
        """Returns the fence of a source that is one open fence and nothing else; None for other sources."""
        opening = _OPENING.match(source)
        if opening is None or "\r" in source:
            return None
        indent, marker = len(opening[1]), opening[2]
        closing = re.compile(rf"^ {{0,3}}{re.escape(marker[0])}{{{len(marker)},}}[ \t]*$", re.MULTILINE)
        if closing.search(source, opening.end()):
            return None
        start = source.rfind("\n") + 1
        return cls(indent, closing, start, start == opening.end() or bool(source[start:].strip(" \t")))

    def grow(
        self, document: QTextDocument, source: str, spans: Sequence[Span], appearance: Appearance, tinted: bool
    ) -> bool:
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
            self._remove_partial_line(cursor)
            self._write(DocumentTail(cursor, len(source), spans, appearance, tinted), shown)
            self._partial = not whole
            self.start += source.rfind("\n") + 1
        return True

    def _remove_partial_line(self, cursor: QTextCursor) -> None:
        """Removes the partial line, and the space below the last."""
        if self._partial:
            before = cursor.block().previous()
            remove_from(cursor, cursor.block().position() - 1, before.blockFormat())
        shape = cursor.blockFormat()
        if shape.property(KIND) == CODE_LINE:
            shape.setBottomMargin(0)
            cursor.setBlockFormat(shape)

    def _write(self, page: DocumentTail, lines: list[str]) -> None:
        place = 0
        for line in lines:
            cut = min(self._indent, len(line) - len(line.lstrip(" ")))
            write_line(page, Traced(line[cut:], range(place + cut, place + len(line))), BlockPlace())
            place += len(line) + 1
        end_box(page)


class GrowingDocument:
    """Keeps `document`, empty at first, in step with a growing source. What is closed is written once; only the open
    end is written again when it grows, and of an open fence only its last line.

    settled: characters of the source that are written for good; spans that end before it may be left out from then on.
    """

    def __init__(self, document: QTextDocument, appearance: Appearance, tinted: bool, raw: bool = False) -> None:
        self._document = document
        self._appearance = appearance
        self._tinted = tinted
        self._raw = raw
        self._end = 0  # where in the document the open end begins
        self._end_shape = QTextBlockFormat()
        self._shown = 0
        self._looked = 0  # up to here the source was searched for what is closed
        self._fence: OpenFence | None = None
        self.settled = 0

    def grow(self, source: str, spans: Sequence[Span]) -> None:
        """Shows `source`, which begins with what was shown before. spans: in order, by characters of `source`."""
        if len(source) == self._shown:
            return
        self._shown = len(source)
        cursor = QTextCursor(self._document)
        cursor.beginEditBlock()  # one layout for all that changes
        if self._raw:
            self._grow_raw(source, spans)
        elif not self._grow_fence(source, spans):
            remove_from(cursor, self._end, self._end_shape)
            self._settle(source, spans)
            self._fence = OpenFence.begun(source[self.settled :])
            write(cursor, *_part(source, spans, self.settled, len(source)), self._appearance, self._tinted)
        cursor.endEditBlock()

    def _grow_raw(self, source: str, spans: Sequence[Span]) -> None:
        end = len(source) - source.endswith("\r")  # a line feed may follow, and belong to it
        part = _part(source, spans, self.settled, end)
        write_raw(QTextCursor(self._document), *part, self._appearance, self._tinted)
        self.settled = end

    def _grow_fence(self, source: str, spans: Sequence[Span]) -> bool:
        if self._fence is None:
            return False
        part = _part(source, spans, self.settled + self._fence.start, len(source))
        return self._fence.grow(self._document, *part, self._appearance, self._tinted)

    def _settle(self, source: str, spans: Sequence[Span]) -> None:
        """Writes what has been closed since the last time."""
        if source.find("\n", self._looked) < 0 and len(source) - self.settled <= LONGEST_PARAGRAPH:
            return
        self._looked = len(source)
        final = self.settled + closed(source[self.settled :])
        if final > self.settled:
            part = _part(source, spans, self.settled, final)
            write(QTextCursor(self._document), *part, self._appearance, self._tinted)
            self.settled = final
            self._end = self._document.characterCount() - 1
            self._end_shape = self._document.lastBlock().blockFormat()


def _part(source: str, spans: Sequence[Span], start: int, end: int) -> tuple[str, list[Span]]:
    """Returns source[start:end] and its spans."""
    first = bisect_right(spans, start, key=lambda span: span.end)
    last = bisect_right(spans, end - 1, key=lambda span: span.start)
    moved = [Span(max(span.start - start, 0), span.end - start, span.origin, span.token) for span in spans[first:last]]
    return source[start:end], moved
