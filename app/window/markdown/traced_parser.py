"""The Markdown that is understood, parsed so that every character knows where it came from: CommonMark without HTML,
with tables, ~~strikethrough~~ and mathematics.

markdown-it drops list indents, quote markers, escapes and the like from what it hands on. Here every content is Traced:
a string with, for each of its characters, its place in the source. Nothing is ever found by searching.

1. `token.content` of inline, fence and code_block tokens is Traced. 2. `token.meta["at"]` of an inline child is the
place in the inline content where its text begins; of a list item, the place of its marker in the source. 3. A text
child is one contiguous run of its inline content; a text_special child (an escape, an entity) stands for the characters
of `markup`, which begin at "at"."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cache
from types import SimpleNamespace
from typing import Literal, NamedTuple, SupportsIndex, cast

from markdown_it import MarkdownIt, helpers
from markdown_it.parser_block import ParserBlock
from markdown_it.parser_inline import ParserInline
from markdown_it.rules_block import StateBlock
from markdown_it.rules_block.heading import heading
from markdown_it.rules_block.table import table
from markdown_it.rules_inline import StateInline
from markdown_it.token import Token
from markdown_it.utils import EnvType

from app.window.markdown.formula_spans import LONGEST_FORMULA, formula_at, is_open

WIDEST_TABLE = 66  # columns, those that the outer pipes seem to make included
LARGEST_TABLE = 600  # cells, those included that a row leaves out: 0.1 ms each
DEEPEST = 24  # levels of blocks, of which a list takes two
MAX_STEPS = 40_000  # characters of one paragraph that may be looked at in search of the ends of labels


class Traced(str):
    """Text whose character i came from place `at[i]` of the source, -1 for none."""

    __slots__ = ("at",)
    at: Sequence[int]

    def __new__(cls, text: str, at: Sequence[int]) -> Traced:
        traced = super().__new__(cls, text)
        traced.at = at
        return traced

    def part(self, start: int, end: int) -> Traced:
        """Returns characters [start, end)."""
        return Traced(str(self)[start:end], self.at[start:end])

    def strip(self, chars: str | None = None, /) -> Traced:
        start = len(self) - len(self.lstrip(chars))
        return self.part(start, max(start, len(self.rstrip(chars))))

    # What the rules of markdown-it cut out of a Traced source and join again is Traced too.

    def __getitem__(self, key: SupportsIndex | slice) -> str:
        text = super().__getitem__(key)
        return Traced(text, self.at[key]) if isinstance(key, slice) else text

    def __add__(self, other: str, /) -> Traced:
        return Traced(str(self) + str(other), [*self.at, *_places(other)])

    def __radd__(self, other: str, /) -> Traced:
        return Traced(str(other) + str(self), [*_places(other), *self.at])


def _places(text: str) -> Sequence[int]:
    return text.at if isinstance(text, Traced) else [-1] * len(text)


class BlockState(StateBlock):
    """A block parser's state that knows where lines came from."""

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
        """Returns where the line begins when `indent` columns are cut off, and the columns of a tab that are left."""
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
    source = state.src
    state.src = source if silent else Traced(source, range(len(source)))
    try:
        return heading(state, startLine, endLine, silent)
    finally:
        state.src = source


def traced_table(state: StateBlock, startLine: int, endLine: int, silent: bool) -> bool:
    """markdown-it's rule, its cells traced; what is wider or larger than is laid out in time is no table."""
    source = state.src
    columns = source.count("|", state.bMarks[startLine], state.eMarks[startLine]) + 1
    if columns > WIDEST_TABLE or not table(state, startLine, endLine, True):
        return False
    rows = next((i for i in range(startLine, endLine) if state.isEmpty(i)), endLine) - startLine
    if columns * rows > LARGEST_TABLE:
        return False
    if silent:
        return True
    state.src = Traced(source, range(len(source)))
    try:
        return table(state, startLine, endLine, False)
    finally:
        state.src = source


class InlineState(StateInline):
    """An inline parser's state that notes where each token begins."""

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
    """Parses inline content with InlineState. Adjacent texts are not joined."""

    def parse(self, src: str, md: MarkdownIt, env: EnvType, tokens: list[Token]) -> list[Token]:
        state = InlineState(str(src), md, env, tokens)
        self.tokenize(state)
        for rule in self.ruler2.getRules(""):
            rule(state)
        return state.tokens


def add_maths(parser: MarkdownIt) -> None:
    """Adds mathematics within a line or as a block. The
    tokens are "maths" and "maths_block", with traced content."""
    parser.inline.ruler.before("escape", "maths", inline_maths)
    alternatives = ["paragraph", "reference", "blockquote", "list"]
    parser.block.ruler.before("fence", "maths_block", block_maths, {"alt": alternatives})


