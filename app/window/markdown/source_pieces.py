"""A source that grows, cut into pieces that are short enough to be parsed and laid out at once.

Where it is cut depends on the text before the cut alone, never on how it arrived, so that a reply looks the same
whether it streamed or was opened. It is cut between blocks, or between the items of an outermost list, if it can be.
Rendering the pieces one after the other gives what rendering the whole gives, with three exceptions: a reference
("[name]: address") is known only to its own piece, the items of a list are counted from the number that each piece
begins with, and a block that is too long is cut in the middle. What would then be read as something else, and what is
larger than anybody reads, is shown as plain text: a table or an item of a list that is cut, a paragraph from
LARGEST_PARAGRAPH on, a reply from LARGEST_REPLY on.
"""

import re
from collections.abc import Sequence
from typing import NamedTuple

from app.reply import Section
from app.window.markdown.traced_parser import ParsedBlock, blocks, is_closed, unclosed_formulas

PIECE = 2000  # characters: about 8 ms to write and lay out
LONGEST = 3000  # of a block that does not end
LINE, CELL = 4, 5  # characters that take as long to lay out as a line end, or a cell of a table, does
LARGEST_PARAGRAPH = 20_000  # characters; what follows is shown as plain text, up to the next empty line
LARGEST_REPLY = 200_000  # characters; what follows is shown as plain text
_LONGEST_INFO = 40  # characters of what follows a fence that are carried on

_PLAIN_COST = 200  # of a piece that is not parsed
BUDGET = 15_000  # cost of one call of `ReplyPieces.follow`: about 10 ms

_UNREADABLE = ("table", "list")  # in parts

