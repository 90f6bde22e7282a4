"""Markdown as blocks of a document: what each block and each run of text looks like, and which token it came from."""

import re
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import accumulate, takewhile
from typing import Any, Literal

from PySide6.QtCore import Qt, QUrl
from PySide6.QtGui import QTextBlockFormat, QTextTableFormat

from app.window.markdown.code_colours import highlighted
from app.window.markdown.formula_spans import FENCES
from app.window.markdown.formula_text import is_set, readable
from app.window.markdown.links import safe_link
from app.window.markdown.text_blocks import Block, TableBlock, TextBlock, TokenRuns
from app.window.markdown.text_formats import (
    BODY,
    CODE,
    CODE_HEAD,
    CODE_LINE,
    CODE_LINE_HEIGHT,
    CODE_TEXT,
    GAP,
    GOES_ON,
    HEADINGS,
    INDENT,
    KIND,
    LANGUAGE,
    LINE_HEIGHT,
    MARKER,
    NOTE,
    PADDING,
    RAW,
    RULE,
    TIGHT,
    BlockPlace,
    Style,
    TextFormats,
    block_shape,
    is_right_to_left,
    note,
)
from app.window.markdown.traced_parser import (
    LARGEST_TABLE,
    WIDEST_TABLE,
    ParsedBlock,
    Token,
    Traced,
    blocks,
    is_closed,
)

BULLETS = "•◦▪"
BOXES = {False: "☐", True: "☑"}
IMAGE_NOTE = " (image not loaded)"
LABEL = Style(faint=True, size=0.85)
NO_LABEL = "code"
LONGEST_RAW = 2000  # characters of a block of raw text
_ALIGNMENTS = {
    "Left": Qt.AlignmentFlag.AlignLeft,
    "Center": Qt.AlignmentFlag.AlignHCenter,
    "Right": Qt.AlignmentFlag.AlignRight,
}
PLAIN_NOTE = "Shown as plain text: too large to format."


def plain_blocks(text: Traced, runs: TokenRuns, noted: bool) -> list[Block]:
    """Returns the source as it is, after a line that says so if it is to be `noted`."""
    made = [_note(PLAIN_NOTE, runs)] if noted else []
    return [*made, *raw_blocks(text, runs)]


def _note(text: str, runs: TokenRuns) -> Block:
    """Returns a line that is no part of the reply."""
    remark = Traced(text, [-1] * len(text))
    shape = block_shape(BlockPlace(), 0, 4, kind=NOTE)
    return TextBlock(shape, list(runs.of(remark, Style(faint=True, italic=True))))


