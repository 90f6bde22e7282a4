"""Formats of characters and blocks for an appearance, each made once.

Colours of text stay readable on every ground that it may stand on: the page, code boxes and the tints.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from functools import cache
from math import ceil
from typing import Literal

from PySide6.QtCore import Qt
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

from app.palette import Scheme, mix
from app.window.common.appearance import READABLE, Appearance, contrast


@cache
def readable(colour: str, scheme: Scheme, grounds: tuple[str, ...]) -> str:
    """Returns `colour`, moved towards black or white until it is readable on all `grounds`."""
    towards = "#000000" if scheme == "light" else "#ffffff"
    tried = (mix(colour, towards, step / 20) for step in range(21))
    return next((c for c in tried if all(contrast(c, ground) > READABLE for ground in grounds)), towards)


def grounds(appearance: Appearance) -> tuple[str, ...]:
    """Returns the grounds that text of a reply may stand on."""
    return (appearance.background, appearance.raised, appearance.code, appearance.hover, *appearance.tints.values())


def text_colour(preferred: str, appearance: Appearance) -> str:
    """Returns `preferred`, changed until it is readable wherever text of a reply may stand."""
    return readable(preferred, appearance.scheme, grounds(appearance))


_USER = QTextFormat.Property.UserProperty.value
BOXED = _USER + 1  # of text: code within a line, which has a box behind it
KIND = _USER + 2  # of a block: one of the strings below; others have none
BARS = _USER + 3  # of a block: x of the bar of each quote around it, "0,40"
CODE = _USER + 4  # of the first block of a code box: its exact code
LANGUAGE = _USER + 5  # likewise
DEPTH = _USER + 6  # of a block: levels of lists around it
MARKER = _USER + 7  # of an item's first block: characters of its marker, tab included
GOES_ON = _USER + 8  # of a block that was cut: what stands between its text and that of the next
REFUSED = _USER + 9  # of text: a drafted token that the target refused, which is no part of the reply
FORMULA = _USER + 10  # of the character that stands for a formula: its source
TOKENS = _USER + 11  # likewise: the tokens that it came from (`formula_object`)
DISPLAY = _USER + 12  # likewise: whether it stands on a line of its own
SIZE = _USER + 13  # likewise: px of the text around it
MARKED = _USER + 14  # of a selection: the token of a formula that it marks, WHOLE for all of it,
MARKED_GROUND = _USER + 15  # and the colour behind its symbols
SPOKEN = _USER + 16  # of text that nobody sees: a formula as a screen reader reads it, behind the character for it
WHOLE = -1

APPEARANCE = "appearance"  # property of a document: the appearance that it was written with

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
    """What a run of text looks like. size: times the document's font. link: a safe address, or "". refused: whether it
    is a drafted token that the target refused. formula: the text is a formula that is set, within a line or on a line
    of its own ("display")."""

    bold: bool = False
    italic: bool = False
    struck: bool = False
    mono: bool = False
    boxed: bool = False
    faint: bool = False
    refused: bool = False
    link: str = ""
    size: float = 1.0
    script: Literal["", "sub", "sup"] = ""
    formula: Literal["", "inline", "display"] = ""


BODY = Style()
CODE_TEXT = Style(mono=True)


class TextFormats:
    """The formats of characters for one appearance and one default font."""

    def __init__(self, appearance: Appearance, font: QFont) -> None:
        self.appearance = appearance
        self._size = font.pointSizeF() if font.pointSizeF() > 0 else font.pixelSize() * 0.75
        self._metrics = QFontMetricsF(font)
        self._made: dict[Style, QTextCharFormat] = {}

    def hanging(self, marker: str) -> float:
        """Returns the px from where a marker begins to the text after it."""
        return ceil(self._metrics.horizontalAdvance(marker)) + MARKER_GAP

    def points(self, style: Style) -> float:
        """Returns the size of text."""
        return self._size * style.size

    def characters(self, style: Style) -> QTextCharFormat:
        """Returns the format of a style."""
        made = self._made.get(style)
        if made is None:
            made = self._made[style] = self._make(style)
        return made

    def _make(self, style: Style) -> QTextCharFormat:
        appearance, shape = self.appearance, QTextCharFormat()
        colour = appearance.text
        if style.faint:
            colour = text_colour(appearance.faint, appearance)
        if style.link:
            colour = text_colour(appearance.accent, appearance)
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
            shape.setFontFamilies(fixed_families())
            shape.setFontFixedPitch(True)
        if style.size != 1.0 or style.mono:
            shape.setFontPointSize(self._size * style.size * (0.92 if style.mono else 1.0))
        if style.boxed:
            shape.setProperty(BOXED, True)
        if style.script:
            lines = QTextCharFormat.VerticalAlignment
            shape.setVerticalAlignment(lines.AlignSuperScript if style.script == "sup" else lines.AlignSubScript)
        if style.refused:
            shape.setProperty(REFUSED, True)
            shape.setForeground(QColor(appearance.faint))
            shape.setFontPointSize(self._size * style.size)
        return shape


def spoken_format() -> QTextCharFormat:
    """Returns the format of text that takes no room and has no colour, and is only read aloud."""
    shape = QTextCharFormat()
    shape.setProperty(SPOKEN, True)
    shape.setFontPointSize(0.1)
    shape.setFontLetterSpacing(0.01)  # per cent of the width of letters; 0 stands for all of it
    shape.setForeground(Qt.GlobalColor.transparent)
    return shape


@cache
def fixed_families() -> list[str]:
    """Returns the system's font of fixed width."""
    return [QFontDatabase.systemFont(QFontDatabase.SystemFont.FixedFont).family()]


