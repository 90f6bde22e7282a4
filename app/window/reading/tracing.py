"""A Markdown parser that knows where everything came from.

markdown-it drops list indents, quote markers, escapes and the like from what it hands on. Here every content is Traced:
a string with, for each of its characters, its place in the source. Nothing is ever found by searching.

1. `token.content` of inline, fence and code_block tokens is Traced.
2. `token.meta["at"]` of an inline child is the place in the inline content where its text begins; of a list item, the
   place of its marker in the source.
3. A text child is one contiguous run of its inline content; a text_special child (an escape, an entity) stands for
   the characters of `markup`, which begin at "at".
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from markdown_it import MarkdownIt
from markdown_it.common.utils import MD_TRIM_CHARS
from markdown_it.parser_block import ParserBlock
from markdown_it.parser_inline import ParserInline
from markdown_it.rules_block import StateBlock
from markdown_it.rules_block.heading import heading
from markdown_it.rules_block.table import table
from markdown_it.rules_inline import StateInline
from markdown_it.token import Token
from markdown_it.utils import EnvType

WIDEST_TABLE = 66  # columns, those that the outer pipes seem to make included
LARGEST_TABLE = 4000  # cells


class Traced(str):
    """Text whose character i came from place `at[i]` of the source, -1 for none."""

    __slots__ = ("at",)
    at: Sequence[int]

    def __new__(cls, text: str, at: Sequence[int]) -> Traced:
        traced = super().__new__(cls, text)
        traced.at = at
        return traced

    def part(self, start: int, end: int) -> Traced:
        """Characters [start, end)."""
        return Traced(self[start:end], self.at[start:end])

    def strip(self, chars: str | None = None, /) -> Traced:
        start = len(self) - len(self.lstrip(chars))
        return self.part(start, max(start, len(self.rstrip(chars))))

    def __add__(self, other: str, /) -> Traced:
        return Traced(str(self) + other, [*self.at, *[-1] * len(other)])


class BlockState(StateBlock):
    """Tells where lines came from."""

    def getLines(self, begin: int, end: int, indent: int, keepLastLF: bool) -> Traced:
        text: list[str] = []
        at: list[int] = []
        for line in range(begin, end):
            stop = self.eMarks[line] + (line + 1 < end or keepLastLF)
            first, spaces = self._indented(line, indent, stop)
            text.append(" " * spaces + self.src[first:stop])
            at += [-1] * spaces
            at += range(first, min(stop, len(self.src)))
        return Traced("".join(text), at)

    def _indented(self, line: int, indent: int, stop: int) -> tuple[int, int]:
        """Where the line begins when `indent` columns are cut off, and the columns of a tab that are left over."""
        start = first = self.bMarks[line]
        columns = 0
        while first < stop and columns < indent:
            if self.src[first] == "\t":
                columns += 4 - (columns + self.bsCount[line]) % 4
            elif self.src[first] == " " or first - start < self.tShift[line]:
                columns += 1
            else:
                break
            first += 1
        return first, max(0, columns - indent)

    def push(self, ttype: str, tag: str, nesting: Literal[-1, 0, 1]) -> Token:
        token = super().push(ttype, tag, nesting)
        if ttype == "list_item_open":
            token.meta = {"at": self.bMarks[self.line] + self.tShift[self.line]}
        return token


class Blocks(ParserBlock):
    """env["deep"]: lines where nesting went deeper than the parser follows, which would be lost."""

    def __init__(self) -> None:
        super().__init__()
        self.ruler.at("heading", traced_heading, {"alt": ["paragraph", "reference", "blockquote"]})
        self.ruler.at("table", traced_table, {"alt": ["paragraph", "reference"]})

    def tokenize(self, state: StateBlock, startLine: int, endLine: int) -> None:
        if state.level >= state.md.options.maxNesting:
            state.env.setdefault("deep", []).append(startLine)
        super().tokenize(state, startLine, endLine)

    def parse(self, src: str, md: MarkdownIt, env: EnvType, outTokens: list[Token]) -> list[Token] | None:
        state = BlockState(src, md, env, outTokens)
        self.tokenize(state, state.line, state.lineMax)
        return state.tokens


def traced_heading(state: StateBlock, startLine: int, endLine: int, silent: bool) -> bool:
    """markdown-it's rule, its content traced."""
    start = state.bMarks[startLine] + state.tShift[startLine]
    if not heading(state, startLine, endLine, silent):
        return False
    if not silent:
        inline = state.tokens[-2]
        start += len(state.tokens[-3].markup)
        while inline.content and state.src[start] in MD_TRIM_CHARS:
            start += 1
        inline.content = Traced(inline.content, range(start, start + len(inline.content)))
    return True


