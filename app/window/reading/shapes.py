"""The shapes of text: formats of characters and blocks for a look, each made once."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cache
from math import ceil

from PySide6.QtGui import (
    QColor,
    QFont,
    QFontDatabase,
    QFontMetricsF,
    QTextBlockFormat,
    QTextCharFormat,
    QTextFormat,
    QTextOption,
)

from app.window.look import Look
from app.window.reading.palette import text_colour
from engine.events import Origin

_USER = QTextFormat.Property.UserProperty.value
KIND = _USER + 2  # of a block: one of the strings below; others have none
BARS = _USER + 3  # of a block: x of the bar of each quote around it, "0,40"
CODE = _USER + 4  # of the first block of a code box: its exact code
LANGUAGE = _USER + 5  # likewise
DEPTH = _USER + 6  # of a block: levels of lists around it
MARKER = _USER + 7  # of an item's first block: characters of its marker, tab included
ENDS = _USER + 8  # of the last block written: what a source that goes on there needs to know
GOES_ON = _USER + 9  # of a block that was cut: the next is of the same line

LOOK = "look"  # property of a document: the look that it was written with

CODE_HEAD, CODE_LINE, RULE, RAW, NOTE = "head", "code", "rule", "raw", "note"

LINE_HEIGHT, CODE_LINE_HEIGHT = 145.0, 140.0  # per cent
PADDING = 12  # px, within code boxes
GAP = 10  # px, below a paragraph
INDENT = 28  # px, of the items of a list
MARKER_GAP = 8  # px, between the marker of an item and its text
TIGHT = 3  # px, below items of a list without empty lines
HEADINGS = {1: (1.45, 22, 8), 2: (1.25, 20, 6), 3: (1.1, 16, 4), 4: (1.0, 14, 4), 5: (1.0, 14, 4), 6: (1.0, 14, 4)}


@dataclass(frozen=True)
class Style:
    """What a run of text is. size: times the document's font. link: a safe address, or ""."""

    bold: bool = False
    italic: bool = False
    struck: bool = False
    mono: bool = False
    boxed: bool = False
    faint: bool = False
    link: str = ""
    size: float = 1.0


BODY = Style()
CODE_TEXT = Style(mono=True)


class Shapes:
    """Formats for one look and one default font."""

    def __init__(self, look: Look, tinted: bool, font: QFont) -> None:
        self.look = look
        self._tinted = tinted
        self._size = font.pointSizeF() if font.pointSizeF() > 0 else font.pixelSize() * 0.75
        self._metrics = QFontMetricsF(font)
        self._made: dict[Style, dict[Origin | None, QTextCharFormat]] = {}

    def hanging(self, marker: str) -> float:
        """px from where a marker begins to the text behind it."""
        return ceil(self._metrics.horizontalAdvance(marker)) + MARKER_GAP

    def characters(self, style: Style) -> QTextCharFormat:
        """For text of no token."""
        return self.by_origin(style)[None]

    def by_origin(self, style: Style) -> dict[Origin | None, QTextCharFormat]:
        """For the text of tokens, still without their numbers."""
        made = self._made.get(style)
        if made is None:
            origins: list[Origin | None] = [None, "accepted", "corrected", "bonus"]
            made = {origin: self._make(style, origin if self._tinted else None) for origin in origins}
            self._made[style] = made
        return made

    def _make(self, style: Style, origin: Origin | None) -> QTextCharFormat:
        look, shape = self.look, QTextCharFormat()
        colour = look.text
        if style.faint:
            colour = text_colour(look.faint, look)
        if style.link:
            colour = text_colour(look.accent, look)
            shape.setAnchor(True)
            shape.setAnchorHref(style.link)
            shape.setUnderlineStyle(QTextCharFormat.UnderlineStyle.SingleUnderline)
        shape.setForeground(QColor(colour))
        if style.bold:
            shape.setFontWeight(QFont.Weight.DemiBold)
        if style.italic:
            shape.setFontItalic(True)
        if style.struck:
            shape.setFontStrikeOut(True)
        if style.mono:
            shape.setFontFamilies(mono_families())
            shape.setFontFixedPitch(True)
        if style.size != 1.0 or style.mono:
            shape.setFontPointSize(self._size * style.size * (0.92 if style.mono else 1.0))
        if style.boxed:
            shape.setBackground(QColor(look.hover))
        self._tint(shape, origin)
        return shape

    def _tint(self, shape: QTextCharFormat, origin: Origin | None) -> None:
        """The second cue is a line under the text, so that colour is never needed."""
        if origin is None:
            return
        shape.setBackground(QColor(self.look.tints[origin]))
        if origin != "accepted":
            solid = origin == "corrected"
            lines = QTextCharFormat.UnderlineStyle
            shape.setUnderlineStyle(lines.SingleUnderline if solid else lines.DotLine)
            shape.setUnderlineColor(QColor(self.look.hues[origin]))


@cache
def mono_families() -> list[str]:
    """The system's font of fixed width."""
    return [QFontDatabase.systemFont(QFontDatabase.SystemFont.FixedFont).family()]


@dataclass(frozen=True)
class Place:
    """Where blocks go. left: px. bars: x of the bar of each quote around. lists: levels of lists around."""

    left: float = 0.0
    bars: tuple[float, ...] = ()
    lists: int = 0

    def within_quote(self) -> Place:
        return replace(self, left=self.left + 18, bars=(*self.bars, self.left))

    def within_list(self) -> Place:
        return replace(self, left=self.left + INDENT, lists=self.lists + 1)


@cache
def block_shape(
    place: Place, above: float, below: float, line: float = LINE_HEIGHT, hanging: float = 0
) -> QTextBlockFormat:
    """above, below: px, of which the greater of two neighbours' counts. hanging: px that the first line begins
    further left, for a marker; a tab leads from it to the text. Copy the format before changing it."""
    shape = QTextBlockFormat()
    shape.setLeftMargin(place.left)
    shape.setTopMargin(above)
    shape.setBottomMargin(below)
    shape.setLineHeight(line, QTextBlockFormat.LineHeightTypes.ProportionalHeight.value)
    if hanging:
        shape.setTextIndent(-hanging)
        shape.setTabPositions([QTextOption.Tab(hanging, QTextOption.TabType.LeftTab)])
    if place.bars:
        shape.setProperty(BARS, ",".join(f"{x:g}" for x in place.bars))
    if place.lists:
        shape.setProperty(DEPTH, place.lists)
    return shape


def note(shape: QTextBlockFormat, name: int, text: str) -> None:
    """Keeps a text under `name`. PySide would take "" for an empty list, hence the period."""
    shape.setProperty(name, text + ".")


def noted(shape: QTextBlockFormat, name: int) -> str | None:
    """What `note` kept."""
    text = shape.property(name)
    return None if text is None else str(text)[:-1]
