"""The Markdown that is understood, parsed so that every character knows where it came from: CommonMark without HTML,
with tables, ~~strikethrough~~, task lists and mathematics.

pulldown-cmark parses, and says for each event which bytes it came from. What is meant otherwise than CommonMark reads
it is masked before (`_Masked`): in a copy of the source some characters are replaced by others, so that formulas are
one word, a vertical bar within code or a formula does not end a cell, nor does one behind the last column, tags of HTML
are text, and emphasis ends beside the punctuation of Chinese, Japanese and Korean. The copy is as long as the source,
from which all content is cut.
"""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Sequence
from functools import lru_cache
from itertools import accumulate
from typing import Any, Literal, NamedTuple
from unicodedata import category

from pyromark import Options, events_with_range

from app.window.markdown.formula_spans import LONGEST_FORMULA, FormulaSpan, formula_at

WIDEST_TABLE = 66  # columns
LARGEST_TABLE = 600  # cells, those included that a row leaves out: 0.1 ms each
DEEPEST = 24  # levels of blocks, of which a list takes two

_OPTIONS = Options.ENABLE_TABLES | Options.ENABLE_TASKLISTS | Options.ENABLE_STRIKETHROUGH
_KINDS = {
    "Paragraph": "paragraph",
    "Heading": "heading",
    "BlockQuote": "quote",
    "CodeBlock": "code",
    "List": "list",
    "Item": "item",
    "Table": "table",
    "TableHead": "row",
    "TableRow": "row",
    "TableCell": "cell",
    "Emphasis": "emphasis",
    "Strong": "strong",
    "Strikethrough": "struck",
    "Link": "link",
    "Image": "image",
    "Code": "code_span",
    "Text": "text",
    "SoftBreak": "break",
    "HardBreak": "break",
    "Rule": "rule",
    "TaskListMarker": "task",
}
INLINE = ("text", "tag", "code_span", "break", "formula", "emphasis", "strong", "struck", "link", "image", "task")
_CONTAINERS = ("quote", "list", "item")


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

    def __add__(self, other: str, /) -> Traced:
        places = other.at if isinstance(other, Traced) else [-1] * len(other)
        return Traced(str(self) + str(other), [*self.at, *places])


class Token(NamedTuple):
    """The beginning (nesting 1) or end (-1) of a block or of a format within text, or something whole (0), which is
    source[start:end]. text: of text, code and formulas. value: the level of a heading, the number that a list begins
    with (None: bullets), the alignments of a table, the address of a link, whether a task is done, whether a formula
    stands on lines of its own; of a code block what follows its fence, as Traced."""

    kind: str
    nesting: Literal[-1, 0, 1]
    start: int
    end: int
    text: Traced = Traced("", ())
    value: Any = None


class ParsedBlock(NamedTuple):
    """A block of the outermost level, source[start:end] without the indent of its first line. deep: nested deeper than
    is followed."""

    tokens: list[Token]
    start: int
    end: int
    deep: bool

    @property
    def kind(self) -> str:
        """The kind of the block, such as "paragraph"."""
        return self.tokens[0].kind


# --- what is meant otherwise than CommonMark reads it -------------------------------------------------

_LETTER, _MARK, _CJK_MARK = "\ue000", ",", "§"  # a letter and punctuation, that can be escaped as "<" can, or cannot
_TAG = re.compile(r"<(/?)(br|sub|sup|kbd)\s*/?>", re.IGNORECASE)
_NO_TAG = re.compile(r"<(?=[A-Za-z/!?])(?!(?:[A-Za-z][\w+.-]{1,31}:|[\w.!#$%&'*+/=?^`{|}~-]+@)[^\s<>]*>)(?<!\]\(<)")
_CODE_WITHIN_LINE = re.compile(r"(?<![`\\])(`+)(?!`)([^\n]*?[^`\n])\1(?!`)")
_BAR = re.compile(r"(?<!\\)\|")
_MARKS = re.compile(r"(?<![\\*])\*+|(?<![\\~])~~(?!~)")
_CJK = re.compile(
    "[\u1100-\u11ff\u2e80-\ua4cf\ua960-\ua97f\uac00-\ud7ff\uf900-\ufaff\ufe30-\ufe4f\uff00-\uffef\U0001b000-\U0001b2ff\U00020000-\U0003ffff]"
)
_OPENER = re.compile(r"\\[\\$]|\$\$|\\\[|\\\(|\$|\\begin\{")


