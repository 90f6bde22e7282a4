"""Text as search compares it: without case, accents or look-alikes, so that "cafe" finds "Café" and "ﬁle" is "file".

Each character is folded by itself; therefore folding a part gives a part of the folded whole, and a place in the folded
text leads back to one in the text. White space becomes single spaces one for one, what is never seen goes, NUL too,
which SQLite's tokenizers stop at.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Sequence

# Canonical combining classes that are letters rather than accents: nukta, kana voicing, virama.
_LETTERS = (0, 7, 8, 9)
_BLOCK = 1024  # characters whose folded length is looked at together
_QUOTES = dict.fromkeys("\u2018\u2019\u201a\u201b\u2032", "'") | dict.fromkeys("\u201c\u201d\u201e\u201f\u2033", '"')


class _Table(dict[int, str]):
    """For str.translate: learns a character when it first meets it."""

    def __missing__(self, code: int) -> str:
        self[code] = folded = _folded(chr(code))
        return folded


def _folded(character: str) -> str:
    if character in _QUOTES:
        return _QUOTES[character]
    if character.isspace() or unicodedata.category(character) == "Cc":
        return " "
    if unicodedata.category(character) == "Cf" or "\ufe00" <= character <= "\ufe0f":  # joiners, variation selectors
        return ""
    plain = unicodedata.normalize("NFKD", unicodedata.normalize("NFKD", character).casefold())
    kept = "".join(c for c in plain if unicodedata.combining(c) in _LETTERS)
    return "".join(" " if c.isspace() else c for c in kept)


_TABLE = _Table()


def fold(text: str) -> str:
    """`text` as it is compared."""
    return text.translate(_TABLE)


def unfold(text: str, places: Sequence[int]) -> list[int]:
    """For each of `places` in fold(text), ascending, the place in `text` whose character it belongs to."""
    found: list[int] = []
    start = passed = 0
    block = fold(text[:_BLOCK])
    for place in places:
        while passed + len(block) <= place and start + _BLOCK < len(text):
            passed += len(block)
            start += _BLOCK
            block = fold(text[start : start + _BLOCK])
        found.append(start + _within(text[start : start + _BLOCK], place - passed))
    return found


def _within(block: str, place: int) -> int:
    """The character of `block` that place `place` of its folded form belongs to; its length past the end."""
    for at, character in enumerate(block):
        place -= len(fold(character))
        if place < 0:
            return at
    return len(block)
