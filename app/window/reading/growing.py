"""A document that follows a source which only grows."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence

from PySide6.QtGui import QTextBlockFormat, QTextCursor, QTextDocument

from app.window.look import Look
from app.window.reading.closing import closed
from app.window.reading.fences import OpenFence
from app.window.reading.markdown import LONGEST_PARAGRAPH
from app.window.reading.page import remove_from
from app.window.reading.raw import write_raw
from app.window.reading.spans import Span
from app.window.reading.writing import write


class Growing:
    """Keeps `document`, empty at first, in step with a growing source. What is closed is written once; only the open
    end is written again when it grows, and of an open fence only its last line.

    settled: characters of the source that are written for good; spans that end before it may be left out from then on.
    """

    def __init__(self, document: QTextDocument, look: Look, tinted: bool, raw: bool = False) -> None:
        self._document = document
        self._look = look
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
            write(cursor, *_part(source, spans, self.settled, len(source)), self._look, self._tinted)
        cursor.endEditBlock()

    def _grow_raw(self, source: str, spans: Sequence[Span]) -> None:
        end = len(source) - source.endswith("\r")  # a line feed may follow, and belong to it
        part = _part(source, spans, self.settled, end)
        write_raw(QTextCursor(self._document), *part, self._look, self._tinted)
        self.settled = end

    def _grow_fence(self, source: str, spans: Sequence[Span]) -> bool:
        if self._fence is None:
            return False
        part = _part(source, spans, self.settled + self._fence.start, len(source))
        return self._fence.grow(self._document, *part, self._look, self._tinted)

    def _settle(self, source: str, spans: Sequence[Span]) -> None:
        """Writes what has been closed since."""
        if source.find("\n", self._looked) < 0 and len(source) - self.settled <= LONGEST_PARAGRAPH:
            return
        self._looked = len(source)
        final = self.settled + closed(source[self.settled :])
        if final > self.settled:
            part = _part(source, spans, self.settled, final)
            write(QTextCursor(self._document), *part, self._look, self._tinted)
            self.settled = final
            self._end = self._document.characterCount() - 1
            self._end_shape = self._document.lastBlock().blockFormat()


def _part(source: str, spans: Sequence[Span], start: int, end: int) -> tuple[str, list[Span]]:
    """source[start:end], and the spans of that."""
    first = bisect_right(spans, start, key=lambda span: span.end)
    last = bisect_right(spans, end - 1, key=lambda span: span.start)
    moved = [Span(max(span.start - start, 0), span.end - start, span.origin, span.token) for span in spans[first:last]]
    return source[start:end], moved