def find_formulas(source: str) -> tuple[list[FormulaSpan], list[int]]:
    """Returns the formulas of a source outside of code, and the places of openers whose end may still come."""
    found: list[FormulaSpan] = []
    unclosed: list[int] = []
    code = _code_places(source)
    starts = [start for start, _ in code]
    place = 0
    while opener := _OPENER.search(source, place):
        start, place = opener.start(), opener.end()
        around = bisect_right(starts, start) - 1
        if around >= 0 and start < code[around][1]:
            place = code[around][1]
            continue
        formula = formula_at(source, start)
        last = bisect_right(starts, formula.end - 1) - 1 if formula else -1
        if formula and (last < 0 or starts[last] < start or code[last][1] <= formula.end):
            found.append(formula)
            place = formula.end
        elif opener[0] in ("$$", "\\[", "\\begin{") and start + LONGEST_FORMULA > len(source) and not formula:
            unclosed.append(start)
    return found, unclosed


class _Masked:
    """A source, and `text`, which pulldown-cmark is to read in its place. formulas: in order. unclosed: places of
    openers of formulas whose end may still come."""

    def __init__(self, source: str) -> None:
        self.source = source
        self.formulas: list[FormulaSpan] = []
        self.unclosed: list[int] = []
        text = list(source)
        for tag in _NO_TAG.finditer(source):
            text[tag.start()] = _MARK
        for code in _CODE_WITHIN_LINE.finditer(source) if "|" in source else ():
            for bar in _BAR.finditer(source, code.start(), code.end()):
                text[bar.start()] = _LETTER
        if "$" in source or "\\" in source:
            self.formulas, self.unclosed = find_formulas(source)
            for formula in self.formulas:
                text[formula.start : formula.end] = _LETTER * (formula.end - formula.start)
        if not source.isascii():
            _mask_beside_cjk(source, text)
        self.text = "".join(text)
        for place in self._bars_behind_tables() if "|" in source else ():
            text[place] = _MARK
        self.text = "".join(text)

    def events(self) -> Iterator[tuple[Any, int, int]]:
        """Yields each event with the characters [start, end) that it came from. Texts that are as in `text` and follow
        one another are one."""
        open_text = (0, 0)
        for event, start, end in _events(self.text):
            literal = isinstance(event, dict) and event.get("Text", "") != "" and event["Text"] == self.text[start:end]
            if literal and open_text[1] == start:
                open_text = (open_text[0], end)
                continue
            if open_text[0] < open_text[1]:
                yield {"Text": self.text[slice(*open_text)]}, *open_text
            open_text = (start, end) if literal else (end, end)
            if not literal:
                yield event, start, end
        if open_text[0] < open_text[1]:
            yield {"Text": self.text[slice(*open_text)]}, *open_text

    def traced(self, start: int, end: int) -> Traced:
        """Returns source[start:end]."""
        return Traced(self.source[start:end], range(start, end))

    def aligned(self, text: str, start: int, end: int) -> Traced:
        """Returns `text`, each character from the next like it in text[start:end]: what was left out between are marks
        of blocks around, and a line end is a space."""
        shown: list[str] = []
        at: list[int] = []
        for character in text:
            while start < end and self.text[start] != character and (character != " " or self.text[start] != "\n"):
                start += 1
            if start < end:
                shown.append(" " if character == " " else self.source[start])
                at.append(start)
            start += 1
        return Traced("".join(shown), at)

    def _bars_behind_tables(self) -> Iterator[int]:
        """Yields the bars that begin cells beyond the header, which pulldown-cmark would leave out: as text, they are
        part of the last cell."""
        columns = 0
        for event, start, end in self.events() if _BAR.search(self.text) else ():
            kind, value = _kind(event, "Start")
            columns = len(value) if kind == "Table" else columns
            if kind == "TableRow":
                row = self.text[start:end].rstrip()
                bars = [bar.start() for bar in _BAR.finditer(row) if row[: bar.start()].strip()]
                yield from (start + bar for bar in bars[columns - 1 :] if bar + 1 < len(row))


def _events(text: str) -> Iterator[tuple[Any, int, int]]:
    """Yields pulldown-cmark's events with the characters [start, end) of a text that each came from."""
    starts = None if text.isascii() else [0, *accumulate(map(_bytes, text))]  # the first byte of each character
    event: Any  # one key or a name; the stubs of pyromark have a type for each
    for event, place in events_with_range(text.encode("utf-8", "replace").decode(), options=_OPTIONS):
        start, end = place["start"], place["end"]
        if starts is not None:
            start, end = bisect_right(starts, start) - 1, bisect_right(starts, end) - 1
        yield event, start, end