def raw_blocks(text: Traced, runs: TokenRuns) -> list[Block]:
    """Returns the source as it is, a block for each line. A very long line is cut, because Qt lays out a block as
    one."""
    shape = block_shape(BlockPlace(), 0, 0, CODE_LINE_HEIGHT, kind=RAW)
    unfinished = QTextBlockFormat(shape)
    note(unfinished, GOES_ON, "")
    made: list[Block] = []
    for line in _lines(text):
        while len(line) > LONGEST_RAW:
            cut = line.rfind(" ", LONGEST_RAW // 2, LONGEST_RAW) + 1 or LONGEST_RAW
            made.append(TextBlock(unfinished, list(runs.of(line.part(0, cut), CODE_TEXT)), style=CODE_TEXT))
            line = line.part(cut, len(line))
        made.append(TextBlock(shape, list(runs.of(line, CODE_TEXT)), style=CODE_TEXT))
    return made


def first_code(source: str) -> str:
    """Returns the code of the first code block of a source, however long it is; "" without any."""
    for block in blocks(source):
        for i, token in enumerate(block.tokens):
            if token.kind == "code":
                return str(_code_text(block.tokens[i:])).removesuffix("\n")
    return ""


def _code_text(tokens: Iterable[Token]) -> Traced:
    """Returns the text of the code block that the tokens begin with."""
    made = Traced("", ())
    for token in takewhile(lambda token: token.kind != "code" or token.nesting > 0, tokens):
        made = made + token.text
    return made


def _lines(text: Traced) -> Iterator[Traced]:
    start = 0
    for line in text.split("\n"):
        yield text.part(start, start + len(line))
        start += len(line) + 1


class MarkdownWriter:
    """Turns one source, which has no carriage returns, into blocks. before: the block that they follow, if any."""

    def __init__(self, source: str, runs: TokenRuns, formats: TextFormats, before: Block | None) -> None:
        self._source = source
        self._runs, self._formats, self._before = runs, formats, before
        self._blocks: list[Block] = []
        self._place = BlockPlace()
        self._places: list[BlockPlace] = []
        self._numbers: list[int | None] = []  # of the next item, of each list around; None: bullets
        self._marker: Traced | None = None  # of an item that has no block yet

    def write(self) -> list[Block]:
        """Returns the blocks of the whole source."""
        for block in blocks(self._source):
            if block.deep:
                self._as_written(block, "nested too deeply")
            elif block.kind == "table" and _cells(block.tokens) > LARGEST_TABLE:
                self._as_written(block, "too large a table")
            else:
                self._place = BlockPlace(right_to_left=is_right_to_left(_prose(block.tokens)))
                self._write(block.tokens)
        return self._blocks

    def _as_written(self, block: ParsedBlock, why: str) -> None:
        """Adds a block that is not rendered, and says why."""
        self._add(_note(f"Shown as written: {why}.", self._runs))
        first = self._source.rfind("\n", 0, block.start) + 1
        text = self._source[first : block.end].rstrip("\n")
        *lines, end = raw_blocks(Traced(text, range(first, first + len(text))), self._runs)
        assert isinstance(end, TextBlock)
        end.shape = block_shape(BlockPlace(), 0, GAP, CODE_LINE_HEIGHT, kind=RAW)
        for line in [*lines, end]:
            self._add(line)

    def _add(self, block: Block) -> None:
        """Adds a block. The first text of all has no margin above."""
        if self._before is None and isinstance(block, TextBlock) and not block.shape.hasProperty(KIND):
            block.shape = QTextBlockFormat(block.shape)
            block.shape.setTopMargin(0)
        self._blocks.append(block)
        self._before = block

    def _is_followed_by_empty_line(self, end: int) -> bool:
        """Whether the line after place `end` is there, with nothing in it but marks of quotes."""
        line = end if self._source[end - 1 : end] == "\n" else self._source.find("\n", end) + 1
        stop = self._source.find("\n", line)
        return 0 < line < len(self._source) and not self._source[line : None if stop < 0 else stop].strip(" \t>")

    # --- blocks ------------------------------------------------------------------------------------

    def _write(self, tokens: list[Token]) -> None:
        i = 0
        while i < len(tokens):
            token, end = tokens[i], i + 1
            if token.nesting > 0 and token.kind in ("paragraph", "heading", "table", "code"):
                end = next(j for j in range(i, len(tokens)) if tokens[j].kind == token.kind and tokens[j].nesting < 0)
                self._leaf(token, tokens[i + 1 : end])
            elif token.nesting > 0:
                self._open(token)
            elif token.nesting < 0:
                self._close(token)
            else:
                self._leaf(token, [])
            i = end

    def _open(self, token: Token) -> None:
        if token.kind == "item":
            self._item(token)
        elif token.kind in ("list", "quote"):
            self._flush_marker()
            self._places.append(self._place)
            self._place = self._place.within_quote() if token.kind == "quote" else self._place.within_list()
            if token.kind == "list":
                self._numbers.append(token.value)

    def _close(self, token: Token) -> None:
        if token.kind in ("list", "quote"):
            self._place = self._places.pop()
            if token.kind == "list":
                self._numbers.pop()
        elif token.kind == "item":
            self._flush_marker()

    def _leaf(self, token: Token, within: list[Token]) -> None:
        if token.kind == "paragraph":
            below = GAP if not self._place.lists or self._is_followed_by_empty_line(token.end) else TIGHT
            self._text_block(within, Style(), 0, below)
            return
        if token.kind == "heading":
            size, above, below = HEADINGS[token.value]
            self._text_block(within, Style(bold=True, size=size), above, below, 125.0)
            return
        self._flush_marker()
        formula = token.kind == "code" and _label(token).lower() in FENCES
        text = _code_text(within).strip() if formula else Traced("", ())
        if text and is_closed([token, *within, token], self._source) and is_set(str(text), True):
            self._leaf(token._replace(kind="formula_block", nesting=0, text=text), [])
        elif token.kind == "code":
            self._code(token, within)
        elif token.kind == "table":
            self._table(token, within)
        elif token.kind == "formula_block":
            shape = block_shape(replace(self._place, left=self._place.left + 24), 4, GAP, 115.0)
            text, style = _formula(token.text, Style(size=1.05), display=True)
            self._add(TextBlock(shape, list(self._runs.of(text, style))))
        elif token.kind == "rule":
            shape = block_shape(self._place, 8, 8 + GAP, 100.0, kind=RULE)
            blank = Traced("\u00a0", [-1])  # Qt gives an empty block after a table no room
            self._add(TextBlock(shape, list(self._runs.of(blank, BODY))))

    def _text_block(
        self, tokens: list[Token], style: Style, above: float, below: float, line: float = LINE_HEIGHT
    ) -> None:
        """Adds a block of text, with the marker of the item that it is the first block of."""
        marker, self._marker = self._marker, None
        if tokens and tokens[0].kind == "task":
            marker = Traced(BOXES[tokens[0].value], [tokens[0].start])
        runs = []
        place = self._place.for_text(_prose(tokens))
        if marker is None:
            shape = block_shape(place, above, below, line)
        else:
            hanging = self._formats.hanging(marker)
            place = replace(place, left=place.left + max(0.0, hanging - INDENT))
            shape = QTextBlockFormat(block_shape(place, above, below, line, hanging))
            shape.setProperty(MARKER, len(marker) + 1)
            runs = list(self._runs.of(marker + "\t", BODY, marker=True))
        for text, styled in inline_text(tokens, style):
            runs += self._runs.of(text, styled)
        self._add(TextBlock(shape, runs))

    def _flush_marker(self) -> None:
        if self._marker is not None:
            self._text_block([], BODY, 0, 0)

    def _item(self, token: Token) -> None:
        start, number = token.start, self._numbers[-1]
        if number is None:
            self._marker = Traced(BULLETS[min(self._place.lists - 1, 2)], [start])
            return
        written = _NUMBER.match(self._source, start)
        shown = f"{number}{written[2] if written else '.'}"
        at = range(start, start + len(shown)) if written and shown == written[0] else [start] * len(shown)
        self._marker = Traced(shown, at)
        self._numbers[-1] = number + 1

    # --- tables -------------------------------------------------------------------------------------

    def _table(self, table: Token, tokens: list[Token]) -> None:
        rows: list[list[TextBlock]] = []
        start = 0
        for i, token in enumerate(tokens):
            if token.kind == "row" and token.nesting > 0:
                rows.append([])
            elif token.kind == "cell" and token.nesting > 0:
                start = i + 1
            elif token.kind == "cell":
                rows[-1].append(self._cell(tokens[start:i], table.value[len(rows[-1])], header=len(rows) == 1))
        shape = QTextTableFormat()
        shape.setBorder(0)
        shape.setBorderCollapse(True)
        shape.setCellSpacing(0)
        shape.setLeftMargin(self._place.left)
        if self._place.right_to_left:  # Qt lays out columns from left to right only
            rows = [row[::-1] for row in rows]
            shape.setLayoutDirection(Qt.LayoutDirection.RightToLeft)
            shape.setAlignment(Qt.AlignmentFlag.AlignRight)
        if self._before is not None:  # Qt leaves out the space below a block before a table
            shape.setTopMargin(self._before.shape.bottomMargin() if isinstance(self._before, TextBlock) else GAP)
        shape.setHeaderRowCount(1)
        self._add(TableBlock(shape, rows))

    def _cell(self, tokens: list[Token], alignment: str, header: bool) -> TextBlock:
        place = BlockPlace(bars=self._place.bars, right_to_left=self._place.right_to_left)
        shape = QTextBlockFormat(block_shape(place.for_text(_prose(tokens)), 0, 0, 130.0))
        leading = Qt.AlignmentFlag.AlignRight if self._place.right_to_left else Qt.AlignmentFlag.AlignLeft
        shape.setAlignment(_ALIGNMENTS.get(alignment, leading) | Qt.AlignmentFlag.AlignAbsolute)
        pieces = inline_text(tokens, Style(bold=header))
        return TextBlock(shape, [run for text, style in pieces for run in self._runs.of(text, style)])

    # --- code ---------------------------------------------------------------------------------------

    def _code(self, token: Token, within: list[Token]) -> None:
        """Adds a code box: a label, then the code line by line, highlighted once its fence is closed."""
        code, label = _code_text(within), _label(token)
        code = code.part(0, len(code) - code.endswith("\n"))
        shape = QTextBlockFormat(self._code_shape(CODE_HEAD, GAP + 8, 6))
        note(shape, LANGUAGE, label)
        colours: Sequence[tuple[int, int, Any]] = ()
        if is_closed([token, *within, token], self._source):
            note(shape, CODE, code.encode("utf-8", "replace").decode())
            colours = highlighted(str(code), str(label))
        shown = label or Traced(NO_LABEL, [-1] * len(NO_LABEL))
        self._add(TextBlock(shape, list(self._runs.of(shown, LABEL))))
        shape = self._code_shape(CODE_LINE)
        lines = [TextBlock(shape, list(self._runs.of(line, CODE_TEXT))) for line in _lines(code)]
        lines[-1].shape = self._code_shape(CODE_LINE, 0, PADDING + GAP)
        _colour(lines, code, colours)
        for line in lines:
            self._add(line)

    def _code_shape(self, kind: str, above: float = 0, below: float = 0) -> QTextBlockFormat:
        place = replace(self._place, left=self._place.left + PADDING, right_to_left=False)
        shape = QTextBlockFormat(block_shape(place, above, below, CODE_LINE_HEIGHT, kind=kind))
        shape.setRightMargin(PADDING)
        return shape


def _label(code: Token) -> Traced:
    """Returns the first word after a fence, which names the language."""
    word = (code.value.split() or [""])[0][:40]
    start = code.value.find(word)
    label: Traced = code.value.part(start, start + len(word))
    return label


def _cells(table: list[Token]) -> int:
    """Returns how many cells a table has; more than any may have if it is too wide."""
    if len(table[0].value) > WIDEST_TABLE:
        return LARGEST_TABLE + 1
    return sum(token.kind == "cell" and token.nesting > 0 for token in table)


def _prose(tokens: Iterable[Token]) -> str:
    """Returns the text that says in which direction a block runs: without code and formulas."""
    code = 0
    text: list[str] = []
    for token in tokens:
        code += token.nesting * (token.kind == "code")
        if token.kind == "text" and not code:
            text.append(token.text)
    return "".join(text)


def _colour(lines: list[TextBlock], code: str, colours: Iterable[tuple[int, int, Any]]) -> None:
    """Gives each line its colours, of which one may span several."""
    starts = [0, *accumulate(len(line) + 1 for line in code.split("\n"))]
    for start, end, kind in colours:
        line = bisect_right(starts, start) - 1
        while start < end:
            stop = min(end, starts[line + 1] - 1)
            if start < stop:
                lines[line].colours.append((start - starts[line], stop - starts[line], kind))
            line += 1
            start = starts[line]


# --- within a line --------------------------------------------------------------------------------

StyledText = tuple[Traced, Style]  # line breaks are "\n"

_NUMBER = re.compile(r"(\d+)([.)])")
_ADDRESS = re.compile(r"(?<![\w/.@-])https?://[^\s<>\"'`\u3000-\u303f\uff00-\uffef]+", re.IGNORECASE)
_AFTER_ADDRESS = re.compile(r"(?:[?!.,:*_~;\"']|&\w+;)+$")


def inline_text(tokens: Sequence[Token], style: Style) -> Iterator[StyledText]:
    """Yields the text of a block: emphasis, code, links, images and formulas. style: of text without
    any of these."""
    return ((text, styled) for text, styled in _InlineText(tokens).styled(style) if text)


class _InlineText:
    """The text of a block with its styles. It follows marks as deep as they nest, without recursion."""

    def __init__(self, tokens: Sequence[Token]) -> None:
        self._tokens = tokens
        # A tag that is not closed later on is text, as all tags but <br>, <sub>, <sup> and <kbd> are.
        self._ends = [token.value[1:] for token in tokens if token.kind == "tag" and token.value[0] == "/"]
        self._tags: list[str] = []  # that are open

    def styled(self, style: Style) -> Iterator[StyledText]:
        """Yields each text with its style."""
        around: list[tuple[Style, int]] = []  # styles, and how many texts stood before
        count = 0
        for token in self._tokens:
            if token.nesting > 0:
                around.append((style, count))
                style = _opened(token, style)
                continue
            texts = list(self._texts(token, style)) if token.nesting == 0 else []
            if token.nesting < 0:
                inner, (style, before) = style, around.pop()
                texts = list(_after_image(inner, style, count == before)) if token.kind == "image" else []
            count += len(texts)
            yield from texts

    def _texts(self, token: Token, style: Style) -> Iterator[StyledText]:
        """Yields the text of a token that is no beginning and no end."""
        name, inner = token.value, _tagged(style, self._tags)
        if token.kind == "formula":
            yield _formula(token.text, inner, display=False)
        elif token.kind == "code_span":
            yield token.text, replace(inner, mono=True, boxed=True)
        elif token.kind != "tag":
            yield from [(token.text, inner)] if inner.link else _linked(token.text, inner)
        elif name == "br":
            yield Traced("\n", token.text.at[:1]), inner
        elif name in self._ends:
            self._tags.append(name)
        elif name[1:] in self._tags:
            self._tags.remove(name[1:])
            self._ends.remove(name[1:])
        else:
            yield token.text, inner


def _after_image(inner: Style, style: Style, empty: bool) -> Iterator[StyledText]:
    """Yields what stands after the alternative text of an image, or in its place: that it was not loaded."""
    if empty:
        yield Traced("image", [-1] * 5), inner
    yield Traced(IMAGE_NOTE, [-1] * len(IMAGE_NOTE)), replace(style, faint=True, link="")


def _formula(formula: Traced, style: Style, display: bool) -> StyledText:
    """Returns a formula to be set; or as text, where a line of text shows all of it, or where it cannot be parsed."""
    if is_set(str(formula), display):
        return formula, replace(style, formula="display" if display else "inline")
    return readable(formula), replace(style, italic=True)


def _opened(token: Token, style: Style) -> Style:
    if token.kind == "link":
        return replace(style, link=_address(token.value))
    if token.kind == "strong":
        return replace(style, bold=True)
    return replace(style, struck=True) if token.kind == "struck" else replace(style, italic=True)


def _address(written: str) -> str:
    """Returns an address if it may be a link, else ""."""
    address = safe_link(written)
    return address.toString(QUrl.ComponentFormattingOption.FullyEncoded) if address else ""


def _linked(text: Traced, style: Style) -> Iterator[StyledText]:
    """Yields a text with the addresses in it as links, which end as GitHub's do: before punctuation, and before a
    bracket that the address does not open."""
    done = 0
    for found in _ADDRESS.finditer(text):
        written = _AFTER_ADDRESS.sub("", found[0])
        while written.endswith(")") and written.count(")") > written.count("("):
            written = _AFTER_ADDRESS.sub("", written[:-1])
        if "." not in written or not (address := _address(written)):
            continue
        yield text.part(done, found.start()), style
        done = found.start() + len(written)
        yield text.part(found.start(), done), replace(style, link=address)
    if done < len(text):
        yield text.part(done, len(text)), style


def _tagged(style: Style, tags: Sequence[str]) -> Style:
    """Returns the style within these tags of HTML."""
    if not tags:
        return style
    key = "kbd" in tags
    script: Literal["", "sub", "sup"] = "sup" if "sup" in tags else "sub" if "sub" in tags else ""
    return replace(style, script=script, mono=style.mono or key, boxed=style.boxed or key)
