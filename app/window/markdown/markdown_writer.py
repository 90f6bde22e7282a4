"""Markdown as blocks of a document: what each block and each run of text looks like, and which token it came from."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import accumulate

from markdown_it.token import Token
from markdown_it.utils import EnvType
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
    note,
)
from app.window.markdown.traced_parser import ParsedBlock, Traced, blocks, is_closed, parser

BULLETS = "•◦▪"
BOXES = {"[ ] ": "☐", "[x] ": "☑", "[X] ": "☑"}
IMAGE_NOTE = " (image not loaded)"
LABEL = Style(faint=True, size=0.85)
NO_LABEL = "code"
LONGEST_RAW = 2000  # characters of a block of raw text
_ALIGNMENTS = {"center": Qt.AlignmentFlag.AlignHCenter, "right": Qt.AlignmentFlag.AlignRight}


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
    tokens = (token for block in blocks(source, {}) for token in block.tokens)
    return next((str(t.content).removesuffix("\n") for t in tokens if t.type in ("fence", "code_block")), "")


def _lines(text: Traced) -> Iterator[Traced]:
    start = 0
    for line in text.split("\n"):
        yield text.part(start, start + len(line))
        start += len(line) + 1


class MarkdownWriter:
    """Turns one source, which has no carriage returns, into blocks. before: the block that they follow, if any."""

    def __init__(self, source: str, runs: TokenRuns, formats: TextFormats, before: Block | None) -> None:
        self._source = source
        self._lines = source.split("\n")
        self._starts = [0, *accumulate(len(line) + 1 for line in self._lines)]
        self._runs, self._formats, self._before = runs, formats, before
        self._environment: EnvType = {}
        self._blocks: list[Block] = []
        self._place = BlockPlace()
        self._places: list[BlockPlace] = []
        self._numbers: list[int | None] = []  # of the next item, of each list around; None: bullets
        self._marker: Traced | None = None  # of an item that has no block yet

    def write(self) -> list[Block]:
        """Returns the blocks of the whole source."""
        for block in blocks(self._source, self._environment):
            if block.deep:
                self._as_written(block, "nested too deeply")
            else:
                self._write(block.tokens)
        return self._blocks

    def _as_written(self, block: ParsedBlock, why: str) -> None:
        """Adds a block that is not rendered, and says why."""
        self._add(_note(f"Shown as written: {why}.", self._runs))
        first, last = (min(self._starts[line], len(self._source)) for line in block.lines)
        text = Traced(self._source[first:last].removesuffix("\n"), range(first, last))
        *lines, end = raw_blocks(text, self._runs)
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

    def _is_empty(self, line: int) -> bool:
        """Whether there is such a line, with nothing in it but marks of quotes."""
        return line < len(self._lines) - (not self._lines[-1]) and not self._lines[line].strip(" \t>")

    # --- blocks ------------------------------------------------------------------------------------

    def _write(self, tokens: list[Token]) -> None:
        for i, token in enumerate(tokens):
            if token.type == "table_open":
                end = next(j for j in range(i, len(tokens)) if tokens[j].type == "table_close")
                self._table(tokens[i:end])
            elif token.nesting > 0:
                self._open(token, tokens[i + 1])
            elif token.nesting < 0:
                self._close(token)
            elif token.type != "inline":
                self._leaf(token)

    def _open(self, token: Token, after: Token) -> None:
        if token.type == "paragraph_open":
            assert token.map is not None
            below = GAP if not self._place.lists or self._is_empty(token.map[1]) else TIGHT
            self._text_block(_traced(after).strip(), Style(), 0, below)
        elif token.type == "heading_open":
            size, above, below = HEADINGS[int(token.tag[1])]
            self._text_block(_traced(after), Style(bold=True, size=size), above, below, 125.0)
        elif token.type == "list_item_open":
            self._item(token)
        elif token.type in ("bullet_list_open", "ordered_list_open", "blockquote_open"):
            self._flush_marker()
            self._places.append(self._place)
            quoted = token.type == "blockquote_open"
            self._place = self._place.within_quote() if quoted else self._place.within_list()
            if not quoted:
                self._numbers.append(int(token.attrs.get("start", 1)) if token.type[0] == "o" else None)

    def _close(self, token: Token) -> None:
        if token.type in ("bullet_list_close", "ordered_list_close", "blockquote_close"):
            self._place = self._places.pop()
            if token.type != "blockquote_close":
                self._numbers.pop()
        elif token.type == "list_item_close":
            self._flush_marker()

    def _leaf(self, token: Token) -> None:
        self._flush_marker()
        if token.type == "maths_block" or _is_formula(token):
            shape = block_shape(replace(self._place, left=self._place.left + 24), 4, GAP, 115.0)
            text, style = _formula(_traced(token).strip(), Style(size=1.05), display=True)
            self._add(TextBlock(shape, list(self._runs.of(text, style))))
        elif token.type in ("fence", "code_block"):
            self._code(token)
        elif token.type == "hr":
            shape = block_shape(self._place, 8, 8 + GAP, 100.0, kind=RULE)
            blank = Traced("\u00a0", [-1])  # Qt gives an empty block after a table no room
            self._add(TextBlock(shape, list(self._runs.of(blank, BODY))))

    def _text_block(self, content: Traced, style: Style, above: float, below: float, line: float = LINE_HEIGHT) -> None:
        """Adds a block of text, with the marker of the item that it is the first block of."""
        marker, self._marker = self._marker, None
        if marker is not None and content[:4] in BOXES:
            marker = Traced(BOXES[content[:4]], content.at[:1])
            content = content.part(4, len(content))
        runs = []
        if marker is None:
            shape = block_shape(self._place, above, below, line)
        else:
            hanging = self._formats.hanging(marker)
            place = replace(self._place, left=self._place.left + max(0.0, hanging - INDENT))
            shape = QTextBlockFormat(block_shape(place, above, below, line, hanging))
            shape.setProperty(MARKER, len(marker) + 1)
            runs = list(self._runs.of(marker + "\t", BODY, marker=True))
        for text, styled in inline_text(content, self._environment, style):
            runs += self._runs.of(text, styled)
        self._add(TextBlock(shape, runs))

    def _flush_marker(self) -> None:
        if self._marker is not None:
            self._text_block(Traced("", ()), BODY, 0, 0)

    def _item(self, token: Token) -> None:
        start = token.meta["at"]
        number = self._numbers[-1]
        if number is None:
            self._marker = Traced(BULLETS[min(self._place.lists - 1, 2)], [start])
            return
        written, shown = f"{token.info}{token.markup}", f"{number}{token.markup}"
        at = range(start, start + len(shown)) if shown == written else [start] * len(shown)
        self._marker = Traced(shown, at)
        self._numbers[-1] = number + 1

    # --- tables -------------------------------------------------------------------------------------

    def _table(self, tokens: list[Token]) -> None:
        """Adds a table; the contents of its cells are not yet parsed."""
        self._flush_marker()
        rows: list[list[TextBlock]] = []
        for i, token in enumerate(tokens):
            if token.type == "tr_open":
                rows.append([])
            elif token.type in ("th_open", "td_open"):
                rows[-1].append(self._cell(token, _traced(tokens[i + 1])))
        shape = QTextTableFormat()
        shape.setBorder(0)
        shape.setBorderCollapse(True)
        shape.setCellSpacing(0)
        shape.setLeftMargin(self._place.left)
        if isinstance(self._before, TextBlock):
            shape.setTopMargin(self._before.shape.bottomMargin())  # which Qt leaves out before a table
        shape.setBottomMargin(GAP)
        shape.setHeaderRowCount(1)
        self._add(TableBlock(shape, rows))

    def _cell(self, token: Token, content: Traced) -> TextBlock:
        shape = QTextBlockFormat(block_shape(BlockPlace(bars=self._place.bars), 0, 0, 130.0))
        alignment = str(token.attrs.get("style", "")).removeprefix("text-align:")
        shape.setAlignment(_ALIGNMENTS.get(alignment, Qt.AlignmentFlag.AlignLeft))
        pieces = inline_text(content, self._environment, Style(bold=token.type == "th_open"))
        return TextBlock(shape, [run for text, style in pieces for run in self._runs.of(text, style)])

    # --- code ---------------------------------------------------------------------------------------

    def _code(self, token: Token) -> None:
        """Adds a code box: a label, then the code line by line, highlighted once its fence is closed."""
        code, label = _traced(token), self._label(token)
        code = code.part(0, len(code) - code.endswith("\n"))
        shape = QTextBlockFormat(self._code_shape(CODE_HEAD, GAP + 8, 6))
        note(shape, LANGUAGE, label)
        colours: Sequence[tuple[int, int, str]] = ()
        if is_closed(token):
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

    def _label(self, token: Token) -> Traced:
        """Returns the first word after a fence, which names the language."""
        words = token.info.split()
        if not words or token.map is None:
            return Traced("", ())
        start = self._starts[token.map[0] + 1] - 1 - len(token.info) + token.info.find(words[0])
        word = words[0][:40]
        return Traced(word, range(start, start + len(word)))

    def _code_shape(self, kind: str, above: float = 0, below: float = 0) -> QTextBlockFormat:
        place = replace(self._place, left=self._place.left + PADDING)
        shape = QTextBlockFormat(block_shape(place, above, below, CODE_LINE_HEIGHT, kind=kind))
        shape.setRightMargin(PADDING)
        return shape


def _is_formula(token: Token) -> bool:
    """Whether a fence has its end and a formula in it."""
    language = (token.info.split() or [""])[0]
    return token.type == "fence" and language in FENCES and is_closed(token) and is_set(token.content.strip(), True)


def _colour(lines: list[TextBlock], code: str, colours: Iterable[tuple[int, int, str]]) -> None:
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


def _traced(token: Token) -> Traced:
    """Returns the content of a token. A cell that its row leaves out has none, and no places."""
    return token.content if isinstance(token.content, Traced) else Traced("", ())


# --- within a line --------------------------------------------------------------------------------

StyledText = tuple[Traced, Style]  # line breaks are "\n"


def inline_text(content: Traced, environment: EnvType, style: Style) -> Iterator[StyledText]:
    """Parses `content`: emphasis, code, links, images and formulas. style: of what has none of its own."""
    tokens: list[Token] = []
    parser().inline.parse(content, parser(), environment, tokens)
    return _styled(tokens, content, style)


def _styled(tokens: Iterable[Token], content: Traced, style: Style) -> Iterator[StyledText]:
    around: list[Style] = []
    for token in tokens:
        if token.nesting > 0:
            around.append(style)
            style = _opened(token, style)
        elif token.nesting < 0:
            style = around.pop() if around else style
        elif token.type == "image":
            yield from _image(token, content, style)
        elif token.type == "maths":
            start = token.meta["at"]
            formula = content.part(start, start + len(token.content)).strip()
            yield _formula(formula, style, display=False)
        elif token.type == "code_inline":
            start = _code_start(token, content)
            text = Traced(token.content, content.at[start : start + len(token.content)])
            yield text, replace(style, mono=True, boxed=True)
        elif text := _text(token, content):
            yield text, style


def _formula(formula: Traced, style: Style, display: bool) -> StyledText:
    """Returns a formula to be set, or as text where that says as much or it is not understood."""
    if is_set(str(formula), display):
        return formula, replace(style, formula="display" if display else "inline")
    return readable(formula), replace(style, italic=True)


def _opened(token: Token, style: Style) -> Style:
    if token.type == "link_open":
        address = safe_link(str(token.attrs["href"]))
        return replace(style, link=address.toString(QUrl.ComponentFormattingOption.FullyEncoded) if address else "")
    if token.type == "strong_open":
        return replace(style, bold=True)
    return replace(style, struck=True) if token.type == "s_open" else replace(style, italic=True)


def _text(token: Token, content: Traced) -> Traced:
    """Returns the text of a text, an escape, an entity or a line break."""
    start = token.meta["at"]
    text = "\n" if token.type in ("softbreak", "hardbreak") else token.content
    if token.type == "text_special" and text != token.markup:
        start += token.info == "escape"
        return Traced(text, [content.at[start]] * len(text))
    return Traced(text, content.at[start : start + len(text)])


def _code_start(token: Token, content: Traced) -> int:
    """Returns where the text of a code span begins: after its backticks, and a space that may have been cut off."""
    start: int = token.meta["at"] + len(token.markup)
    whole = content[start : start + len(token.content)].replace("\n", " ")
    return start if whole == token.content else start + 1


def _image(token: Token, content: Traced, style: Style) -> Iterator[StyledText]:
    """Yields the alternative text of an image, and that it was not loaded."""
    start = token.meta["at"] + len("![")
    shown = replace(style, italic=True)
    label = content.part(start, start + len(token.content))
    texts = [text for text, _ in _styled(token.children or (), label, shown)]
    for text in texts or [Traced("image", [-1] * 5)]:
        yield text, shown
    yield Traced(IMAGE_NOTE, [-1] * len(IMAGE_NOTE)), replace(style, faint=True, link="")