def _bytes(character: str) -> int:
    code = ord(character)
    return 1 if code < 0x80 or 0xD800 <= code < 0xE000 else 2 if code < 0x800 else 3 if code < 0x10000 else 4


def _kind(event: Any, side: str) -> tuple[str, Any]:
    """Returns the kind of an event of this side and what it says; "" for one of the other."""
    inner = event.get(side, "") if isinstance(event, dict) else ""
    return next(iter(inner.items())) if isinstance(inner, dict) else (inner, None)


def _code_places(source: str) -> list[tuple[int, int]]:
    """Returns where code is if all dollars are text."""
    return [
        (start, end)
        for event, start, end in _events(source)
        if isinstance(event, dict) and ("Code" in event or _kind(event, "Start")[0] == "CodeBlock")
    ]


def _mask_beside_cjk(source: str, text: list[str]) -> None:
    """Masks Chinese, Japanese and Korean characters beside stars or tildes, so that a colon may end "**a:**", as the
    rule of markdown-cjk-friendly has it: punctuation as letters; or where other punctuation stands on the other side of
    the marks, letters as punctuation."""
    found = list(_MARKS.finditer(source))
    for marks in (*found, *reversed(found)):  # a character between two marks is masked for both
        sides = [place for place in (marks.start() - 1, marks.end()) if 0 <= place < len(text)]
        cjk = [place for place in sides if _CJK.match(text[place]) and not text[place].isspace()]
        others = [place for place in sides if place not in cjk]
        as_mark = any(_is_punctuation(text[place]) for place in others)
        for place in cjk:
            if _is_punctuation(text[place]) != as_mark:
                text[place] = _CJK_MARK if as_mark else _LETTER


def _is_punctuation(character: str) -> bool:
    return category(character)[0] in "PS"


# --- tokens -----------------------------------------------------------------------------------------


def parse(source: str) -> list[Token]:
    """Returns the tokens of a source, which has no carriage returns."""
    return _parsed(source)[0]


@lru_cache(maxsize=4)  # where it is cut and what is written are found one after the other
def _parsed(source: str) -> tuple[list[Token], list[int]]:
    masked = _Masked(source)
    return list(_with_paragraphs(_tokens(masked))), masked.unclosed


def _tokens(masked: _Masked) -> Iterator[Token]:
    in_code, quotes = False, 0
    for event, start, end in masked.events():
        kind, value = _kind(event, "Start")
        closed, _ = _kind(event, "End")
        quotes += (kind == "BlockQuote") - (closed == "BlockQuote")
        if kind == "CodeBlock":
            in_code = True
            yield Token("code", 1, start, end, value=_info(masked, start, value))
        elif kind in _KINDS:
            yield Token(_KINDS[kind], 1, start, end, value=_value(masked, kind, value, start, end))
        elif closed in _KINDS:
            in_code = in_code and closed != "CodeBlock"
            yield Token(_KINDS[closed], -1, start, end)
        elif isinstance(event, str):
            yield Token(_KINDS[event], 0, start, end, Traced("\n", [start]))
        elif "Text" in event:
            yield from _texts(masked, event["Text"], start, end, in_code, quotes)
        elif "InlineHtml" in event or "Html" in event:
            yield from _texts(masked, masked.text[start:end], start, end, in_code, quotes)
        elif "Code" in event:
            yield Token("code_span", 0, start, end, masked.aligned(event["Code"], start, end))
        elif "TaskListMarker" in event:
            yield Token("task", 0, start, end, value=event["TaskListMarker"])


def _value(masked: _Masked, kind: str, value: Any, start: int, end: int) -> Any:
    if kind == "Heading":
        return int(value["level"][1])
    if kind in ("Link", "Image"):
        address = str(value["dest_url"])
        if (at := masked.text.find(address, start, end)) >= 0:
            address = masked.source[at : at + len(address)]
        return f"mailto:{address}" if value["link_type"] == "Email" else address
    return value


def _info(masked: _Masked, start: int, value: Any) -> Traced:
    """Returns what follows the fence of a code block."""
    if value == "Indented" or value is None:
        return Traced("", ())
    line = masked.text.find("\n", start)
    info = masked.traced(start, len(masked.text) if line < 0 else line)
    return info.part(len(info) - len(info.lstrip("`~")), len(info)).strip()


