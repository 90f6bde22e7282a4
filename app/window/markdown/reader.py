"""A read-only browser that loads nothing and opens nothing; what is painted behind its document: code boxes, bars of
quotes, rules, tints; and what the document says as plain text."""

from collections.abc import Iterator
from typing import Any, NamedTuple

from PySide6.QtCore import QMimeData, QRectF, Qt, QUrl, Signal
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
from app.window.markdown.formula_object import formula_source
from app.window.markdown.links import safe_link
from app.window.markdown.text_blocks import OBJECT
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
    SPOKEN,
    TIGHT,
    noted,
)
from app.window.markdown.token_tints import paint_grounds, token_list

RADIUS = 8.0
HEAD_ABOVE = 8  # px from the top of a box to its label
_MARKERS = {"•": "-", "◦": "-", "▪": "-", "☐": "- [ ]", "☑": "- [x]"}


def decorate(painter: QPainter, document: QTextDocument, appearance: Appearance, clip: QRectF) -> None:
    """Paints code boxes, bars, rules and the tints of tokens within `clip`, in document coordinates. Paint the document
    over them."""
    painter.save()
    painter.setRenderHint(QPainter.RenderHint.Antialiasing)
    painter.setPen(QColor(appearance.hairline))
    painter.setBrush(QColor(appearance.code))
    above: list[float] = []  # bars
    bottom, margin = 0.0, document.documentMargin()
    for block in text_blocks(document):
        rect, shape = document.documentLayout().blockBoundingRect(block), block.blockFormat()
        layout_place = rect.topLeft()
        kind = shape.property(KIND)
        if rect.top() > clip.bottom() + GAP + HEAD_ABOVE:
            break
        if kind == CODE_HEAD:
            box = _box(document, block)
            rect.setTop(box.top())
            painter.drawRoundedRect(box.adjusted(0.5, 0.5, -0.5, -0.5), RADIUS, RADIUS)
        elif kind == CODE_LINE and shape.bottomMargin():  # the last of a box
            rect.setBottom(rect.bottom() + PADDING)
        elif kind == RULE:
            left = margin + shape.leftMargin()
            line = QRectF(left, round(rect.center().y()), document.textWidth() - margin - left, 1)
            painter.fillRect(line, QColor(appearance.hairline))
        bars = [float(x) for x in str(shape.property(BARS) or "").split(",") if x]
        mirrored = shape.layoutDirection() == Qt.LayoutDirection.RightToLeft
        for x in bars:  # joined to that of the block above where the quote continues
            top = min(rect.top(), bottom) if x in above else rect.top()
            left = document.textWidth() - margin - x - 3 if mirrored else margin + x
            bar = QRectF(left, top, 3, rect.bottom() - top)
            painter.fillRect(bar.toAlignedRect(), QColor(mix(appearance.hairline, appearance.faint, 0.35)))
        if rect.bottom() >= clip.top() and block.length() > 1:
            painter.save()
            painter.setRenderHint(QPainter.RenderHint.Antialiasing, False)
            paint_grounds(painter, block, layout_place, appearance, clip)
            painter.restore()
        above, bottom = bars, rect.bottom()
    painter.restore()


def _code_lines(head: QTextBlock) -> Iterator[QTextBlock]:
    """Yields the lines of the code box that `head` begins."""
    block = head.next()
    while block.isValid() and block.blockFormat().property(KIND) == CODE_LINE:
        yield block
        block = block.next()


def _box(document: QTextDocument, head: QTextBlock) -> QRectF:
    """Returns the box around the code that `head` begins."""
    layout, last = document.documentLayout(), head
    for line in _code_lines(head):
        last = line
    top = layout.blockBoundingRect(head).top() - HEAD_ABOVE
    left = head.blockFormat().leftMargin() - PADDING + document.documentMargin()
    width = document.textWidth() if document.textWidth() > 0 else document.idealWidth()
    right = width - document.documentMargin()
    return QRectF(left, top, right - left, layout.blockBoundingRect(last).bottom() + PADDING - top)


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


