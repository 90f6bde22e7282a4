"""Which characters of a document came from which token, the tints behind them, and the lines that underline them.

Tokens end wherever the tokenizer cut, within a letter and its marks or between letters that join. A format of its own
for each token would make Qt shape each alone, so no format knows of tokens: their places stand in a list beside the
document, and tints are painted behind the shaped text, as selections are.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Iterator
from typing import Any, NamedTuple

from PySide6.QtCore import QPointF, QRectF, Qt
from PySide6.QtGui import QColor, QPainter, QPen, QTextBlock, QTextDocument, QTextLine

from app.window.common.appearance import Appearance
from app.window.markdown.text_formats import BOXED, RIGHT_TO_LEFT
from engine.events import Origin

TOKEN_LIST = "tokens"  # property of a document: its TokenList
# The line under a tint, which is a second cue, so that colour is never needed.
TINT_LINES: dict[Origin, Qt.PenStyle] = {"corrected": Qt.PenStyle.SolidLine, "bonus": Qt.PenStyle.DotLine}


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
    known = document.property(TOKEN_LIST)
    return known if isinstance(known, TokenList) else TokenList()


def token_runs(document: QTextDocument) -> list[tuple[int, int, int]]:
    """Returns (token, start, end) of the characters that came from tokens, in order. A token may have several runs."""
    return [run[:3] for run in token_list(document).runs]


def token_of(document: QTextDocument, character: int) -> int | None:
    """Returns the token that a character of a document came from; of a formula the first."""
    return next((run.token for run in token_list(document).within(character, character + 1)), None)


def paint_grounds(painter: QPainter, block: QTextBlock, place: QPointF, appearance: Appearance, clip: QRectF) -> None:
    """Paints what lies behind the text of a block within `clip`: the boxes of code within text, and over them the tints
    of tokens. place: the top left corner of the block's layout."""
    layout, tokens, start = block.layout(), token_list(block.document()), block.position()
    boxed = list(_boxed(block))
    mirrored = block.blockFormat().layoutDirection() == Qt.LayoutDirection.RightToLeft
    mixed = mirrored or RIGHT_TO_LEFT.search(block.text()) is not None
    for number in range(layout.lineCount()):
        line = layout.lineAt(number)
        top = place.y() + line.y()
        if top > clip.bottom() or top + line.height() < clip.top():
            continue
        first, last = line.textStart(), line.textStart() + line.textLength()
        for a, b in boxed:
            for box in _boxes(line, max(a, first), min(b, last), mixed):
                painter.fillRect(box.translated(place), QColor(appearance.hover))
        for run in _joined(tokens.within(start + first, start + last)):
            if run.origin is not None:
                boxes = _boxes(line, run.start - start, run.end - start, mixed)
                _paint_tint(painter, run.origin, boxes, place, top + line.ascent(), appearance)


def _boxed(block: QTextBlock) -> Iterator[tuple[int, int]]:
    """Yields the characters of a block that are code within text."""
    parts = block.begin()
    while not parts.atEnd():
        part = parts.fragment()
        if part.charFormat().hasProperty(BOXED):
            first = part.position() - block.position()
            yield first, first + part.length()
        parts += 1


def _joined(runs: Iterator[TokenRun]) -> Iterator[TokenRun]:
    """Yields the runs, neighbours of one origin as one."""
    before: TokenRun | None = None
    for run in runs:
        if before is not None and before.end == run.start and before.origin == run.origin:
            before = before._replace(end=run.end)
            continue
        if before is not None:
            yield before
        before = run
    if before is not None:
        yield before


def _paint_tint(
    painter: QPainter, origin: Origin, boxes: list[QRectF], place: QPointF, baseline: float, appearance: Appearance
) -> None:
    """Paints the tint of a run, and its line under the text."""
    for box in boxes:
        at = box.translated(place)
        painter.fillRect(at, QColor(appearance.tints[origin]))
        if origin in TINT_LINES:
            pen = QPen(QColor(appearance.hues[origin]), 1, TINT_LINES[origin], Qt.PenCapStyle.FlatCap)
            painter.setPen(pen)
            y = round(baseline + 2) + 0.5
            painter.drawLine(QPointF(at.left(), y), QPointF(at.right(), y))


def _boxes(line: QTextLine, first: int, last: int, mixed: bool) -> list[QRectF]:
    """Returns the places of characters [first, last) of a line, from the corner of its layout; several in a `mixed`
    line, whose letters run in both directions."""
    if first >= last:
        return []
    spans = _shaped_spans(line, first, last) if mixed else [(_x(line, first), _x(line, last))]
    return [QRectF(left, line.y(), right - left, line.height()) for left, right in spans]


def _x(line: QTextLine, character: int) -> float:
    found: Any = line.cursorToX(character)  # a pair, which PySide's stubs do not know
    return float(found[0])


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
