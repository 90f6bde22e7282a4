"""Refused draft tokens within the text: struck through, small, grey, and no part of what is copied."""

from __future__ import annotations

from typing import Any

from PySide6.QtGui import QColor, QTextCharFormat, QTextCursor, QTextDocument, QTextFormat, QTextLayout

from app.window.common.appearance import Appearance
from app.window.markdown import TOKEN
from app.window.markdown.text_formats import MARKER
from app.window.markdown.visible_text import visible

REFUSED: int = QTextFormat.Property.UserProperty.value + 64  # on every character that is not of the reply
_SMALLER = 0.8
_BLANKS = str.maketrans({"\n": "⏎", "\t": "⇥"})
_LONGEST = 120  # characters of one refused text


def insert(document: QTextDocument, refused: dict[int, str], appearance: Appearance) -> None:
    """Puts each refused text before the token that came instead; where Markdown shows nothing of that token, before the
    next one that is shown. refused: by the number of that token."""
    waiting = sorted(refused)
    places: dict[int, list[str]] = {}
    for token, start, _ in runs(document):
        while waiting and waiting[0] <= token:
            places.setdefault(_behind_marker(document, start), []).append(_in_view(refused[waiting.pop(0)]))
    cursor = QTextCursor(document)
    cursor.beginEditBlock()
    for start, texts in sorted(places.items(), reverse=True):
        cursor.setPosition(start + 1)
        shape = _shape(cursor, appearance)
        cursor.setPosition(start)
        cursor.insertText("".join(texts), shape)
        _move_colours(cursor, start)
    cursor.endEditBlock()


def _behind_marker(document: QTextDocument, start: int) -> int:
    """Returns `start`, or what comes after the marker of an item, which stands in a column of its own."""
    block = document.findBlock(start)
    marker = int(block.blockFormat().property(MARKER) or 0)
    return max(start, block.position() + min(marker, block.length() - 1))


def _move_colours(cursor: QTextCursor, start: int) -> None:
    """Moves the colours of code behind an inserted text: they lie over the line by their places in it."""
    block = cursor.block()
    at, length = start - block.position(), cursor.position() - start
    moved: list[QTextLayout.FormatRange] = []
    for colour in block.layout().formats():
        first, last, shape = _parts(colour)
        if first < at:
            moved.append(_range(first, min(last, at), shape))
        if last > at:
            moved.append(_range(max(first, at) + length, last + length, shape))
    block.layout().setFormats(moved)


# PySide's stubs do not know the fields of a FormatRange.
def _parts(colour: Any) -> tuple[int, int, QTextCharFormat]:
    return colour.start, colour.start + colour.length, colour.format


def _range(start: int, end: int, shape: QTextCharFormat) -> QTextLayout.FormatRange:
    made: Any = QTextLayout.FormatRange()
    made.start, made.length, made.format = start, end - start, shape
    ranged: QTextLayout.FormatRange = made
    return ranged


def runs(document: QTextDocument) -> list[tuple[int, int, int]]:
    """Returns (token, start, end) of the characters that came from tokens, in order. A token may have several runs."""
    found: list[tuple[int, int, int]] = []
    block = document.begin()
    while block.isValid():
        place = block.begin()
        while not place.atEnd():
            fragment = place.fragment()
            shape = fragment.charFormat()
            token = shape.property(TOKEN)
            if isinstance(token, int) and not shape.hasProperty(REFUSED):
                start = fragment.position()
                found.append((token, start, start + fragment.length()))
            place += 1
        block = block.next()
    return found


def position_without(document: QTextDocument, position: int) -> int:
    """Returns where `position` would be without refused tokens."""
    before = 0
    block = document.begin()
    while block.isValid() and block.position() < position:
        place = block.begin()
        while not place.atEnd():
            fragment = place.fragment()
            if fragment.charFormat().hasProperty(REFUSED):
                before += max(0, min(position - fragment.position(), fragment.length()))
            place += 1
        block = block.next()
    return position - before


def _in_view(text: str) -> str:
    shown = visible(text).translate(_BLANKS)
    return shown if len(shown) <= _LONGEST else f"{shown[:_LONGEST]}…"


def _shape(beside: QTextCursor, appearance: Appearance) -> QTextCharFormat:
    """Returns the format of refused text: small, grey and struck through, in the family of the text around it."""
    shape, like = QTextCharFormat(), beside.charFormat()
    if like.hasProperty(QTextFormat.Property.FontFamilies):
        shape.setFontFamilies(like.fontFamilies())
    shape.setProperty(REFUSED, True)
    shape.setForeground(QColor(appearance.faint))
    shape.setFontStrikeOut(True)
    shape.setFontPointSize(beside.document().defaultFont().pointSizeF() * _SMALLER)
    return shape
