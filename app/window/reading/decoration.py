"""What is painted behind a document: code boxes, bars of quotes, rules."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from PySide6.QtCore import QPointF, QRectF, Qt
from PySide6.QtGui import QColor, QPainter, QTextBlock, QTextDocument

from app.window.look import Look, mix
from app.window.reading.shapes import BARS, CODE, CODE_HEAD, CODE_LINE, GAP, KIND, LANGUAGE, PADDING, RULE, noted

RADIUS = 8.0
HEAD_ABOVE = 8  # px from the top of a box to its label


class CodeBlock(NamedTuple):
    """A code block of a document: its exact code, its language ("" if none), and its box in document coordinates."""

    code: str
    language: str
    box: QRectF


def code_blocks(document: QTextDocument) -> list[CodeBlock]:
    """In order. Lays out the document as far as its last code block. The code of a fence that is still open is as it
    is shown."""
    found = []
    block = document.begin()
    while block.isValid():
        shape = block.blockFormat()
        if shape.property(KIND) == CODE_HEAD:
            lines = list(_lines(block))
            exact = noted(shape, CODE)
            code = "\n".join(line.text() for line in lines[1:]) if exact is None else exact
            found.append(CodeBlock(code, noted(shape, LANGUAGE) or "", _box_of(document, block, lines[-1])))
            block = lines[-1].next()
        else:
            block = block.next()
    return found


def decorate(painter: QPainter, document: QTextDocument, look: Look, clip: QRectF) -> None:
    """Code boxes, bars and rules within `clip`, in document coordinates; paint the document over them."""
    painter.save()
    painter.setRenderHint(QPainter.RenderHint.Antialiasing)
    block = _first_within(document, clip)
    while block.isValid():
        rect, following = _rect(document, block), block.next()
        if rect.top() > clip.bottom() + GAP + HEAD_ABOVE:
            break
        kind = _kind(block)
        if kind in (CODE_HEAD, CODE_LINE):
            rect, following = _visible_box(document, block, clip)
            _paint_box(painter, rect, look)
        elif kind == RULE:
            _paint_rule(painter, rect, block, document, look)
        _paint_bars(painter, document, block, rect, look)
        block = following
    painter.restore()


def _first_within(document: QTextDocument, clip: QRectF) -> QTextBlock:
    """The first block that may reach into `clip`."""
    place = document.documentLayout().hitTest(
        QPointF(clip.left(), max(0.0, clip.top() - 1)), Qt.HitTestAccuracy.FuzzyHit
    )
    block = document.findBlock(max(0, place))
    return block.previous() if block.previous().isValid() else block


def _rect(document: QTextDocument, block: QTextBlock) -> QRectF:
    return document.documentLayout().blockBoundingRect(block)


def _kind(block: QTextBlock) -> str:
    return str(block.blockFormat().property(KIND) or "") if block.isValid() else ""


def _lines(block: QTextBlock) -> Iterator[QTextBlock]:
    """The lines of the code box that `block` is in, from it on."""
    yield block
    block = block.next()
    while _kind(block) == CODE_LINE:
        yield block
        block = block.next()


def _box_of(document: QTextDocument, first: QTextBlock, last: QTextBlock) -> QRectF:
    top = _rect(document, first).top() - HEAD_ABOVE
    left = first.blockFormat().leftMargin() - PADDING + document.documentMargin()
    width = document.textWidth() if document.textWidth() > 0 else document.idealWidth()
    right = width - document.documentMargin()
    return QRectF(left, top, right - left, _rect(document, last).bottom() + PADDING - top)


def _visible_box(document: QTextDocument, block: QTextBlock, clip: QRectF) -> tuple[QRectF, QTextBlock]:
    """Of a box only what may be seen, so that long code costs no more than short; cut ends lie outside `clip`."""
    last = block
    for line in _lines(block):
        last = line
        if _rect(document, line).top() > clip.bottom() + 2 * RADIUS:
            break
    box = _box_of(document, block, last)
    if _kind(block) == CODE_LINE:
        box.setTop(min(box.top(), clip.top()) - 2 * RADIUS)
    return box, last.next()


def _paint_box(painter: QPainter, box: QRectF, look: Look) -> None:
    painter.setPen(QColor(look.hairline))
    painter.setBrush(QColor(look.code))
    painter.drawRoundedRect(box.adjusted(0.5, 0.5, -0.5, -0.5), RADIUS, RADIUS)


def _paint_rule(painter: QPainter, rect: QRectF, block: QTextBlock, document: QTextDocument, look: Look) -> None:
    left = document.documentMargin() + block.blockFormat().leftMargin()
    width = document.textWidth() - document.documentMargin() - left
    painter.fillRect(QRectF(left, round(rect.center().y()), width, 1), QColor(look.hairline))


def _bars(block: QTextBlock) -> list[float]:
    bars = block.blockFormat().property(BARS) if block.isValid() else None
    return [float(x) for x in str(bars).split(",")] if bars else []


def _paint_bars(painter: QPainter, document: QTextDocument, block: QTextBlock, rect: QRectF, look: Look) -> None:
    """Each joined to that of the block above, where it goes on."""
    above = _bars(block.previous())
    for x in _bars(block):
        top = min(rect.top(), _rect(document, block.previous()).bottom()) if x in above else rect.top()
        bar = QRectF(document.documentMargin() + x, top, 3, rect.bottom() - top)
        painter.fillRect(bar.toAlignedRect(), QColor(mix(look.hairline, look.faint, 0.35)))
