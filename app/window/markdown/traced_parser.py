"""The Markdown that is understood, parsed so that every character knows where it came from: CommonMark without HTML,
with tables, ~~strikethrough~~, task lists and mathematics.

pulldown-cmark parses, and says for each event which bytes it came from. What is meant otherwise than CommonMark reads
it is marked before (`_Prepared`): characters are put in or replaced in a copy of the source, whose places are known, so
that formulas are one word, a vertical bar within code or a formula does not end a cell, tags of HTML are text, and
emphasis ends beside the punctuation of Chinese, Japanese and Korean. No content is taken from that copy; it is cut from
the source.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
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

_PLACEHOLDER = (
    "\ue000"  # a letter for CommonMark, in place of what it would misread; no such character of a source is lost
)
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


Edit = tuple[int, int, str]  # source[start:end] is replaced


class _Prepared:
    """A source as pulldown-cmark is to read it. formulas: by where they begin. unclosed: places of openers of formulas
    whose end may still come."""

    def __init__(self, source: str) -> None:
        self.source = source
        self.formulas: dict[int, FormulaSpan] = {}
        self.unclosed: list[int] = []
        edits: list[Edit] = []
        if "$" in source or "\\" in source:
            found, self.unclosed = find_formulas(source)
            self.formulas = {formula.start: formula for formula in found}
            edits += ((one.start, one.end, _PLACEHOLDER * (one.end - one.start)) for one in found)
        edits += ((tag.end(), tag.end(), _PLACEHOLDER) for tag in _NO_TAG.finditer(source))
        if "|" in source:
            edits += _bars_in_code(source)
        if not source.isascii() and ("*" in source or "~~" in source):
            edits += _beside_cjk(source)
        self._apply(edits)
        if "|" in source and (more := self._missing_headers()):
            self._apply([*edits, *more])

    def _apply(self, edits: Iterable[Edit]) -> None:
        pieces: list[str] = []
        places: list[int] = []
        done = 0
        for start, end, text in sorted(edits):
            if start < done:  # within a formula
                continue
            pieces += (self.source[done:start], text)
            places += range(done, start)
            places += range(start, end) if start < end else [-1] * len(text)
            done = end
        pieces.append(self.source[done:])
        places += range(done, len(self.source) + 1)
        self.text = "".join(pieces)
        self._places = places

    def events(self) -> Iterator[tuple[Any, int, int]]:
        """Yields each event with the characters [start, end) of `text` that it came from. Texts that are as in `text`
        and follow one another are one."""
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

    def place(self, character: int) -> int:
        """Returns the place in the source of a character of `text`, or of the next that has one."""
        while self._places[character] < 0:
            character += 1
        return self._places[character]

    def traced(self, start: int, end: int) -> Traced:
        """Returns what text[start:end] stands for."""
        at = [place for place in self._places[start:end] if place >= 0]
        return Traced("".join(map(self.source.__getitem__, at)), at)

    def aligned(self, text: str, start: int, end: int) -> Traced:
        """Returns `text`, each character from the next like it in text[start:end]: what was left out between are marks
        of blocks around, and a line end is a space."""
        shown: list[str] = []
        at: list[int] = []
        for character in text:
            while start < end and self.text[start] != character and (character != " " or self.text[start] != "\n"):
                start += 1
            place = self._places[start] if start < end else -1
            if place >= 0:
                shown.append(character if character != _PLACEHOLDER else self.source[place])
                at.append(place)
            start += 1
        return Traced("".join(shown), at)

    def _missing_headers(self) -> list[Edit]:
        """Returns what the headers of tables lack so that cells beyond them are shown."""
        edits: list[Edit] = []
        columns = most = 0
        head = (0, 0)
        for event, start, end in self.events():
            kind, value = _kind(event, "Start")
            if kind == "Table":
                columns = most = len(value)
            elif kind == "TableHead":
                head = (start, end)
            elif kind == "TableRow":
                most = max(most, _cells(self.text[start:end]))
            elif _kind(event, "End")[0] == "Table" and columns < most <= WIDEST_TABLE:
                edits += self._padding(head, most - columns)
        return edits

    def _padding(self, head: tuple[int, int], more: int) -> Iterator[Edit]:
        """Yields what gives a table so many columns more: in its first line, and in the line below."""
        line = self.text.find("\n", head[0])
        for end, text in ((line, " |"), (self.text.find("\n", line + 1), "-|")):
            end = len(self.text) if end < 0 else end
            bare = self.text[:end].rstrip()
            place = self.place(len(bare))
            yield place, place, ("" if bare.endswith("|") else "|") + text * more


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


def _cells(row: str) -> int:
    return len(_BAR.findall(row.strip().removeprefix("|").removesuffix("|"))) + 1


def _code_places(source: str) -> list[tuple[int, int]]:
    """Returns where code is if all dollars are text."""
    return [
        (start, end)
        for event, start, end in _events(source)
        if isinstance(event, dict) and ("Code" in event or _kind(event, "Start")[0] == "CodeBlock")
    ]


def _bars_in_code(source: str) -> Iterator[Edit]:
    for code in _CODE_WITHIN_LINE.finditer(source):
        for bar in _BAR.finditer(source, code.start(), code.end()):
            yield bar.start(), bar.end(), _PLACEHOLDER


def _beside_cjk(source: str) -> Iterator[Edit]:
    """Yields a letter between stars or tildes and punctuation where either is Chinese, Japanese or Korean or has such a
    character on the other side of the marks, so that a colon may end "**a:**": the rule of markdown-cjk-friendly."""
    for marks in _MARKS.finditer(source):
        before, after = source[marks.start() - 1 : marks.start()], source[marks.end() : marks.end() + 1]
        if not _CJK.match(before) and not _CJK.match(after):
            continue
        if _is_punctuation(before):
            yield marks.start(), marks.start(), _PLACEHOLDER
        if _is_punctuation(after):
            yield marks.end(), marks.end(), _PLACEHOLDER


def _is_punctuation(character: str) -> bool:
    return character != "" and category(character)[0] in "PS"


# --- tokens -----------------------------------------------------------------------------------------


def parse(source: str) -> list[Token]:
    """Returns the tokens of a source, which has no carriage returns."""
    return _parsed(source)[0]


@lru_cache(maxsize=4)  # where it is cut and what is written are found one after the other
def _parsed(source: str) -> tuple[list[Token], list[int]]:
    prepared = _Prepared(source)
    return list(_with_paragraphs(_tokens(prepared))), prepared.unclosed


def _tokens(prepared: _Prepared) -> Iterator[Token]:
    in_code, quotes = False, 0
    for event, start, end in prepared.events():
        first, last = prepared.place(start), prepared.place(end)
        kind, value = _kind(event, "Start")
        closed, _ = _kind(event, "End")
        quotes += (kind == "BlockQuote") - (closed == "BlockQuote")
        if kind == "CodeBlock":
            in_code = True
            yield Token("code", 1, first, last, value=_info(prepared, start, value))
        elif kind in _KINDS:
            yield Token(_KINDS[kind], 1, first, last, value=_value(prepared, kind, value, start, end))
        elif closed in _KINDS:
            in_code = in_code and closed != "CodeBlock"
            yield Token(_KINDS[closed], -1, first, last)
        elif isinstance(event, str):
            yield Token(_KINDS[event], 0, first, last, Traced("\n", [first]))
        elif "Text" in event:
            yield from _texts(prepared, event["Text"], start, end, in_code, quotes)
        elif "InlineHtml" in event or "Html" in event:
            yield from _texts(prepared, prepared.text[start:end], start, end, in_code, quotes)
        elif "Code" in event:
            yield Token("code_span", 0, first, last, prepared.aligned(event["Code"], start, end))
        elif "TaskListMarker" in event:
            yield Token("task", 0, first, last, value=event["TaskListMarker"])


def _value(prepared: _Prepared, kind: str, value: Any, start: int, end: int) -> Any:
    if kind == "Heading":
        return int(value["level"][1])
    if kind in ("Link", "Image"):
        address = str(value["dest_url"])
        if _PLACEHOLDER in address and (at := prepared.text.find(address, start, end)) >= 0:
            address = str(prepared.traced(at, at + len(address)))
        return f"mailto:{address}" if value["link_type"] == "Email" else address
    return value


def _info(prepared: _Prepared, start: int, value: Any) -> Traced:
    """Returns what follows the fence of a code block."""
    if value == "Indented" or value is None:
        return Traced("", ())
    line = prepared.text.find("\n", start)
    info = prepared.traced(start, len(prepared.text) if line < 0 else line)
    return info.part(len(info) - len(info.lstrip("`~")), len(info)).strip()


def _texts(prepared: _Prepared, text: str, start: int, end: int, in_code: bool, quotes: int) -> Iterator[Token]:
    """Yields the text of an event, cut at formulas. What is not as in the source, such as an entity, has the place
    where that begins."""
    if text != prepared.text[start:end]:
        place = prepared.place(start)
        at = [place if start < end else -1] * len(text)  # what is left of a tab has no place
        yield Token("text", 0, place, prepared.place(end), Traced(text, at))
        return
    whole, done = prepared.traced(start, end), 0
    for first, last, token in [] if in_code else _specials(prepared, whole, quotes):
        if first < done:
            continue
        if done < first:
            yield Token("text", 0, whole.at[done], token.start, whole.part(done, first))
        yield token
        done = last
    if done < len(whole):
        yield Token("text", 0, whole.at[done], prepared.place(end), whole.part(done, len(whole)))


def _specials(prepared: _Prepared, text: Traced, quotes: int) -> list[tuple[int, int, Token]]:
    """Returns what is no text within a text, in order, each with the characters [start, end) where it is."""
    found: list[tuple[int, int, Token]] = []
    for index, place in enumerate(text.at if prepared.formulas else ()):
        if formula := prepared.formulas.get(place):
            inner = Traced(prepared.source[formula.first : formula.last], range(formula.first, formula.last))
            latex = _without_marks(inner, quotes).strip()
            token = Token("formula", 0, formula.start, formula.end, latex, formula.display)
            found.append((index, index + formula.end - formula.start, token))
    for tag in _TAG.finditer(text) if "<" in text else ():
        place = text.at[tag.start()]
        if prepared.source[place - 1 : place] != "\\":
            whole = text.part(tag.start(), tag.end())
            name = f"{tag[1]}{tag[2].lower()}"
            found.append((tag.start(), tag.end(), Token("tag", 0, place, place + len(whole), whole, name)))
    return sorted(found, key=lambda one: one[0])


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