def traced_table(state: StateBlock, startLine: int, endLine: int, silent: bool) -> bool:
    """markdown-it's rule, its cells traced; what is wider or larger than is laid out in time is no table."""
    columns = state.src.count("|", state.bMarks[startLine], state.eMarks[startLine]) + 1
    if columns > WIDEST_TABLE or not table(state, startLine, endLine, True):
        return False
    rows = next((i for i in range(startLine, endLine) if state.isEmpty(i)), endLine) - startLine
    if columns * rows > LARGEST_TABLE:
        return False
    if silent:
        return True
    first = len(state.tokens)
    table(state, startLine, endLine, False)
    cells: list[Traced] = []
    line = column = -1
    for token in state.tokens[first:]:
        if token.type != "inline" or token.map is None:
            continue
        if token.map[0] != line:
            line, column = token.map[0], -1
            cells = _cells(state, line)
        column += 1
        token.content = cells[column] if column < len(cells) else Traced("", ())
    return True


def _cells(state: StateBlock, line: int) -> list[Traced]:
    """The cells of one row, as `escapedSplit` of markdown-it cuts them: a pipe after a backslash is text."""
    start, end = state.bMarks[line] + state.tShift[line], state.eMarks[line]
    row = Traced(state.src[start:end], range(start, end)).strip(MD_TRIM_CHARS)
    cells: list[Traced] = []
    text: list[str] = []
    at: list[int] = []
    for character, place in zip(row, row.at, strict=True):
        if character != "|":
            text.append(character)
            at.append(place)
        elif text and text[-1] == "\\" and at[-1] == place - 1:
            text[-1], at[-1] = character, place
        else:
            cells.append(Traced("".join(text), at))
            text, at = [], []
    cells.append(Traced("".join(text), at))
    if not cells[0]:
        cells.pop(0)
    if cells and not cells[-1]:
        cells.pop()
    return [cell.strip(MD_TRIM_CHARS) for cell in cells]


class InlineState(StateInline):
    """Notes where each token begins."""

    def __init__(self, src: str, md: MarkdownIt, env: EnvType, outTokens: list[Token]) -> None:
        super().__init__(src, md, env, outTokens)
        self._pending_at = -1
        self.steps = 0  # characters that were looked at in search of the ends of labels

    def append_pending(self, text: str) -> None:
        if self._pending_at < 0:
            self._pending_at = self.pos
        super().append_pending(text)

    def pushPending(self) -> Token:
        token = super().pushPending()
        token.meta = {"at": self._pending_at}
        self._pending_at = -1
        return token

    def push(self, ttype: str, tag: str, nesting: Literal[-1, 0, 1]) -> Token:
        token = super().push(ttype, tag, nesting)
        self._pending_at = -1  # a newline may have trimmed the pending text to nothing
        token.meta = {"at": self.pos, "pushed": self.pos}
        before = self.tokens[-2] if len(self.tokens) > 1 else token
        if ttype == "text" and before.type == "text" and before.meta.get("pushed") == self.pos:
            token.meta["at"] = before.meta["at"] + len(before.content)  # markers of one run are pushed together
        elif ttype == "text" and before.markup == "autolink":
            token.meta["at"] = self.pos + len("<")
        return token


class Inlines(ParserInline):
    """Parses with InlineState. Adjacent texts are not joined."""

    def parse(self, src: str, md: MarkdownIt, env: EnvType, tokens: list[Token]) -> list[Token]:
        state = InlineState(str(src), md, env, tokens)
        self.tokenize(state)
        for rule in self.ruler2.getRules(""):
            rule(state)
        return state.tokens
