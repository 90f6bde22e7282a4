"""A formula in a document: one character whose format holds the formula and the tokens that it came from, drawn with
each symbol on the tint of its own token."""

from bisect import bisect_right
from functools import lru_cache

import msgspec
from PySide6.QtCore import QPointF, QRect, QRectF, QSizeF
from PySide6.QtGui import (
    QBrush,
    QColor,
    QFont,
    QFontMetrics,
    QPainter,
    QPen,
    QPyTextObject,
    QTextCharFormat,
    QTextCursor,
    QTextDocument,
    QTextFormat,
)

from app.reply import Span
from app.window.common.appearance import Appearance
from app.window.common.screens import text_dpi
from app.window.markdown.formula_layout import Box, Mark, formula_box, formula_lines
from app.window.markdown.formula_spans import in_dollars
from app.window.markdown.text_blocks import Formula
from app.window.markdown.text_formats import (
    APPEARANCE,
    DISPLAY,
    FORMULA,
    MARKED,
    MARKED_GROUND,
    SIZE,
    TOKENS,
    WHOLE,
    Style,
)
from app.window.markdown.token_tints import TINT_LINES
from engine.events import Origin

_TYPE = QTextFormat.ObjectTypes.UserObject.value + 1
_LARGEST_PX = 4000
SMALLEST = 0.75  # scale of a formula on one line; a wider one is broken


def formula_format(
    base: QTextCharFormat, formula: Formula, style: Style, points: float, tinted: bool
) -> QTextCharFormat:
    """Returns the format of the character that stands for a formula. points: the size of the text around it.

    Qt lays out an object as far below the baseline as its font's descent, so the format takes a font whose descent is
    that of the formula.
    """
    size_px = round(points * text_dpi() / 72, 1)
    box = formula_box(formula.source, size_px, style.formula == "display")
    assert box is not None  # only formulas that can be set become objects
    font = QFont(base.font())
    font.setPixelSize(max(1, round(size_px)))
    while _descent(font) < box.descent and font.pixelSize() < _LARGEST_PX:
        font.setPixelSize(font.pixelSize() + max(1, round(box.descent - _descent(font))))
    shape = QTextCharFormat(base)
    shape.setFont(font)
    shape.setObjectType(_TYPE)
    shape.setVerticalAlignment(QTextCharFormat.VerticalAlignment.AlignBaseline)
    shape.setProperty(FORMULA, formula.source)
    shape.setProperty(DISPLAY, style.formula == "display")
    shape.setProperty(SIZE, size_px)
    spans = formula.spans if tinted else [span._replace(origin=None) for span in formula.spans]
    shape.setProperty(TOKENS, msgspec.json.encode(spans).decode())
    return shape


def install_formulas(document: QTextDocument) -> None:
    """Has a document draw its formulas."""
    document.documentLayout().registerHandler(_TYPE, _drawer())


def formula_source(shape: QTextFormat) -> str | None:
    """Returns the formula that a format stands for, in LaTeX with its dollars; None if it is of no formula."""
    source = shape.property(FORMULA)
    return None if source is None else in_dollars(source, bool(shape.property(DISPLAY)))


def formula_mark(token: int, shape: QTextCharFormat) -> QTextCharFormat:
    """Returns the format of a selection that marks only one token of a formula, or WHOLE of it, in the colours of
    `shape`. It has no background, with which Qt would cover the whole formula."""
    mark = QTextCharFormat()
    mark.setProperty(MARKED, token)
    mark.setProperty(MARKED_GROUND, shape.background().color().name())
    mark.setForeground(shape.foreground())
    return mark


def token_within(document: QTextDocument, character: int, place: QRectF, point: QPointF) -> int | None:
    """Returns the token of the symbol at `point` of the formula that `character` stands for and that was drawn into
    `place`; None between symbols."""
    cursor = QTextCursor(document)
    cursor.setPosition(character + 1)
    shape = cursor.charFormat()
    box, scale = _fitted(shape, document, character)
    at = QPointF((point.x() - place.left()) / scale, (point.y() - _baseline(shape, place)) / scale)
    hit = next((mark for mark in reversed(box.marks) if mark.place.contains(at)), None)
    owner = None if hit is None else _owner(_spans(shape), hit.at)
    return None if owner is None else owner.token


