"""A reply cut into pieces short enough to be laid out at once, so that only those in view need to be.

Where a source is cut depends on the source before the cut alone, never on how it arrived: a reply looks the same
whether it streamed or was opened.
"""

from __future__ import annotations

import re
from typing import Literal, NamedTuple

from app.window.reading import Section, closed, sections

PIECE = 2000  # characters: about 8 ms to write and lay out
LONGEST = 3000  # of a block that will not end

_TAG = re.compile(r"</?think", re.IGNORECASE)
_TAG_LENGTH = 12
_FENCE = re.compile(r"(?:[ \t]*\n)*( {0,3}(?:`{3,}|~{3,})[^\n]*\n)")
_LINE = re.compile(r"\n(?=\S)")


class Piece(NamedTuple):
    """source[start:end] of one section. carry: what has to stand before it for it to read as it did before the cut:
    the line that opened a fence. final: no further text changes where it ends."""

    kind: Literal["text", "think"]
    section: int
    start: int
    end: int
    carry: str
    final: bool


class Pieces:
    """pieces: of the source followed so far. sections: its sections, their tags left out."""

    def __init__(self) -> None:
        self.pieces: list[Piece] = []
        self.sections: list[Section] = []
        self._seen = 0

    def follow(self, source: str, whole: bool) -> None:
        """The source is now this. whole: no more will come."""
        self._divide(source)
        kept = [piece for piece in self.pieces if piece.final and self._holds(piece)]
        self.pieces = kept
        first = kept[-1].section if kept else 0
        for index in range(first, len(self.sections)):
            section = self.sections[index]
            ended = whole or index + 1 < len(self.sections) or (section.kind == "think" and not section.open)
            self._cut(source, index, ended)
        self._seen = len(source)

    def _divide(self, source: str) -> None:
        """Look for the tags again only where there may be a new one."""
        new = source[max(0, self._seen - _TAG_LENGTH) :]
        last = self.sections[-1] if self.sections else None
        if last is None or last.end != self._seen or len(source) < self._seen or _TAG.search(new):
            self.sections = sections(source)
        else:
            self.sections[-1] = last._replace(end=len(source))

    def _holds(self, piece: Piece) -> bool:
        """Whether a final piece is still where it was: a late </think> can change what was text."""
        if piece.section >= len(self.sections):
            return False
        section = self.sections[piece.section]
        return section.kind == piece.kind and section.start <= piece.start and piece.end <= section.end

    def _cut(self, source: str, index: int, ended: bool) -> None:
        section = self.sections[index]
        last = self.pieces[-1] if self.pieces and self.pieces[-1].section == index else None
        start = last.end if last else section.start
        carry = _carried(source, last) if last else ""
        while section.end - start >= PIECE:
            length = _length(source[start : min(start + LONGEST, section.end)], carry)
            if not length:
                break
            last = Piece(section.kind, index, start, start + length, carry, True)
            self.pieces.append(last)
            start, carry = last.end, _carried(source, last)
        if start < section.end or last is None:
            self.pieces.append(Piece(section.kind, index, start, section.end, carry, ended))


def _length(source: str, carry: str) -> int:
    """Of the piece that `source` begins with; 0 when more text has to come to know."""
    for most in (PIECE, LONGEST):
        if len(source) < most:
            return 0
        length = closed(carry + source[:most]) - len(carry)
        if length > 0:
            return length
    lines = [match.end() for match in _LINE.finditer(source, LONGEST // 2, LONGEST)]
    if lines:
        return lines[-1]
    for mark in ("\n", " "):
        found = source.rfind(mark, LONGEST // 2, LONGEST)
        if found >= 0:
            return found + 1
    return LONGEST


def _carried(source: str, piece: Piece) -> str:
    """A block that was cut goes on as what it was: only a fence needs to be told."""
    text = piece.carry + source[piece.start : piece.end]
    opening = _FENCE.match(text)
    return opening.group(1) if opening and closed(text) == 0 else ""
