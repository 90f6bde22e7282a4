"""A source that grows, cut into pieces that are short enough to be parsed and laid out at once.

Where it is cut depends on the text before the cut alone, never on how it arrived, so that a reply looks the same
whether it streamed or was opened. Preferred are the borders of blocks and of the items of an outermost list. Rendering
the pieces one after the other gives what rendering the whole gives, but that a reference ("[name]: address") is known
only to the piece that it is in, and that a block without such a border is cut within.
"""

from __future__ import annotations

import re
from typing import NamedTuple

from markdown_it.utils import EnvType

from app.window.markdown.traced_parser import ParsedBlock, blocks, is_closed

PIECE = 2000  # characters: about 8 ms to write and lay out
LONGEST = 3000  # of a block that does not end
_LONGEST_INFO = 40  # characters of what follows a fence that are carried on

_LINE_END = re.compile(r"\r\n?|\n")
_CUTS = (  # within a block, best first: at a line, a sentence or a word, before a letter so that it reads as text
    re.compile(r"\n(?=[^\W\d_])"),
    re.compile(r"\n"),
    re.compile(r"(?:[.!?:;] |[\u3002\uff01\uff1f\uff1b])(?=[^\W\d_])"),
    re.compile(r" (?=[^\W\d_])"),
    re.compile(r" "),
)


class Piece(NamedTuple):
    """source[start:end]. carry: what has to stand before it for it to read as it did before the cut: the line that
    opened a fence. final: no further text changes it. cut: whether it ends within a block. divided: whether it was
    looked at; the rest of a source that is divided over several frames was not, and is too long to be laid out.
    section: of the reply that it is in."""

    start: int
    end: int
    carry: str
    final: bool
    cut: bool = False
    divided: bool = True
    section: int = 0


class SourcePieces:
    """The pieces of source[start:], which is followed as it grows.

    complete: whether all of it is divided; where it is not, the next call of `follow` goes on. cost: what was spent on
    parsing so far, in the units of `parse_cost`.
    """

    def __init__(self, start: int = 0) -> None:
        self.complete = True
        self.cost = 0
        self._start = start
        self._final: list[Piece] = []
        self._carry = ""  # of the piece that follows the final ones

    def follow(self, source: str, end: int, whole: bool = False, budget: float = float("inf")) -> list[Piece]:
        """Returns the pieces of source[start:end], which begins with what was followed before unless `end` is less.
        whole: no more will come. budget: cost from which on the rest is left for the next call."""
        self._forget_behind(source, end)
        start, limit = self._final[-1].end if self._final else self._start, self.cost + budget
        while end - start >= PIECE and self.cost < limit:
            length, cut = self._length(source[start : min(start + LONGEST, end)])
            if not length:
                break
            self._final.append(Piece(start, start + length, self._carry, True, cut))
            start += length
            self._carry = self._carried(source)
        self.complete = end - start < LONGEST
        if start == end and self._final:
            return self._final
        return [*self._final, Piece(start, end, self._carry, whole and self.complete, False, self.complete)]

    def _forget_behind(self, source: str, end: int) -> None:
        kept = len(self._final)
        while kept and self._final[kept - 1].end > end:
            kept -= 1
        if kept < len(self._final):
            del self._final[kept:]
            self._carry = self._carried(source) if kept else ""

    def _length(self, source: str) -> tuple[int, bool]:
        """Returns the length of the piece that `source` begins with, 0 when more text has to come to know; and whether
        it ends within a block."""
        for most in (PIECE, LONGEST):
            if len(source) < most:
                return 0, False
            text = self._carry + source[:most]
            self.cost += parse_cost(text)
            length = last_border(text) - len(self._carry)
            if length > 0:
                return length, False
        found = (list(cut.finditer(source, LONGEST // 2, LONGEST - 1)) for cut in _CUTS)
        return next((ends[-1].end() for ends in found if ends), LONGEST), True

    def _carried(self, source: str) -> str:
        """Returns the line that opened the fence that the last final piece ends in; "" outside of fences."""
        piece = self._final[-1]
        if not piece.cut:
            return ""
        text = piece.carry + source[piece.start : piece.end]
        self.cost += parse_cost(text)
        *_, last = [None, *blocks(_normal(text), {})]
        if last is None or last.kind != "fence" or is_closed(last.tokens[0]):
            return ""
        line = _normal(text).split("\n")[last.lines[0]]
        fence = last.tokens[0]
        return line[: len(line) - len(line.lstrip(" "))] + fence.markup + fence.info[:_LONGEST_INFO] + "\n"


def piece_text(source: str, pieces: list[Piece], index: int) -> str:
    """Returns a piece as it is rendered: with the line that opens its fence again, and one that closes it where the
    code goes on in the next piece, so that it reads as code that is whole."""
    piece = pieces[index]
    text = piece.carry + source[piece.start : piece.end]
    carry = pieces[index + 1].carry.strip() if index + 1 < len(pieces) else ""
    if not carry:
        return text
    return text + ("" if text.endswith("\n") else "\n") + carry[: len(carry) - len(carry.lstrip(carry[0]))]


def joint(source: str, piece: Piece) -> str:
    """Returns what stands between the text of a piece and the next where both are copied."""
    text = source[piece.start : piece.end]
    blank = text[len(text.rstrip()) :]
    return "\n\n" if blank.count("\n") > 1 else "\n" if "\n" in blank else blank[:1]


def parse_cost(text: str) -> int:
    """Returns about what the parser's work on `text` costs, in units of 0.2 microseconds. Lines and cells of tables
    cost it more than characters do."""
    return len(text) + 30 * text.count("\n") + 20 * text.count("|")


def last_border(text: str) -> int:
    """Returns where the last block, or outermost item of a list, of `text` begins. What stands before can no longer
    change: only whole lines count, since "-" may become "-5", and a formula may still end that was opened before."""
    starts = [0, *(end.end() for end in _LINE_END.finditer(text))]
    environment: EnvType = {}
    found = list(blocks(_normal(text[: starts[-1]]), environment))
    if not found:
        return 0
    line = _starts(found[-1])[-1]
    for unclosed in environment.get("unclosed", ()):
        line = min(line, max((start for block in found for start in _starts(block) if start <= unclosed), default=0))
    return starts[line]


def _starts(block: ParsedBlock) -> list[int]:
    """Returns the first lines of a block, or those of its items if it is a list."""
    items = [
        token.map[0] for token in block.tokens if token.type == "list_item_open" and token.level == 1 and token.map
    ]
    return items or [block.lines[0]]


def _normal(text: str) -> str:
    return text.replace("\r\n", "\n").replace("\r", "\n")
