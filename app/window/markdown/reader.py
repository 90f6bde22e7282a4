"""A read-only browser that loads nothing and opens nothing, and what is painted behind its document: code boxes, bars
of quotes, rules."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

from PySide6.QtCore import QMimeData, QPointF, QRectF, Qt, QUrl, Signal
from PySide6.QtGui import QColor, QPainter, QPaintEvent, QTextBlock, QTextDocument, QTextOption
from PySide6.QtWidgets import QTextBrowser, QWidget

from app.palette import mix
from app.window.common.appearance import Appearance
from app.window.markdown.links import safe_link
from app.window.markdown.plain_text import plain_text
from app.window.markdown.text_formats import (
    APPEARANCE,
    BARS,
    CODE,
    CODE_HEAD,
    CODE_LINE,
    GAP,
    KIND,
    LANGUAGE,
    PADDING,
    RULE,
    noted,
)

RADIUS = 8.0
HEAD_ABOVE = 8  # px from the top of a box to its label


class CodeBlock(NamedTuple):
    """A code block of a document: its exact code, its language ("" if none), and its box in document coordinates."""

    code: str
    language: str
    box: QRectF


def code_blocks(document: QTextDocument) -> list[CodeBlock]:
    """Returns the code blocks in order. Lays out the document as far as the last one. The code of a fence that is still
    open is as it is shown."""
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


def decorate(painter: QPainter, document: QTextDocument, appearance: Appearance, clip: QRectF) -> None:
    """Paints code boxes, bars and rules within `clip`, in document coordinates. Paint the document over them."""
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
            _paint_box(painter, rect, appearance)
        elif kind == RULE:
            _paint_rule(painter, rect, block, document, appearance)
        _paint_bars(painter, document, block, rect, appearance)
        block = following
    painter.restore()


def _first_within(document: QTextDocument, clip: QRectF) -> QTextBlock:
    """Returns the first block that may reach into `clip`."""
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
    """Yields the lines of the code box that `block` is in, from it on."""
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
    """Returns the part of a box that may be seen, so that long code costs no more than short. Cut ends lie outside
    `clip`."""
    last = block
    for line in _lines(block):
        last = line
        if _rect(document, line).top() > clip.bottom() + 2 * RADIUS:
            break
    box = _box_of(document, block, last)
    if _kind(block) == CODE_LINE:
        box.setTop(min(box.top(), clip.top()) - 2 * RADIUS)
    return box, last.next()


def _paint_box(painter: QPainter, box: QRectF, appearance: Appearance) -> None:
    painter.setPen(QColor(appearance.hairline))
    painter.setBrush(QColor(appearance.code))
    painter.drawRoundedRect(box.adjusted(0.5, 0.5, -0.5, -0.5), RADIUS, RADIUS)


def _paint_rule(
    painter: QPainter, rect: QRectF, block: QTextBlock, document: QTextDocument, appearance: Appearance
) -> None:
    left = document.documentMargin() + block.blockFormat().leftMargin()
    width = document.textWidth() - document.documentMargin() - left
    painter.fillRect(QRectF(left, round(rect.center().y()), width, 1), QColor(appearance.hairline))


def _bars(block: QTextBlock) -> list[float]:
    bars = block.blockFormat().property(BARS) if block.isValid() else None
    return [float(x) for x in str(bars).split(",")] if bars else []


def _paint_bars(
    painter: QPainter, document: QTextDocument, block: QTextBlock, rect: QRectF, appearance: Appearance
) -> None:
    """Paints the bars of quotes, each joined to that of the block above where the quote continues."""
    above = _bars(block.previous())
    for x in _bars(block):
        top = min(rect.top(), _rect(document, block.previous()).bottom()) if x in above else rect.top()
        bar = QRectF(document.documentMargin() + x, top, 3, rect.bottom() - top)
        painter.fillRect(bar.toAlignedRect(), QColor(mix(appearance.hairline, appearance.faint, 0.35)))


class Reader(QTextBrowser):
    """A read-only browser. link_clicked: a link was followed by mouse or keyboard. Its address passed `safe_link`, and
    nothing opens by itself."""

    link_clicked = Signal(QUrl)

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.setOpenLinks(False)
        self.setUndoRedoEnabled(False)
        self.setWordWrapMode(QTextOption.WrapMode.WrapAtWordBoundaryOrAnywhere)
        self.setAccessibleName("Text of the message")
        self.anchorClicked.connect(self._ask)

    def loadResource(self, kind: int, name: QUrl | str) -> Any:
        """Returns nothing, ever: no pictures, style sheets or pages, wherever they are."""
        return None

    def doSetSource(
        self, name: QUrl | str, kind: QTextDocument.ResourceType = QTextDocument.ResourceType.UnknownResource
    ) -> None:
        """Does nothing: there is no source to go to."""

    def createMimeDataFromSelection(self) -> QMimeData:
        """Returns plain text alone."""
        cursor = self.textCursor()
        data = QMimeData()
        data.setText(plain_text(self.document(), cursor.selectionStart(), cursor.selectionEnd()))
        return data

    def canInsertFromMimeData(self, source: QMimeData) -> bool:
        return False

    def paintEvent(self, event: QPaintEvent) -> None:
        appearance = self.document().property(APPEARANCE)
        if isinstance(appearance, Appearance):
            x, y = self.horizontalScrollBar().value(), self.verticalScrollBar().value()
            painter = QPainter(self.viewport())
            painter.translate(-x, -y)
            decorate(painter, self.document(), appearance, QRectF(event.rect()).translated(x, y))
            painter.end()
        super().paintEvent(event)

    def _ask(self, url: QUrl) -> None:
        address = safe_link(url.toString(QUrl.ComponentFormattingOption.FullyEncoded))
        if address is not None:
            self.link_clicked.emit(address)