def _texts(masked: _Masked, text: str, start: int, end: int, in_code: bool, quotes: int) -> Iterator[Token]:
    """Yields the text of an event, cut at formulas. What is not as in the source, such as an entity, has the place
    where that begins."""
    if text != masked.text[start:end]:
        at = [start if start < end else -1] * len(text)  # what is left of a tab has no place
        yield Token("text", 0, start, end, Traced(text, at))
        return
    done = start
    for token in [] if in_code else _specials(masked, start, end, quotes):
        if token.start < done:
            continue
        if done < token.start:
            yield Token("text", 0, done, token.start, masked.traced(done, token.start))
        yield token
        done = token.end
    if done < end:
        yield Token("text", 0, done, end, masked.traced(done, end))


def _specials(masked: _Masked, start: int, end: int, quotes: int) -> list[Token]:
    """Returns what is no text within source[start:end], in order."""
    found: list[Token] = []
    first = bisect_left(masked.formulas, start, key=lambda formula: formula.start)
    last = bisect_left(masked.formulas, end, key=lambda formula: formula.start)
    for formula in masked.formulas[first:last]:
        latex = _without_marks(masked.traced(formula.first, formula.last), quotes).strip()
        found.append(Token("formula", 0, formula.start, formula.end, latex, formula.display))
    for tag in _TAG.finditer(masked.source, start, end):
        if masked.source[tag.start() - 1 : tag.start()] != "\\":
            whole = masked.traced(tag.start(), tag.end())
            found.append(Token("tag", 0, tag.start(), tag.end(), whole, f"{tag[1]}{tag[2].lower()}"))
    return sorted(found, key=lambda token: token.start)


def _without_marks(formula: Traced, quotes: int) -> Traced:
    """Returns a formula without the marks of so many quotes around at the beginning of its lines."""
    if not quotes or "\n" not in formula:
        return formula
    made, done = Traced("", ()), 0
    for marks in re.finditer(rf"(?<=\n)(?:[ \t]*>){{1,{quotes}}}", formula):
        made, done = made + formula.part(done, marks.start()), marks.end()
    return made + formula.part(done, len(formula))


def _with_paragraphs(tokens: Iterator[Token]) -> Iterator[Token]:
    """Yields the tokens with a paragraph around the text of items that have none, and with a paragraph cut at formulas
    on lines of their own, which become blocks."""
    around: list[str] = []
    text: list[Token] = []
    for token in tokens:
        if token.kind in INLINE and around and around[-1] in ("item", "paragraph"):
            text.append(token)
            continue
        yield from _paragraphs(text)
        text = []
        if token.kind != "paragraph":
            yield token
        if token.nesting > 0:
            around.append(token.kind)
        elif token.nesting < 0:
            around.pop()
    yield from _paragraphs(text)


def _paragraphs(text: list[Token]) -> Iterator[Token]:
    start = 0
    for i, token in enumerate(text):
        alone = (not i or text[i - 1].kind == "break") and (i + 1 == len(text) or text[i + 1].kind == "break")
        if token.kind == "formula" and token.value and alone:
            yield from _paragraph(text[start : max(start, i - 1)])
            yield token._replace(kind="formula_block")
            start = i + 2
    yield from _paragraph(text[start:])


def _paragraph(text: list[Token]) -> Iterator[Token]:
    if text:
        yield Token("paragraph", 1, text[0].start, text[-1].end)
        yield from text
        yield Token("paragraph", -1, text[0].start, text[-1].end)


# --- blocks -----------------------------------------------------------------------------------------


def is_closed(code: Sequence[Token], source: str) -> bool:
    """Whether a code block, given by its tokens, has its end. Indented code always has."""
    first = code[0]
    if source[first.start : first.start + 3] not in ("```", "~~~"):
        return True
    whole = source[first.start : first.end].rstrip("\n")
    last_line = first.start + whole.rfind("\n") + 1
    texts_end = max((token.end for token in code[1:-1]), default=first.start + 1)
    return "\n" in whole and last_line >= texts_end


def blocks(source: str) -> Iterator[ParsedBlock]:
    """Yields the blocks of `source` in order. source: has no carriage returns."""
    first = depth = deepest = level = 0
    tokens = parse(source)
    for i, token in enumerate(tokens):
        level += token.nesting
        depth += token.nesting * (token.kind in _CONTAINERS)
        deepest = max(deepest, depth)
        if level == 0:
            yield ParsedBlock(tokens[first : i + 1], tokens[first].start, token.end, deepest > DEEPEST)
            first, deepest = i + 1, 0


def unclosed_formulas(source: str) -> list[int]:
    """Returns the places of openers of formulas on lines of their own, whose end may still come."""
    return _parsed(source)[1]