_LINE_END = re.compile(r"\r\n?|\n")
_EMPTY_LINE = re.compile(r"(?:\r\n?|\n)[ \t]*(?:\r\n?|\n)")
_HEAVY = re.compile(r"[\n|]")
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
    section: of the reply that it is in. plain: whether it is shown as plain text. noted: whether it is the first that
    is, which says so."""

    start: int
    end: int
    carry: str
    final: bool
    cut: bool = False
    divided: bool = True
    section: int = 0
    plain: bool = False
    noted: bool = False


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
        self._forget_after(source, end)
        limit, self.complete = self.cost + budget, False
        while self.cost < limit and not self.complete:
            piece = self._next(source, end)
            if piece is None:
                self.complete = True
            else:
                self._final.append(piece)
                self._carry = "" if piece.plain else self._carried(source)
        start = self._final[-1].end if self._final else self._start
        self.complete = self.complete or reach(source, start, end, PIECE) == end - start
        if start == end and self._final:
            return self._final
        plain, noted = self._is_plain(start)
        rest = Piece(start, end, "" if plain else self._carry, whole and self.complete, divided=self.complete)
        return [*self._final, rest._replace(plain=plain, noted=noted)]

    def _forget_after(self, source: str, end: int) -> None:
        kept = len(self._final)
        while kept and self._final[kept - 1].end > end:
            kept -= 1
        if kept < len(self._final):
            del self._final[kept:]
            self._carry = self._carried(source) if kept and not self._final[-1].plain else ""

    def _next(self, source: str, end: int) -> Piece | None:
        """Returns the next piece; None when more text has to come to know."""
        start = self._final[-1].end if self._final else self._start
        plain, noted = self._is_plain(start)
        if plain:
            length, cut = self._plain_length(source, start, end)
        else:
            length, cut, unreadable = self._length(source, start, end)
            plain = noted = unreadable
        carry = "" if plain else self._carry
        return Piece(start, start + length, carry, True, cut, plain=plain, noted=noted) if length else None

    def _is_plain(self, start: int) -> tuple[bool, bool]:
        """Returns whether the text from `start` on is plain text, whatever it contains, and whether a line above says
        so."""
        before = self._final[-1] if self._final else None
        if before is not None and before.cut and (before.plain or self._paragraph(start) > LARGEST_PARAGRAPH):
            return True, not before.plain
        plain = start >= LARGEST_REPLY
        return plain, plain and (before is None or not before.plain)

    def _paragraph(self, start: int) -> int:
        """Returns how long the block that was cut at `start` is so far, 0 for one of code."""
        if self._carry:
            return 0
        first = len(self._final) - 1
        while first and self._final[first - 1].cut:
            first -= 1
        return start - self._final[first].start

    def _plain_length(self, source: str, start: int, end: int) -> tuple[int, bool]:
        """Returns the length of a piece of plain text, 0 when more has to come to know; and whether it goes on."""
        length = reach(source, start, end, LONGEST)
        self.cost += _PLAIN_COST
        limit = start + length
        if start < LARGEST_REPLY and (empty := _EMPTY_LINE.search(source, max(0, start - 1), limit)):
            return empty.end() - start, False
        if limit == end:
            return 0, False
        line = source.rfind("\n", start, limit)
        if line < 0:
            line = source.rfind(" ", start + length // 2, limit)
        return (line + 1 - start if line >= 0 else length), True

    def _length(self, source: str, start: int, end: int) -> tuple[int, bool, bool]:
        """Returns the length of the piece that begins at `start`, 0 when more text has to come to know; whether it ends
        within a block; and whether this block cannot be read in parts."""
        last: ParsedBlock | None = None
        text = ""
        for most in (PIECE, LONGEST):
            length = reach(source, start, end, most)
            if start + length == end:
                return 0, False, False
            text = source[start : start + length]
            self.cost += parse_cost(self._carry + text)
            border, last = last_border(self._carry + text)
            if border > len(self._carry):
                return border - len(self._carry), False, False
        unreadable = last is not None and last.kind in _UNREADABLE
        found = (list(cut.finditer(text, len(text) // 2, len(text) - 1)) for cut in _CUTS)
        return next((ends[-1].end() for ends in found if ends), len(text)), True, unreadable

    def _carried(self, source: str) -> str:
        """Returns the line that opened the fence that the last final piece ends in; "" outside of fences."""
        piece = self._final[-1]
        if not piece.cut:
            return ""
        text = piece.carry + source[piece.start : piece.end]
        self.cost += parse_cost(text)
        text = _normal(text)
        *_, last = [None, *blocks(text)]
        if last is None or last.kind != "code" or is_closed(last.tokens, text):
            return ""
        first = text.rfind("\n", 0, last.start) + 1
        fence, info = last.tokens[0].start, str(last.tokens[0].value)
        marks = text[fence : text.find("\n", fence)].split(info)[0].rstrip() if info else text[fence:].split("\n")[0]
        return text[first:fence] + marks.rstrip() + info[:_LONGEST_INFO] + "\n"


def piece_text(source: str, pieces: list[Piece], index: int) -> str:
    """Returns a piece as it is rendered: with the line that opens its fence again, and one that closes it where the
    code goes on in the next piece, so that it reads as code that is whole; plain text without the last line end."""
    piece = pieces[index]
    text = piece.carry + source[piece.start : piece.end]
    if piece.plain:
        return text.rstrip("\r\n") if not piece.cut else text.removesuffix("\n").removesuffix("\r")
    carry = pieces[index + 1].carry.strip() if index + 1 < len(pieces) else ""
    if not carry:
        return text
    return text + ("" if text.endswith("\n") else "\n") + carry[: len(carry) - len(carry.lstrip(carry[0]))]


def joint(source: str, piece: Piece) -> str:
    """Returns what stands between the text of a piece and the next where both are copied."""
    text = source[piece.start : piece.end]
    if piece.plain and piece.cut:  # which is shown with the space at its end
        return "\n" if text.endswith(("\n", "\r")) else ""
    blank = text[len(text.rstrip()) :]
    return "\n\n" if blank.count("\n") > 1 else "\n" if "\n" in blank else blank[:1]


def parse_cost(text: str) -> int:
    """Returns about what the parser's work on `text` costs, in units of 0.2 microseconds. Lines and cells of tables
    cost it more than characters do."""
    return len(text) + 30 * text.count("\n") + 20 * text.count("|")


def reach(source: str, start: int, end: int, most: int) -> int:
    """Returns how many characters of source[start:end] take at most as long to lay out as `most` letters; at least
    one, if there is one."""
    limit, left = min(start + most, end), start + most
    for heavy in _HEAVY.finditer(source, start, limit):
        if heavy.start() >= left:
            break
        left -= LINE if heavy[0] == "\n" else CELL
        if heavy.end() > left:
            return max(1, heavy.start() - start)
    return min(limit, left) - start


def last_border(text: str) -> tuple[int, ParsedBlock | None]:
    """Returns where the last block, or outermost item of a list, of `text` begins, and that block. What stands before
    can no longer change: only whole lines count, since "-" may become "-5", and a formula may still end that was opened
    before."""
    ends = [0, *(end.end() for end in _LINE_END.finditer(text))]
    whole = _normal(text[: ends[-1]])
    found = list(blocks(whole))
    if not found:
        return 0, None
    starts = [start for block in found for start in _starts(block)]
    border = _starts(found[-1])[-1]
    for unclosed in unclosed_formulas(whole):
        border = min(border, max((start for start in starts if start <= unclosed), default=0))
    return ends[whole.count("\n", 0, border)], found[-1]


def _starts(block: ParsedBlock) -> list[int]:
    """Returns where a block begins, or its items if it is a list."""
    if block.kind != "list":
        return [block.start]
    level, found = 0, []
    for token in block.tokens:
        if token.kind == "item" and level == 1 and token.nesting > 0:
            found.append(token.start)
        level += token.nesting
    return found or [block.start]


def _normal(text: str) -> str:
    return text.replace("\r\n", "\n").replace("\r", "\n")


class ReplyPieces:
    """The pieces of a reply that is followed as it grows.

    pieces: of the source followed so far. sections: its thoughts and answers. complete: whether all of the source is
    divided; where it is not, the next call of `follow` goes on.
    """

    def __init__(self) -> None:
        self.pieces: list[Piece] = []
        self.sections: list[Section] = []
        self.complete = True
        self._divided: dict[int, SourcePieces] = {}  # by where the section starts

    @property
    def cost(self) -> int:
        """What was spent on parsing so far."""
        return sum(divided.cost for divided in self._divided.values())

    def follow(self, source: str, sections: Sequence[Section], whole: bool) -> None:
        """Divides `source`, which begins with what was followed before, for at most BUDGET and one piece. whole: no
        more will come."""
        self.sections = list(sections)
        self.pieces, self.complete, budget = [], True, BUDGET
        for number, section in enumerate(self.sections):
            ended = whole or number + 1 < len(self.sections) or (section.kind == "think" and not section.open)
            divided = self._divided.setdefault(section.start, SourcePieces(section.start))
            before = divided.cost
            pieces = divided.follow(source, section.end, ended, budget)
            self.pieces += [piece._replace(section=number) for piece in pieces] if number else pieces
            self.complete &= divided.complete
            budget -= divided.cost - before