RIGHT_TO_LEFT = re.compile("[\u0590-\u08ff\u200f\ufb1d-\ufdff\ufe70-\ufeff\U00010800-\U00010fff\U0001e800-\U0001efff]")
_LETTER = re.compile(r"[^\W\d_]")


def is_right_to_left(text: str) -> bool:
    """Whether a text runs from right to left: its first letter does, or most of its letters do, since many such texts
    begin with a Latin name."""
    if RIGHT_TO_LEFT.search(text) is None:
        return False
    letters = _LETTER.findall(text)
    count = sum(RIGHT_TO_LEFT.match(letter) is not None for letter in letters)
    return bool(letters) and (RIGHT_TO_LEFT.match(letters[0]) is not None or 2 * count > len(letters))


@dataclass(frozen=True)
class BlockPlace:
    """Where blocks go. left: px, of blocks that run from right to left from the right. bars: x of the bar of each quote
    around, likewise. lists: levels of lists around."""

    left: float = 0.0
    bars: tuple[float, ...] = ()
    lists: int = 0
    right_to_left: bool = False

    def for_text(self, text: str) -> BlockPlace:
        """Returns the place of a block of text, whose letters say in which direction it runs; without any from right to
        left, it runs as the block around."""
        return replace(self, right_to_left=is_right_to_left(text)) if RIGHT_TO_LEFT.search(text) else self

    def within_quote(self) -> BlockPlace:
        return replace(self, left=self.left + 18, bars=(*self.bars, self.left))

    def within_list(self) -> BlockPlace:
        return replace(self, left=self.left + INDENT, lists=self.lists + 1)


@cache
def block_shape(
    place: BlockPlace,
    above: float,
    below: float,
    line: float = LINE_HEIGHT,
    hanging: float = 0,
    kind: str = "",
) -> QTextBlockFormat:
    """Returns a block format. above, below: px, of which the greater of two neighbours' counts. hanging: px that the
    first line begins further left, for a marker; a tab leads from it to the text. Copy the format before changing
    it."""
    shape = QTextBlockFormat()
    if kind:
        shape.setProperty(KIND, kind)
    if place.right_to_left:
        shape.setLayoutDirection(Qt.LayoutDirection.RightToLeft)
        shape.setRightMargin(place.left)
    else:
        shape.setLayoutDirection(Qt.LayoutDirection.LeftToRight)
        shape.setLeftMargin(place.left)
    shape.setTopMargin(above)
    shape.setBottomMargin(below)
    shape.setLineHeight(line, QTextBlockFormat.LineHeightTypes.ProportionalHeight.value)
    if hanging:
        shape.setTextIndent(-hanging)
        # Qt takes a right tab for a left one where text runs from right to left.
        tab = QTextOption.TabType.RightTab if place.right_to_left else QTextOption.TabType.LeftTab
        shape.setTabPositions([QTextOption.Tab(hanging, tab)])
    if place.bars:
        shape.setProperty(BARS, ",".join(f"{x:g}" for x in place.bars))
    if place.lists:
        shape.setProperty(DEPTH, place.lists)
    return shape


def note(shape: QTextBlockFormat, name: int, text: str) -> None:
    """Stores a text under `name`. PySide would take "" for an empty list, hence the period."""
    shape.setProperty(name, text + ".")


def noted(shape: QTextBlockFormat, name: int) -> str | None:
    """Returns what `note` stored; None if nothing."""
    text = shape.property(name)
    return None if text is None else str(text)[:-1]
