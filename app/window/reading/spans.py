"""Which token each character of a source came from, and how a rendered character says so."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import groupby
from typing import NamedTuple

from PySide6.QtGui import QTextFormat

from engine.events import Origin

# On every rendered character that came from a Span: `span.token`.
TOKEN: int = QTextFormat.Property.UserProperty.value + 1


class Span(NamedTuple):
    """Characters [start, end) of a source that one token completed. token: its running number in the message.
    origin: None for text that no round told of, such as an old message without rounds."""

    start: int
    end: int
    origin: Origin | None
    token: int


class Owners:
    """For each character of a source, the span that it lies in. Spans are in order and do not overlap."""

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
        """`text`, whose character i came from `at[i]` of the source (-1: from nowhere), in runs of one span each."""
        start = 0
        for index, run in groupby(map(self._owner.__getitem__, at)):
            end = start + len(list(run))
            yield text[start:end], self._spans[index] if index >= 0 else None
            start = end
