"""A read-only browser that loads nothing and opens nothing; what is painted behind its document: code boxes, bars of
quotes, rules; and what the document says, as plain text and by tokens."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

from PySide6.QtCore import QMimeData, QPointF, QRectF, Qt, QUrl, Signal
from PySide6.QtGui import (
    QColor,
    QPainter,
    QPaintEvent,
    QTextBlock,
    QTextDocument,
    QTextFragment,
    QTextOption,
    QTextTable,
)
from PySide6.QtWidgets import QTextBrowser, QWidget

from app.palette import mix
from app.window.common.appearance import Appearance
from app.window.markdown.links import safe_link
from app.window.markdown.text_formats import (
    APPEARANCE,
    BARS,
    CODE,
    CODE_HEAD,
    CODE_LINE,
    DEPTH,
    GAP,
    GOES_ON,
    KIND,
    LANGUAGE,
    MARKER,
    NOTE,
    PADDING,
    REFUSED,
    RULE,
    TIGHT,
    TOKEN,
    noted,
)

RADIUS = 8.0
HEAD_ABOVE = 8  # px from the top of a box to its label
_MARKERS = {"•": "-", "◦": "-", "▪": "-", "☐": "- [ ]", "☑": "- [x]"}


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


# --- what a document says -------------------------------------------------------------------------


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
            code = "\n".join(map(_own_text, lines[1:])) if exact is None else exact
            found.append(CodeBlock(code, noted(shape, LANGUAGE) or "", _box_of(document, block, lines[-1])))
            block = lines[-1].next()
        else:
            block = block.next()
    return found


def plain_text(document: QTextDocument, start: int, end: int) -> str:
    """Returns characters [start, end) of the document as text: items of lists with their markers, cells of a row
    between tabs, code as it is without its label, paragraphs that were cut in one."""
    text: list[str] = []
    block = document.findBlock(start)
    before: QTextBlock | None = None
    while block.isValid() and block.position() < end:
        if not _is_skipped(document, block):
            if before is not None:
                text.append(_between(document, before, block))
            text.append(_text(block, start, end))
            before = block
        block = block.next()
    return "".join(text)


def _is_skipped(document: QTextDocument, block: QTextBlock) -> bool:
    if block.blockFormat().property(KIND) in (CODE_HEAD, NOTE):
        return True
    return block.length() == 1 and _table(document, block.previous()) is not None and _table(document, block) is None


def _table(document: QTextDocument, block: QTextBlock) -> QTextTable | None:
    frame = document.frameAt(block.position()) if block.isValid() else None
    return frame if isinstance(frame, QTextTable) else None


def _between(document: QTextDocument, before: QTextBlock, block: QTextBlock) -> str:
    shape = before.blockFormat()
    separator = noted(shape, GOES_ON)
    if separator is not None:
        return separator
    table = _table(document, before)
    if table is not None and table == _table(document, block):
        return "\n" if table.cellAt(block.position()).column() == 0 else "\t"
    kind = shape.property(KIND)
    of_one = kind is not None and kind == block.blockFormat().property(KIND)
    return "\n" if of_one or (table is None and shape.bottomMargin() <= TIGHT) else "\n\n"


def _text(block: QTextBlock, start: int, end: int) -> str:
    shape = block.blockFormat()
    if shape.property(KIND) == RULE:
        return "---"
    text = _own_text(block, start, end)
    if start > block.position():
        return text
    depth, marker = int(shape.property(DEPTH) or 0), shape.hasProperty(MARKER)
    if marker and "\t" in text:
        sign, _, text = text.partition("\t")
        text = f"{_MARKERS.get(sign, sign)} {text}"
    return "  " * (depth - marker) + text


def _own_text(block: QTextBlock, start: int = 0, end: int = 2**31) -> str:
    """Returns the text of a block between two places of the document, without refused tokens."""
    text = ""
    for fragment in fragments(block):
        if not fragment.charFormat().hasProperty(REFUSED):
            units = fragment.text().encode("utf-16-le", "surrogatepass")
            first, last = max(0, start - fragment.position()), max(0, end - fragment.position())
            text += units[2 * first : 2 * last].decode("utf-16-le", "replace")
    return text.replace("\u2028", "\n")


def fragments(block: QTextBlock) -> Iterator[QTextFragment]:
    """Yields the stretches of one format of a block."""
    place = block.begin()
    while not place.atEnd():
        yield place.fragment()
        place += 1


def token_runs(document: QTextDocument) -> list[tuple[int, int, int]]:
    """Returns (token, start, end) of the characters that came from tokens, in order. A token may have several runs."""
    found: list[tuple[int, int, int]] = []
    block = document.begin()
    while block.isValid():
        for fragment in fragments(block):
            token = fragment.charFormat().property(TOKEN)
            if isinstance(token, int):
                found.append((token, fragment.position(), fragment.position() + fragment.length()))
        block = block.next()
    return found
