"""The Markdown that is understood: CommonMark without HTML, with tables, ~~strikethrough~~ and mathematics."""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cache
from types import SimpleNamespace
from typing import NamedTuple

from markdown_it import MarkdownIt, helpers
from markdown_it.rules_inline import StateInline
from markdown_it.token import Token
from markdown_it.utils import EnvType

from app.window.reading.maths import add_maths
from app.window.reading.tracing import Blocks, Inlines, InlineState, Traced

DEEPEST = 24  # levels of blocks, of which a list takes two
LONGEST_INLINE = 4000  # characters of one inline content; the parser's time grows faster than its length
LONGEST_PARAGRAPH = 2000  # characters; longer ones are cut, because Qt lays out a paragraph as one

_CUTS = (
    re.compile(r"\n(?=[^\W\d_])"),
    re.compile(r"(?:[.!?:;] |[\u3002\uff01\uff1f\uff1b])(?=[^\W\d_])"),
    re.compile(r" (?=[^\W\d_])"),
    re.compile(r"(?<=\w)(?=[^\W\d_])"),
)


MOST_STEPS = 40_000  # characters of one paragraph that may be looked at in search of the ends of labels


def label_end(state: StateInline, start: int, disableNested: bool = False) -> int:
    """markdown-it's parseLinkLabel, which takes quadratic time on brackets that do not close; after MOST_STEPS a
    bracket is text."""
    assert isinstance(state, InlineState)
    if state.steps > MOST_STEPS or state.src.find("]", start) < 0:
        return -1
    end: int = helpers.parseLinkLabel(state, start, disableNested)
    state.steps += (end if end >= 0 else state.posMax) - start
    return end


class Parser(MarkdownIt):
    """Links are left as they are written: `links` judges them."""

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
    """The one there is; it keeps nothing between calls."""
    return Parser()


class Block(NamedTuple):
    """A block of the outermost level. lines: [first, end) of the source. deep: nested deeper than is followed."""

    tokens: list[Token]
    lines: tuple[int, int]
    deep: bool

    @property
    def kind(self) -> str:
        """Of its first token: "paragraph_open"."""
        return self.tokens[0].type


def is_closed(fence: Token) -> bool:
    """Whether a fence has its end. Indented code always has."""
    if fence.type == "code_block" or fence.map is None:
        return True
    content = fence.content
    lines = content.count("\n") + (not content.endswith("\n") if content else 0)
    return fence.map[1] - fence.map[0] == lines + 2


def blocks(source: str, environment: EnvType) -> Iterator[Block]:
    """In order. environment: takes what is noted about the source as a whole, references among it. source: has no
    carriage returns."""
    tokens: list[Token] = []
    parser().block.parse(source, parser(), environment, tokens)
    deep = environment.get("deep", ())
    first = 0
    for i, token in enumerate(tokens):
        if token.level == 0 and token.nesting <= 0:
            start, end = tokens[first].map or (0, 0)
            yield Block(tokens[first : i + 1], (start, end), any(start <= line < end for line in deep))
            first = i + 1


def pieces(content: Traced) -> Iterator[Traced]:
    """A paragraph's content in pieces of at most LONGEST_PARAGRAPH characters or little more. Each is a paragraph if
    it stands alone (it begins with a letter), and where to cut does not depend on what comes after."""
    start = 0
    while (cut := _cut(content, start)) is not None:
        yield content.part(start, cut)
        start = cut
    yield content.part(start, len(content)) if start else content


def _cut(content: str, start: int) -> int | None:
    """Where the piece from `start` ends: at a line, else a sentence, else a word, else within one."""
    last = start + LONGEST_PARAGRAPH
    if len(content) <= last:
        return None
    for boundary in _CUTS:
        ends = [found.end() for found in boundary.finditer(content, start + LONGEST_PARAGRAPH // 2, last)]
        if ends:
            return ends[-1]
    found = _CUTS[-1].search(content, last)
    return found.end() if found else None
