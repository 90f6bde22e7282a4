"""What a document is made of: blocks of runs of text, each of which knows the token that it came from.

Spans say which characters of a source each token completed; `TokenRuns` finds them for text that was rendered from it,
and adds the drafted tokens that were refused there. `visible` shows as a sign what would be invisible, reorder its
neighbours or break the document.
"""

import re
from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import groupby
from typing import Any, NamedTuple

from PySide6.QtGui import QTextBlockFormat, QTextTableFormat

from app.reply import Span
from app.window.markdown.text_formats import BODY, Style
from app.window.markdown.traced_parser import Traced

OBJECT = "\ufffc"  # the character that stands for a formula
_BLANKS = str.maketrans({"\n": "⏎", "\t": "⇥"})
_LONGEST_REFUSED = 120  # characters of one refused text


class Formula(NamedTuple):
    """A formula. spans: of its tokens, by characters of `source`."""

    source: str
    spans: tuple[Span, ...]


class Run(NamedTuple):
    """Text of one style. span: of the token that it came from, None for none. formula: the formula that the text, one
    character, stands for; its first token is that of `span`. written: the text as it was written if some of its
    characters are shown as signs, else "". at: the places in the source of its characters, -1 for none."""

    text: str
    style: Style
    span: Span | None
    formula: Formula | None = None
    written: str = ""
    at: Sequence[int] = ()


@dataclass
class TextBlock:
    """A paragraph, a heading, a line of code. colours: (start, end, kind of token of code) of characters of its text,
    refused tokens not counted. style: of the block itself, which gives an empty one its height."""

    shape: QTextBlockFormat
    runs: list[Run] = field(default_factory=list)
    colours: list[tuple[int, int, Any]] = field(default_factory=list)
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
        readable = text.replace("\n", "\u2028")
        shown = visible(text).replace("\n", "\u2028")
        within: list[Span] = []
        for start, end, span in self._owned(text):
            if span is not None and not marker:
                yield from self._refused_before(span.token, style)
            if not style.formula:
                written = "" if shown[start:end] == readable[start:end] else text[start:end]
                yield Run(shown[start:end], style, span, written=written, at=text.at[start:end])
            elif span is not None:
                within.append(span._replace(start=start, end=end))
        if style.formula:
            formula = Formula(str(text), tuple(within))
            yield Run(OBJECT, style, within[0] if within else None, formula, at=text.at[:1])

    def _owned(self, text: Traced) -> Iterator[tuple[int, int, Span | None]]:
        """Yields the stretches of `text` that came from one token each, as [start, end)."""
        start = 0
        for index, places in groupby(map(self._owner.__getitem__, text.at)):
            end = start + len(list(places))
            yield start, end, self._spans[index] if index >= 0 else None
            start = end

    def _refused_before(self, token: int, style: Style) -> Iterator[Run]:
        while self._refused and self._refused[-1][0] <= token:
            text = visible(self._refused.pop()[1]).translate(_BLANKS)
            shown = text if len(text) <= _LONGEST_REFUSED else f"{text[:_LONGEST_REFUSED]}…"
            yield Run(shown, replace(BODY, refused=True, struck=True, size=0.8, mono=style.mono), None)


def utf16_length(text: str) -> int:
    """Returns the length of a text in UTF-16, in which Qt counts."""
    return len(text) if text.isascii() else len(text) + sum(character > "\uffff" for character in text)


def common_length(one: Sequence[object], other: Sequence[object]) -> int:
    """Returns how many items both begin with."""
    pairs = zip(one, other, strict=False)
    return next((i for i, (a, b) in enumerate(pairs) if a != b), min(len(one), len(other)))


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


# --- text that cannot pretend to be other text ---------------------------------------------------

UNKNOWN = "\ufffd"

_BIDI = (*range(0x202A, 0x202F), *range(0x2066, 0x206A))  # overrides and isolates; marks of one character stay
_UNSEEN = (0x17B4, 0x17B5, 0x3164, 0xFFA0, *range(0x206A, 0x2070), *range(0x1D173, 0x1D17B))
# Qt's own marks for frames and objects are among them.
_NO_TEXT = (
    *range(0xFDD0, 0xFDF0),
    *range(0xFFF0, 0xFFFD),
    *(p + e for p in range(0, 0x110000, 0x10000) for e in (0xFFFE, 0xFFFF)),
)


def _table() -> dict[int, str]:
    table = {code: chr(0x2400 + code) for code in range(0x20) if code not in (0x09, 0x0A)}
    table.update({0x7F: "\u2421", 0x2028: "\u2424", 0x2029: "\u2424"})
    for code in (*range(0x80, 0xA0), *range(0xD800, 0xE000), *_BIDI, *_UNSEEN, *_NO_TEXT):
        table[code] = UNKNOWN
    return table


_TABLE = _table()
_ODD = re.compile(
    "[^\t\n -~\u00a0-\u00ac\u00ae-\u02ff\u0370-\u0482\u2010-\u2027\u2030-\u205e\u2190-\u2bff\u3001-\u3163\u4e00-\u9fff]"
)

# Invisible characters that scripts need, each where it does; elsewhere, and the third in a row, they hide something.
_FLAG = "\U0001f3f4[\U000e0030-\U000e0039\U000e0061-\U000e007a]{1,8}\U000e007f"
_SOLITARY = "\u00ad\u034f\u061c\u180b-\u180f\u200b-\u200f\u2060-\u2064\ufeff"
_HIDING = re.compile(
    f"({_FLAG})|[\U000e0000-\U000e00ff\U000e01f0-\U000e0fff]"
    f"|(?<=[{_SOLITARY}]{{2}})[{_SOLITARY}]+"
    "|(?:(?<=[\\s!-~])|\\A)[\u034f\u200c\u200d](?=[\\s!-~]|\\Z)"  # joiners where nothing is joined
    "|(?<![\u1800-\u18af])[\u180b-\u180f]"
    "|(?<![\u1100-\u11ff\ua960-\ua97f])[\u115f\u1160](?![\u1100-\u11ff])"
    "|(?:(?<=[\\sA-Za-z\ufe00-\ufe0f])|\\A)[\ufe00-\ufe0f]"
    "|(?<![\u2e80-\u9fff\uf900-\ufaff\U00020000-\U0003ffff])[\U000e0100-\U000e01ef]"
)
_MARK = (
    "[\u0300-\u036f\u0483-\u0489\u0591-\u05bd\u064b-\u065f\u0e31\u0e34-\u0e3a\u0e47-\u0e4e"
    "\u1ab0-\u1aff\u1dc0-\u1dff\u20d0-\u20ff\ufe20-\ufe2f]"
)
_FLOOD = re.compile(f"({_MARK}{{8}})({_MARK}+)")


def visible(text: str) -> str:
    """Returns `text`, as long as it was. Controls become their pictures; bidirectional overrides and isolates, lone
    surrogates and what is no character U+FFFD, and so do invisible characters where no script needs them. Tabs and line
    feeds stay, and so do joiners beside letters that join, soft hyphens and other breaks, marks of direction, flags,
    one variation selector and eight combining marks on a character."""
    if not _ODD.search(text):
        return text
    text = _HIDING.sub(lambda found: found[1] or UNKNOWN * len(found[0]), text.translate(_TABLE))
    return _FLOOD.sub(lambda flood: flood[1] + UNKNOWN * len(flood[2]), text)