def text_blocks(document: QTextDocument) -> Iterator[QTextBlock]:
    """Yields the blocks of a document in order, those within tables included."""
    block = document.begin()
    while block.isValid():
        yield block
        block = block.next()


class CodeBlock(NamedTuple):
    """A code block of a document: where it begins, its language ("" if none), and its box in document coordinates."""

    document: QTextDocument
    head: QTextBlock
    language: str
    box: QRectF

    @property
    def code(self) -> str:
        """The exact code; of a fence that is still open as it is shown."""
        exact = noted(self.head.blockFormat(), CODE)
        return "\n".join(map(_own_text, _code_lines(self.head))) if exact is None else exact


def code_blocks(document: QTextDocument) -> list[CodeBlock]:
    """Returns the code blocks in order. Lays out the document as far as the last one."""
    heads = [block for block in text_blocks(document) if block.blockFormat().property(KIND) == CODE_HEAD]
    return [
        CodeBlock(document, head, noted(head.blockFormat(), LANGUAGE) or "", _box(document, head)) for head in heads
    ]


def plain_text(document: QTextDocument, start: int, end: int) -> str:
    """Returns characters [start, end) of the document as text: items of lists with their markers, cells of a row
    between tabs, code as it is without its label, paragraphs that were cut in one."""
    text: list[str] = []
    before: QTextBlock | None = None
    for block in _in_reading_order(document, start, end):
        if not _is_skipped(document, block):
            if before is not None:
                text.append(_between(document, before, block))
            text.append(_text(block, start, end))
            before = block
    return "".join(text)


def _in_reading_order(document: QTextDocument, start: int, end: int) -> Iterator[QTextBlock]:
    """Yields the blocks of characters [start, end), those of a row from the right where the table runs so."""
    row: list[QTextBlock] = []
    block = document.findBlock(start)
    while block.isValid() and block.position() < end:
        table = _table(document, block)
        if table is None or table.format().layoutDirection() != Qt.LayoutDirection.RightToLeft:
            yield block
        else:
            row.append(block)
            if table.cellAt(block.position()).column() == table.columns() - 1:
                yield from reversed(row)
                row = []
        block = block.next()
    yield from reversed(row)


def _is_skipped(document: QTextDocument, block: QTextBlock) -> bool:
    if block.blockFormat().property(KIND) in (CODE_HEAD, NOTE):
        return True
    if block.length() > 1 or _table(document, block) is not None:
        return False
    beside = block.previous() if block.position() else block.next()  # Qt has an empty block around tables
    return _table(document, beside) is not None


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
        return "\t" if table.cellAt(block.position()).row() == table.cellAt(before.position()).row() else "\n"
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
    """Returns the text of a block between two places of the document, without refused tokens and without
    what is only read aloud."""
    text, written = "", token_list(block.document()).written
    for fragment in fragments(block):
        shape = fragment.charFormat()
        if not (shape.hasProperty(REFUSED) or shape.hasProperty(SPOKEN)):
            units = fragment.text().encode("utf-16-le", "surrogatepass")
            first, last = max(0, start - fragment.position()), max(0, end - fragment.position())
            shown = units[2 * first : 2 * last].decode("utf-16-le", "replace")
            shown = _as_written(shown, fragment.position() + first, written) if written else shown
            formula = formula_source(shape)
            text += shown if formula is None else shown.replace(OBJECT, formula)
    return text.replace("\u2028", "\n")


def _as_written(shown: str, place: int, written: dict[int, str]) -> str:
    """Returns a text that begins at `place` of its document, with what was written in place of signs."""
    made = []
    for character in shown:
        made.append(written.get(place, character))
        place += 1 + (character > "\uffff")
    return "".join(made)


def fragments(block: QTextBlock) -> Iterator[QTextFragment]:
    """Yields the stretches of one format of a block."""
    place = block.begin()
    while not place.atEnd():
        yield place.fragment()
        place += 1