def inline_maths(state: StateInline, silent: bool) -> bool:
    """A formula as `formula_spans` finds it."""
    span = formula_at(state.src, state.pos, state.posMax)
    if span is None:
        return False
    if not silent:
        token = state.push("maths", "math", 0)
        token.content = state.src[span.first : span.last]
        token.meta["at"] = span.first
    state.pos = span.end
    return True


def block_maths(state: StateBlock, startLine: int, endLine: int, silent: bool) -> bool:
    """A formula that begins a line with its opener and ends a line with its closer.
    env["unclosed"]: lines with an opener whose closer may still come."""
    start = state.bMarks[startLine] + state.tShift[startLine]
    if not state.src.startswith(("$$", "\\[", "\\begin{"), start) or state.is_code_block(startLine):
        return False
    line = startLine + 1
    most = start + LONGEST_FORMULA
    while (
        line < endLine and state.bMarks[line] < most and (state.isEmpty(line) or state.sCount[line] >= state.blkIndent)
    ):
        line += 1
    lines = cast(BlockState, state).getLines(startLine, line, state.blkIndent, False)
    lines = lines.part(len(lines) - len(lines.lstrip()), len(lines))
    span = formula_at(lines, 0)
    if span is None or not span.display:
        if span is None and line == state.lineMax and is_open(lines):
            state.env.setdefault("unclosed", []).append(startLine)
        return False
    if not silent:
        state.line = startLine + 1 + str(lines).count("\n", 0, span.end)
        token = state.push("maths_block", "math", 0)
        token.map = [startLine, state.line]
        token.content = lines.part(span.first, span.last).strip()
    return True


def label_end(state: StateInline, start: int, disableNested: bool = False) -> int:
    """markdown-it's parseLinkLabel, which takes quadratic time on brackets that do not close; after MAX_STEPS a
    bracket is text."""
    assert isinstance(state, InlineState)
    if state.steps > MAX_STEPS or state.src.find("]", start) < 0:
        return -1
    end: int = helpers.parseLinkLabel(state, start, disableNested)
    state.steps += (end if end >= 0 else state.posMax) - start
    return end


class Parser(MarkdownIt):
    """Parses Markdown. Links are left as written: `links.safe_link` judges them."""

    def __init__(self) -> None:
        super().__init__("commonmark", {"html": False, "maxNesting": DEEPEST})
        self.helpers = SimpleNamespace(  # type: ignore[assignment]
            parseLinkLabel=label_end,
            parseLinkDestination=helpers.parseLinkDestination,
            parseLinkTitle=helpers.parseLinkTitle,
        )
        self.block = Blocks()
        self.inline = Inlines()
        self.configure("commonmark", {"html": False, "maxNesting": DEEPEST})
        self.enable(["table", "strikethrough"]).disable(["html_block", "html_inline", "fragments_join"])
        add_maths(self)

    def normalizeLink(self, url: str) -> str:
        return url

    def normalizeLinkText(self, link: str) -> str:
        return link

    def validateLink(self, url: str) -> bool:
        return True


@cache
def parser() -> Parser:
    """Returns the parser, of which there is one; it keeps nothing between calls."""
    return Parser()


class ParsedBlock(NamedTuple):
    """A block of the outermost level. lines: [first, end) of the source. deep: nested deeper than is followed."""

    tokens: list[Token]
    lines: tuple[int, int]
    deep: bool

    @property
    def kind(self) -> str:
        """The type of its first token, such as "paragraph_open"."""
        return self.tokens[0].type


def is_closed(fence: Token) -> bool:
    """Whether a fence has its end. Indented code always has."""
    if fence.type == "code_block" or fence.map is None:
        return True
    content = fence.content
    lines = content.count("\n") + (not content.endswith("\n") if content else 0)
    return fence.map[1] - fence.map[0] == lines + 2


def blocks(source: str, environment: EnvType) -> Iterator[ParsedBlock]:
    """Yields the blocks of `source` in order. environment: takes what is noted about the source as a whole, references
    among it. source: has no carriage returns."""
    tokens: list[Token] = []
    parser().block.parse(source, parser(), environment, tokens)
    deep = environment.get("deep", ())
    first = 0
    for i, token in enumerate(tokens):
        if token.level == 0 and token.nesting <= 0:
            start, end = tokens[first].map or (0, 0)
            yield ParsedBlock(tokens[first : i + 1], (start, end), any(start <= line < end for line in deep))
            first = i + 1
