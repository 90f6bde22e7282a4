"""What a document says, for comparing and for asking."""

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

from PySide6.QtCore import QRectF
from PySide6.QtGui import QColor, QImage, QPainter, QTextBlock, QTextCharFormat, QTextDocument, QTextTable

from app.reply import Span
from app.window.common.appearance import LIGHT, Appearance
from app.window.markdown import decorate, write
from app.window.markdown.reader import fragments
from app.window.markdown.reader import text_blocks as blocks
from app.window.markdown.text_formats import BARS, BOXED, CODE, DEPTH, GOES_ON, KIND, LANGUAGE, MARKER
from app.window.markdown.token_tints import token_list
from engine.events import Origin

NOTED = (KIND, BARS, CODE, LANGUAGE, DEPTH, MARKER, GOES_ON)


class Shown(NamedTuple):
    """One rendered character. token: None where it says none. origin: that is painted behind it."""

    character: str
    token: int | None
    shape: QTextCharFormat
    origin: Origin | None = None


def each(source: str, **kwargs: Any) -> list[Span]:
    """A span for each character of its own: token i is character i."""
    return [Span(i, i + 1, kwargs.get("origin", "accepted"), i) for i in range(len(source))]


def rendered(source: str, spans: Sequence[Span] = (), look: Appearance = LIGHT, tinted: bool = True) -> QTextDocument:
    """A new document of `source`."""
    document = QTextDocument()
    write(document, source, spans, look, tinted)
    return document


def characters(document: QTextDocument) -> Iterator[Shown]:
    """Every character, without the ends of blocks."""
    for block in blocks(document):
        yield from characters_of(block)


def characters_of(block: QTextBlock) -> Iterator[Shown]:
    """Every character of one block."""
    known, place = token_list(block.document()), block.position()
    for text, shape in runs(block):
        for character in text:
            run = next(known.within(place, place + 1), None)
            place += 1 + (character > "\uffff")
            yield Shown(character, run and run.token, shape, run and run.origin)


def runs(block: QTextBlock) -> Iterator[tuple[str, QTextCharFormat]]:
    """Text and format, as the document keeps them."""
    return ((fragment.text(), fragment.charFormat()) for fragment in fragments(block))


def painted_behind(document: QTextDocument, look: Appearance, width: int = 300) -> QImage:
    """What is painted behind the text of a document that is so many px wide."""
    document.setTextWidth(width)
    image = QImage(width, round(document.size().height()), QImage.Format.Format_RGB32)
    image.fill(QColor(look.background))
    painter = QPainter(image)
    decorate(painter, document, look, QRectF(image.rect()))
    painter.end()
    return image


def described(document: QTextDocument) -> list[object]:
    """Everything that shows, for comparing two documents."""
    return [_described(document, block) for block in blocks(document)]


def _described(document: QTextDocument, block: QTextBlock) -> object:
    shape, frame = block.blockFormat(), document.frameAt(block.position())
    margins = (shape.topMargin(), shape.bottomMargin(), shape.leftMargin(), shape.textIndent(), shape.lineHeight())
    noted = tuple(str(shape.property(name)) for name in NOTED)
    text = [(text, _appearance(shape)) for text, shape in runs(block)]
    tokens = list(token_list(document).within(block.position(), block.position() + block.length()))
    over = [(r.start, r.length, r.format.foreground().color().name()) for r in block.layout().formats()]  # type: ignore[attr-defined]
    cell = frame.cellAt(block.position()) if isinstance(frame, QTextTable) else None
    return margins, noted, text, tokens, over, (cell.row(), cell.column()) if cell is not None else None


def _appearance(shape: QTextCharFormat) -> tuple[object, ...]:
    return (
        shape.fontWeight(),
        shape.fontItalic(),
        shape.fontStrikeOut(),
        shape.fontPointSize(),
        tuple(shape.fontFamilies() or ()),
        shape.underlineStyle(),
        shape.anchorHref(),
        shape.foreground().color().name(),
        shape.hasProperty(BOXED),
    )