class FormulaDrawer(QPyTextObject):
    """Measures and draws formulas for Qt's text layout."""

    def intrinsicSize(self, doc: QTextDocument, posInDocument: int, format: QTextFormat) -> QSizeF:
        shape = format.toCharFormat()
        box, scale = _fitted(shape, doc, posInDocument)
        return QSizeF(box.width * scale, box.ascent * scale + _descent(shape.font()))

    def drawObject(
        self, painter: QPainter, rect: QRectF | QRect, doc: QTextDocument, posInDocument: int, format: QTextFormat
    ) -> None:
        shape = format.toCharFormat()
        appearance = doc.property(APPEARANCE)
        if not isinstance(appearance, Appearance):
            return
        box, scale = _fitted(shape, doc, posInDocument)
        painter.save()
        painter.setRenderHint(QPainter.RenderHint.Antialiasing)
        painter.translate(rect.left(), _baseline(shape, QRectF(rect)))
        painter.scale(scale, scale)
        _draw(painter, box, shape, appearance)
        painter.restore()


@lru_cache(maxsize=1)
def _drawer() -> FormulaDrawer:
    return FormulaDrawer()


def _draw(painter: QPainter, box: Box, shape: QTextCharFormat, appearance: Appearance) -> None:
    """Draws the tints and then the symbols, of which those of a marked token have its colours."""
    spans, marked = _spans(shape), shape.property(MARKED)
    owners = [_owner(spans, mark.at) for mark in box.marks]
    if marked == WHOLE:
        place = QRectF(0, -box.ascent, box.width, box.ascent + box.descent)
        painter.fillRect(place, QColor(str(shape.property(MARKED_GROUND))))
    for mark, owner in zip(box.marks, owners, strict=True):
        if owner is not None and owner.token == marked:
            painter.fillRect(mark.place, QColor(str(shape.property(MARKED_GROUND))))
        elif owner is not None and owner.origin is not None and marked != WHOLE:
            _tint(painter, mark.place, owner.origin, appearance)
    plain = QColor(appearance.text) if marked not in (None, WHOLE) else shape.foreground().color()
    for mark, owner in zip(box.marks, owners, strict=True):
        chosen = owner is not None and owner.token == marked
        _draw_mark(painter, mark, shape.foreground().color() if chosen else plain)


def _tint(painter: QPainter, place: QRectF, origin: Origin, appearance: Appearance) -> None:
    painter.fillRect(place, QColor(appearance.tints[origin]))
    if origin in TINT_LINES:
        painter.setPen(QPen(QColor(appearance.hues[origin]), 1, TINT_LINES[origin]))
        painter.drawLine(place.bottomLeft(), place.bottomRight())


def _draw_mark(painter: QPainter, mark: Mark, colour: QColor) -> None:
    if mark.path is not None:
        painter.fillPath(mark.path, QBrush(colour))
    elif mark.font is not None:
        painter.setPen(colour)
        painter.setFont(mark.font)
        painter.drawText(QPointF(mark.place.left(), mark.baseline), mark.text)


def _fitted(shape: QTextCharFormat, document: QTextDocument, character: int) -> tuple[Box, float]:
    """Returns the layout of a format's formula, on lines if it were too small to read on one, and the scale at which it
    fits into the width of its block."""
    given = str(shape.property(FORMULA)), float(shape.property(SIZE)), bool(shape.property(DISPLAY))
    box = formula_box(*given)
    assert box is not None
    indent = document.findBlock(character).blockFormat().leftMargin()
    free = document.textWidth() - 2 * document.documentMargin() - indent - 1
    if 0 < free < SMALLEST * box.width:
        box = formula_lines(*given, float(int(free)))
        assert box is not None
    return box, min(1.0, free / box.width) if free > 0 and box.width else 1.0


def _descent(font: QFont) -> float:
    """Returns the descent of a font as Qt's layout of objects rounds it."""
    return QFontMetrics(font).descent()


def _baseline(shape: QTextCharFormat, place: QRectF) -> float:
    return place.bottom() - _descent(shape.font())


def _spans(shape: QTextFormat) -> tuple[Span, ...]:
    """Returns the tokens of a format's formula, by characters of its source."""
    text = shape.property(TOKENS)
    return _decoded(text) if isinstance(text, str) else ()


@lru_cache(maxsize=512)
def _decoded(text: str) -> tuple[Span, ...]:
    return msgspec.json.decode(text, type=tuple[Span, ...])


def _owner(spans: tuple[Span, ...], at: int) -> Span | None:
    """Returns the token that completed the character at this place of the formula."""
    index = bisect_right(spans, at, key=lambda span: span.start) - 1
    return spans[index] if index >= 0 and at < spans[index].end else None
