"""Which token each character of a source came from; and a source as the parser sees it, with line feeds alone."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator, Sequence
from itertools import accumulate, groupby
from typing import NamedTuple

from PySide6.QtGui import QTextFormat

from engine.events import Origin

# On every rendered character that came from a Span: `span.token`.
TOKEN: int = QTextFormat.Property.UserProperty.value + 1


class Span(NamedTuple):
    """Characters [start, end) of a source that one token completed. token: its running number in the message.
    origin: None for text that no round is known of, such as an old message without rounds."""

    start: int
    end: int
    origin: Origin | None
    token: int


class SpanIndex:
    """Finds the span of each character of a source. Spans are in order and do not overlap."""

    def __init__(self, length: int, spans: Sequence[Span]) -> None:
        self._spans = spans
        self._owner = owner = [-1] * length
        for index, span in enumerate(spans):
            if 0 <= span.start < span.end <= length:
                owner[span.start : span.end] = (index,) * (span.end - span.start)
            elif (start := max(span.start, 0)) < (end := min(span.end, length)):
                owner[start:end] = (index,) * (end - start)
        owner.append(-1)  # what place -1 finds

    def runs(self, text: str, at: Sequence[int]) -> Iterator[tuple[str, Span | None]]:
        """Yields `text`, whose character i came from `at[i]` of the source (-1: from nowhere), in runs of one span
        each."""
        start = 0
        for index, run in groupby(map(self._owner.__getitem__, at)):
            end = start + len(list(run))
            yield text[start:end], self._spans[index] if index >= 0 else None
            start = end


def normalised(source: str, spans: Sequence[Span]) -> tuple[str, Sequence[Span]]:
    """Returns `source` with line feeds as its only line ends, and the spans of that."""
    if "\r" not in source:
        return source, spans
    gone = [i for i, character in enumerate(source) if character == "\r" and source[i + 1 : i + 2] == "\n"]
    moved = [
        Span(
            span.start - bisect_left(gone, span.start), span.end - bisect_left(gone, span.end), span.origin, span.token
        )
        for span in spans
    ]
    return source.replace("\r\n", "\n").replace("\r", "\n"), moved


class Lines:
    """The lines of a normalised source."""

    def __init__(self, text: str) -> None:
        self.text = text
        lines = text.split("\n")
        self._lines = lines[:-1] if not lines[-1] else lines
        self._starts = [0, *accumulate(len(line) + 1 for line in lines)]

    def __len__(self) -> int:
        return len(self._lines)

    def __getitem__(self, line: int) -> str:
        return self._lines[line]

    def is_empty(self, line: int) -> bool:
        """Whether there is such a line, with nothing in it but marks of quotes."""
        return line < len(self._lines) and not self._lines[line].strip(" \t>")

    def is_blank(self, line: int) -> bool:
        """Whether there is such a line, with nothing in it at all."""
        return line < len(self._lines) and not self._lines[line].strip(" \t")

    def start(self, line: int) -> int:
        """Returns where a line begins in the text."""
        return min(self._starts[line], len(self.text))
