"""What a document is made of: blocks of runs of text, each of which knows the token that it came from.

Spans say which characters of a source each token completed; `TokenRuns` finds them for text that was rendered from it,
and adds the drafted tokens that were refused there.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import groupby
from typing import NamedTuple

from PySide6.QtGui import QTextBlockFormat, QTextTableFormat

from app.window.markdown.text_formats import BODY, Style
from app.window.markdown.traced_parser import Traced
from app.window.markdown.visible_text import visible
from engine.events import Origin

_BLANKS = str.maketrans({"\n": "⏎", "\t": "⇥"})
_LONGEST_REFUSED = 120  # characters of one refused text


class Span(NamedTuple):
    """Characters [start, end) of a source that one token completed. token: its running number in the message.
    origin: None for text that no round is known of, such as an old message without rounds."""

    start: int
    end: int
    origin: Origin | None
    token: int


class Run(NamedTuple):
    """Text of one style. span: of the token that it came from, None for none."""

    text: str
    style: Style
    span: Span | None


@dataclass
class TextBlock:
    """A paragraph, a heading, a line of code. colours: (start, end, kind) of characters of its text, refused tokens not
    counted. style: of the block itself, which gives an empty one its height."""

    shape: QTextBlockFormat
    runs: list[Run] = field(default_factory=list)
    colours: list[tuple[int, int, str]] = field(default_factory=list)
    style: Style = BODY


@dataclass
class TableBlock:
    """A table of cells by row, of which the first row is the header."""

    shape: QTextTableFormat
    rows: list[list[TextBlock]]


Block = TextBlock | TableBlock


class TokenRuns:
    """Turns text that was rendered from a source into runs. Spans are in order and do not overlap. refused: refused
    texts by the number of the token that came instead; each stands before that token, or where nothing of it is shown,
    before the next one that is."""

    def __init__(self, length: int, spans: Sequence[Span], refused: Mapping[int, str]) -> None:
        self._spans = spans
        self._owner = owner = [-1] * length  # index of the span of each character
        for index, span in enumerate(spans):
            start, end = max(span.start, 0), min(span.end, length)
            if start < end:
                owner[start:end] = (index,) * (end - start)
        owner.append(-1)  # what place -1 finds
        self._refused = sorted(refused.items(), reverse=True)

    def of(self, text: Traced, style: Style, marker: bool = False) -> Iterator[Run]:
        """Yields `text` in runs of one token each. Line feeds break the line within the block. marker: whether it is
        the marker of an item, which stands in a column of its own, where no refused token goes."""
        shown = visible(text).replace("\n", "\u2028")
        start = 0
        for index, places in groupby(map(self._owner.__getitem__, text.at)):
            end = start + len(list(places))
            span = self._spans[index] if index >= 0 else None
            if span is not None and not marker:
                yield from self._refused_before(span.token, style)
            yield Run(shown[start:end], style, span)
            start = end

    def _refused_before(self, token: int, style: Style) -> Iterator[Run]:
        while self._refused and self._refused[-1][0] <= token:
            text = visible(self._refused.pop()[1]).translate(_BLANKS)
            shown = text if len(text) <= _LONGEST_REFUSED else f"{text[:_LONGEST_REFUSED]}…"
            yield Run(shown, replace(BODY, refused=True, struck=True, size=0.8, mono=style.mono), None)


def spans_within(spans: Sequence[Span], start: int, end: int, move: int) -> list[Span]:
    """Returns the spans of source[start:end], cut at its edges and moved by so many characters."""
    first = bisect_right(spans, start, key=lambda span: span.end)
    last = bisect_left(spans, end, key=lambda span: span.start)
    return [Span(max(a, start) + move, min(b, end) + move, origin, token) for a, b, origin, token in spans[first:last]]


def normalised(source: str, spans: Sequence[Span]) -> tuple[str, Sequence[Span]]:
    """Returns `source` with line feeds as its only line ends, and the spans of that."""
    if "\r" not in source:
        return source, spans
    gone = [i for i, character in enumerate(source) if character == "\r" and source[i + 1 : i + 2] == "\n"]
    moved = [
        span._replace(start=span.start - bisect_left(gone, span.start), end=span.end - bisect_left(gone, span.end))
        for span in spans
    ]
    return source.replace("\r\n", "\n").replace("\r", "\n"), moved
