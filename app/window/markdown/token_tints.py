"""Which characters of a document came from which token, and the tints behind them.

Tokens end wherever the tokenizer cut, within a letter and its marks or between letters that join. A format of its own
for each token would make Qt shape each alone, so no format knows of tokens: their places stand in a list beside the
document, and tints are painted behind the shaped text, as selections are.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterator
from typing import NamedTuple

from PySide6.QtCore import QPointF, QRectF, Qt
from PySide6.QtGui import QColor, QPainter, QPen, QTextBlock, QTextDocument, QTextLine

from app.window.common.appearance import Appearance
from app.window.markdown.text_formats import BOXED, RIGHT_TO_LEFT
from engine.events import Origin

TOKENS = "tokens"  # property of a document: its TokenList
_PARTS = QTextLine.Edge.Leading


class TokenRun(NamedTuple):
    """Characters [start, end) of a document, counted as Qt counts, that came from one token. origin: the tint."""

    token: int
    start: int
    end: int
    origin: Origin | None


class TokenList:
    """The runs of a document in order. A formula is one character, of which each of its tokens has a run. written: what
    was written where a sign is shown instead, by the place of the sign."""

    def __init__(self) -> None:
        self.runs: list[TokenRun] = []
        self.written: dict[int, str] = {}

    def cut(self, place: int) -> None:
        """Forgets what stands at `place` and after it."""
        for sign in [sign for sign in reversed(self.written) if sign >= place]:
            del self.written[sign]
        while self.runs and self.runs[-1].end > place:
            last = self.runs.pop()
            if last.start < place:
                self.runs.append(last._replace(end=place))

    def within(self, start: int, end: int) -> Iterator[TokenRun]:
        """Yields the runs that characters [start, end) came from, cut at the edges."""
        first = bisect_right(self.runs, start, key=lambda run: run.end)
        for run in self.runs[first : bisect_left(self.runs, end, lo=first, key=lambda run: run.start)]:
            yield run._replace(start=max(run.start, start), end=min(run.end, end))


def token_list(document: QTextDocument) -> TokenList:
    """Returns the places of the tokens of a document; none of one that was not written here."""
    known = document.property(TOKENS)
    return known if isinstance(known, TokenList) else TokenList()


def token_runs(document: QTextDocument) -> list[tuple[int, int, int]]:
    """Returns (token, start, end) of the characters that came from tokens, in order. A token may have several runs."""
    return [run[:3] for run in token_list(document).runs]


def token_of(document: QTextDocument, character: int) -> int | None:
    """Returns the token that a character of a document came from; of a formula the first."""
    return next((run.token for run in token_list(document).within(character, character + 1)), None)


def paint_grounds(painter: QPainter, block: QTextBlock, place: QPointF, appearance: Appearance) -> None:
    """Paints what lies behind the text of a block: the boxes of code within text, and the tints of tokens over them.
    place: the top left corner of the block's layout."""
    start = block.position()
    fragment = block.begin()
    while not fragment.atEnd():
        part = fragment.fragment()
        if part.charFormat().hasProperty(BOXED):
            for box, _ in _boxes(block, part.position() - start, part.position() + part.length() - start):
                painter.fillRect(box.translated(place), QColor(appearance.hover))
        fragment += 1
    for run in _joined(token_list(block.document()).within(start, start + block.length() - 1)):
        if run.origin is not None:
            _paint_tint(painter, block, place, run._replace(start=run.start - start, end=run.end - start), appearance)


def _joined(runs: Iterator[TokenRun]) -> Iterator[TokenRun]:
    """Yields the runs, neighbours of one origin as one."""
    open_run: TokenRun | None = None
    for run in runs:
        if open_run is not None and open_run.end == run.start and open_run.origin == run.origin:
            open_run = open_run._replace(end=run.end)
            continue
        if open_run is not None:
            yield open_run
        open_run = run
    if open_run is not None:
        yield open_run


def _paint_tint(painter: QPainter, block: QTextBlock, place: QPointF, run: TokenRun, appearance: Appearance) -> None:
    """Paints the tint of a run. The second cue is a line under the text, so that colour is never needed."""
    assert run.origin is not None
    for box, baseline in _boxes(block, run.start, run.end):
        painter.fillRect(box.translated(place), QColor(appearance.tints[run.origin]))
        if run.origin != "accepted":
            style = Qt.PenStyle.SolidLine if run.origin == "corrected" else Qt.PenStyle.DotLine
            painter.setPen(QPen(QColor(appearance.hues[run.origin]), 1, style, Qt.PenCapStyle.FlatCap))
            y = round(place.y() + baseline + 2) + 0.5
            painter.drawLine(QPointF(place.x() + box.left(), y), QPointF(place.x() + box.right(), y))


def _boxes(block: QTextBlock, start: int, end: int) -> Iterator[tuple[QRectF, float]]:
    """Yields the places of characters [start, end) of a block, and the baseline of each, from the corner of its
    layout. A line whose letters run in both directions has several."""
    layout = block.layout()
    mixed = RIGHT_TO_LEFT.search(block.text()) is not None
    for number in range(layout.lineCount()):
        line = layout.lineAt(number)
        first, last = max(start, line.textStart()), min(end, line.textStart() + line.textLength())
        if first >= last:
            continue
        baseline = line.y() + line.ascent()
        spans = _shaped_spans(line, first, last) if mixed else [(_x(line, first), _x(line, last))]
        for left, right in spans:
            yield QRectF(left, line.y(), right - left, line.height()), baseline


def _x(line: QTextLine, character: int) -> float:
    found = line.cursorToX(character, _PARTS)
    return float(found[0] if isinstance(found, tuple) else found)  # PySide's stubs know only the number


def _shaped_spans(line: QTextLine, first: int, last: int) -> list[tuple[float, float]]:
    """Returns where the glyphs of characters [first, last) stand, from left to right: for them Qt's places of the
    cursor are of no use where the direction changes."""
    spans: list[tuple[float, float]] = []
    for run in line.glyphRuns(first, last - first):
        widths = run.rawFont().advancesForGlyphIndexes(run.glyphIndexes())
        for position, width in zip(run.positions(), widths, strict=True):
            spans.append((position.x(), position.x() + width.x()))
    joined: list[tuple[float, float]] = []
    for left, right in sorted(spans):
        if joined and left <= joined[-1][1] + 1:
            joined[-1] = (joined[-1][0], max(right, joined[-1][1]))
        else:
            joined.append((left, right))
    return joined
