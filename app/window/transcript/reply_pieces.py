"""A reply divided for display: what the model thought and what it wrote, in pieces short enough to be laid out at once.

Only the pieces in view are laid out. Where a source is cut depends on the source before the cut alone, never on how it
arrived, so that a reply looks the same whether it streamed or was opened.
"""

from __future__ import annotations

import re
from typing import Literal, NamedTuple

from app.window.markdown import closed

PIECE = 2000  # characters: about 8 ms to write and lay out
LONGEST = 3000  # of a block that does not end
BUDGET = 30_000  # `parse_cost` of one call of `ReplyPieces.follow`: about 6 ms

_OPENS = re.compile(r"[ \t]*<think(?:ing)?>", re.IGNORECASE)
_CLOSES = re.compile(r"</think(?:ing)?>", re.IGNORECASE)
_FENCE = re.compile(r" {0,3}(`{3,}(?=[^`\n]*$)|~{3,})", re.MULTILINE)
_TAG = re.compile(r"</?think", re.IGNORECASE)
_RELEVANT = re.compile(r"(?:^|(?<=>))[ \t]*(?:`{3}|~{3})|</?think", re.IGNORECASE | re.MULTILINE)
_TAG_LENGTH = 12
_OPENING = re.compile(r"(?:[ \t]*\n)*( {0,3}(?:`{3,}(?=[^`\n]*\n)|~{3,}))([^\n]*)\n")
_LONGEST_INFO = 40  # characters of what follows a fence that are carried on
_LINE = re.compile(r"\n(?=\S)")


class Section(NamedTuple):
    """source[start:end], its tags excluded. open: the closing tag has not come yet."""

    kind: Literal["text", "think"]
    start: int
    end: int
    open: bool


class Piece(NamedTuple):
    """source[start:end] of one section. carry: what has to stand before it for it to read as it did before the cut:
    the line that opened a fence. final: no further text changes where it ends. divided: whether it was looked at; the
    rest of a source that is divided over several frames was not, and is too long to be laid out."""

    kind: Literal["text", "think"]
    section: int
    start: int
    end: int
    carry: str
    final: bool
    divided: bool = True


def sections(source: str) -> list[Section]:
    """Returns the sections of `source` in order, without empty ones: <think> ... </think>, as reasoning models write
    it, and the text around. A tag opens at the start of a line only and closes anywhere; within a code fence neither
    counts. A line that is only </think>, with nothing opened before, closes what was thought from the start, because
    some templates open it within the prompt."""
    found: list[Section] = []
    start, thinks, fence, at = 0, False, "", 0
    last_tag = max((tag.end() for tag in _TAG.finditer(source)), default=0)
    while at < last_tag and (relevant := _RELEVANT.search(source, at)):
        at = max(at, source.rfind("\n", 0, relevant.start()) + 1)
        end = source.find("\n", at) + 1 or len(source)
        line = source[at:end]
        if fence:
            fence = "" if _ends(line, fence) else fence
        elif opening := _FENCE.match(line):
            fence = opening.group(1)
        elif thinks and (tag := _CLOSES.search(line)):
            found.append(Section("think", start, at + tag.start(), False))
            start, thinks = at + tag.end(), False
            end = start
        elif not thinks and (tag := _OPENS.match(line)):
            found.append(Section("text", start, at, False))
            start, thinks = at + tag.end(), True
            end = start
        elif not thinks and start == 0 and (tag := _CLOSES.fullmatch(line.strip())):
            found.append(Section("think", 0, at, False))
            start = at + len(line.rstrip())
        at = end
    found.append(Section("think" if thinks else "text", start, len(source), thinks))
    return [part for part in found if part.open or source[part.start : part.end].strip()]


def _ends(line: str, fence: str) -> bool:
    bare = line.strip()
    return len(bare) >= len(fence) and set(bare) == {fence[0]} and not line.startswith("    ")


def parse_cost(text: str) -> int:
    """Returns about what the parser's work on `text` costs, in units of 0.2 microseconds. Lines and cells of tables
    cost it more than characters do."""
    return len(text) + 30 * text.count("\n") + 20 * text.count("|")


class ReplyPieces:
    """The pieces of a source that is followed as it grows.

    pieces: of the source followed so far. sections: its sections. complete: whether all of the source is divided; where
    it is not, the next call of `follow` goes on. cost: what was spent on parsing so far, for tests.
    """

    def __init__(self) -> None:
        self.pieces: list[Piece] = []
        self.sections: list[Section] = []
        self.complete = True
        self.cost = 0
        self._seen = 0
        self._last_carried: tuple[Piece, str] | None = None

    def follow(self, source: str, whole: bool) -> None:
        """Divides `source`, which begins with what was followed before, for at most BUDGET and one piece. whole: no
        more will come."""
        self._find_sections(source)
        self.pieces = [piece for piece in self.pieces if piece.final and self._holds(piece)]
        self.complete = True
        limit = self.cost + BUDGET
        for index in range(self.pieces[-1].section if self.pieces else 0, len(self.sections)):
            section = self.sections[index]
            ended = whole or index + 1 < len(self.sections) or (section.kind == "think" and not section.open)
            self._divide(source, index, ended, limit)
        self._seen = len(source)

    def _find_sections(self, source: str) -> None:
        """Looks for the tags again only where there may be a new one."""
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

    def _divide(self, source: str, index: int, ended: bool, limit: int) -> None:
        section = self.sections[index]
        last = self.pieces[-1] if self.pieces and self.pieces[-1].section == index else None
        start = last.end if last else section.start
        carry = self._carried(source, last) if last else ""
        while section.end - start >= PIECE and self.cost < limit:
            length = self._length(source[start : min(start + LONGEST, section.end)], carry)
            if not length:
                break
            last = Piece(section.kind, index, start, start + length, carry, True)
            self.pieces.append(last)
            start, carry = last.end, self._carried(source, last)
        if start < section.end or last is None:
            divided = section.end - start < LONGEST
            self.complete &= divided
            self.pieces.append(Piece(section.kind, index, start, section.end, carry, ended and divided, divided))

    def _length(self, source: str, carry: str) -> int:
        """Returns the length of the piece that `source` begins with; 0 when more text has to come to know."""
        for most in (PIECE, LONGEST):
            if len(source) < most:
                return 0
            length = self._closed(carry + source[:most]) - len(carry)
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

    def _carried(self, source: str, piece: Piece) -> str:
        """Returns what the next piece needs before it: a block that was cut goes on as what it was, and only a fence
        has to be opened again. The last answer is kept, because it is needed again whenever the source grows."""
        if self._last_carried is None or self._last_carried[0] != piece:
            text = piece.carry + source[piece.start : piece.end]
            opening = _OPENING.match(text)
            cut = opening is not None and self._closed(text) == 0
            carried = f"{opening[1]}{opening[2][:_LONGEST_INFO]}\n" if opening and cut else ""
            self._last_carried = (piece, carried)
        return self._last_carried[1]

    def _closed(self, text: str) -> int:
        self.cost += parse_cost(text)
        return closed(text)
