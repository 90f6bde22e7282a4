"""A reply divided for display: what the model thought and what it wrote, in pieces short enough to be laid out at once.

Only the pieces in view are laid out.
"""

from __future__ import annotations

import re
from typing import Literal, NamedTuple

from app.window.markdown.source_pieces import Piece, SourcePieces

BUDGET = 30_000  # cost of one call of `ReplyPieces.follow`: about 6 ms

_OPENS = re.compile(r"[ \t]*<think(?:ing)?>", re.IGNORECASE)
_CLOSES = re.compile(r"</think(?:ing)?>", re.IGNORECASE)
_FENCE = re.compile(r" {0,3}(`{3,}(?=[^`\n]*$)|~{3,})", re.MULTILINE)
_TAG = re.compile(r"</?think", re.IGNORECASE)
_RELEVANT = re.compile(r"(?:^|(?<=>))[ \t]*(?:`{3}|~{3})|</?think", re.IGNORECASE | re.MULTILINE)
_TAG_LENGTH = 12


class Section(NamedTuple):
    """source[start:end], its tags excluded. open: the closing tag has not come yet."""

    kind: Literal["text", "think"]
    start: int
    end: int
    open: bool


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


class ReplyPieces:
    """The pieces of a reply that is followed as it grows.

    pieces: of the source followed so far. sections: its sections. complete: whether all of the source is divided; where
    it is not, the next call of `follow` goes on.
    """

    def __init__(self) -> None:
        self.pieces: list[Piece] = []
        self.sections: list[Section] = []
        self.complete = True
        self._seen = 0
        self._divided: dict[int, SourcePieces] = {}  # by where the section starts

    @property
    def cost(self) -> int:
        """What was spent on parsing so far."""
        return sum(divided.cost for divided in self._divided.values())

    def follow(self, source: str, whole: bool) -> None:
        """Divides `source`, which begins with what was followed before, for at most BUDGET and one piece. whole: no
        more will come."""
        self._find_sections(source)
        self.pieces, self.complete, budget = [], True, BUDGET
        for number, section in enumerate(self.sections):
            ended = whole or number + 1 < len(self.sections) or (section.kind == "think" and not section.open)
            divided = self._divided.setdefault(section.start, SourcePieces(section.start))
            before = divided.cost
            pieces = divided.follow(source, section.end, ended, budget)
            self.pieces += [piece._replace(section=number) for piece in pieces] if number else pieces
            self.complete &= divided.complete
            budget -= divided.cost - before
        self._seen = len(source)

    def _find_sections(self, source: str) -> None:
        """Looks for the tags again only where there may be a new one."""
        new = source[max(0, self._seen - _TAG_LENGTH) :]
        last = self.sections[-1] if self.sections else None
        if last is None or last.end != self._seen or len(source) < self._seen or _TAG.search(new):
            self.sections = sections(source)
        else:
            self.sections[-1] = last._replace(end=len(source))
