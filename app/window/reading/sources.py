"""A source as the parser sees it: lines end with a line feed."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from itertools import accumulate

from app.window.reading.spans import Span


def normalised(source: str, spans: Sequence[Span]) -> tuple[str, Sequence[Span]]:
    """`source` with every line end a line feed, and the spans of that."""
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
        """Where a line begins in the text."""
        return min(self._starts[line], len(self.text))
