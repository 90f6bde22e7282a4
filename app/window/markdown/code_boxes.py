"""Code boxes: a label, then the code line by line, highlighted by Pygments once it is whole."""

from __future__ import annotations

from bisect import bisect_right
from functools import cache, lru_cache
from itertools import accumulate
from typing import Any

from PySide6.QtGui import QColor, QFont, QTextBlock, QTextBlockFormat, QTextCharFormat, QTextLayout

from app.window.markdown.document_tail import DocumentTail
from app.window.markdown.text_formats import (
    CODE,
    CODE_HEAD,
    CODE_LINE,
    CODE_LINE_HEIGHT,
    CODE_TEXT,
    GAP,
    KIND,
    LANGUAGE,
    PADDING,
    BlockPlace,
    Style,
    block_shape,
    code_colours,
    note,
)
from app.window.markdown.traced_parser import Traced

LONGEST_CODE = 20_000  # characters; what is longer stays plain
LONGEST_HIGHLIGHTED_LINE = 1_000  # some lexers take quadratic time on endless lines

# First match wins. Kinds are keys of `palette.CODE`.
_KINDS = (
    ("Comment.Preproc", "class"),
    ("Comment", "comment"),
    ("Keyword.Type", "class"),
    ("Keyword.Constant", "number"),
    ("Keyword", "keyword"),
    ("Operator.Word", "keyword"),
    ("Name.Builtin.Pseudo", "number"),
    ("Name.Function", "function"),
    ("Name.Builtin", "function"),
    ("Name.Decorator", "function"),
    ("Name.Class", "class"),
    ("Name.Exception", "class"),
    ("Name.Tag", "tag"),
    ("Name.Attribute", "name"),
    ("Name.Variable", "name"),
    ("Name.Constant", "number"),
    ("Name.Label", "name"),
    ("Literal.String.Escape", "number"),
    ("Literal.String.Interpol", "number"),
    ("Literal.String", "string"),
    ("Literal.Number", "number"),
    ("Generic.Deleted", "deleted"),
    ("Generic.Inserted", "inserted"),
    ("Generic.Heading", "keyword"),
    ("Generic.Subheading", "keyword"),
    ("Generic.Prompt", "comment"),
)


@lru_cache(maxsize=128)  # a message is written again whenever it comes into view
def highlighted(code: str, language: str) -> tuple[tuple[int, int, str], ...]:
    """Returns (start, end, kind) of what is coloured; nothing for unknown languages and for code that is too long."""
    if len(code) > LONGEST_CODE or any(len(line) > LONGEST_HIGHLIGHTED_LINE for line in code.split("\n")):
        return ()
    lexer = _lexer(language.lower())
    if lexer is None:
        return ()
    found = ((start, text, _kind(token)) for start, token, text in lexer.get_tokens_unprocessed(code))
    return tuple((start, start + len(text), kind) for start, text, kind in found if kind and text.strip())


@cache
def _kind(token: Any) -> str:
    name = ".".join(token)
    return next((kind for prefix, kind in _KINDS if name == prefix or name.startswith(prefix + ".")), "")


@cache
def _names() -> dict[str, str]:
    """Returns the lexers of Pygments by the aliases of their languages. Plug-ins on this machine are not loaded."""
    from pygments.lexers import LEXERS  # type: ignore[import-untyped]

    return {alias: name for _, name, aliases, _, _ in LEXERS.values() for alias in aliases}


@cache
def _lexer(language: str) -> Any:
    from pygments.lexers import get_lexer_by_name  # loads one module of lexers when asked for one

    return get_lexer_by_name(language) if language in _names() else None


LONGEST_LINE = 2000  # characters; longer ones are cut, because Qt lays out a block as one
LABEL = Style(faint=True, size=0.85)
NO_LABEL = "code"


def write_code(page: DocumentTail, code: Traced, label: Traced, place: BlockPlace, whole: bool) -> None:
    """Writes a code box. label: the language as written. whole: whether the fence is closed, so that it is
    highlighted."""
    code = code.part(0, len(code) - code.endswith("\n"))
    _head(page, str(code) if whole else None, label, place)
    lines = code.split("\n")
    blocks: list[QTextBlock] = []
    start = 0
    for line in lines:
        blocks.append(write_line(page, code.part(start, start + len(line)), place))
        start += len(line) + 1
    end_box(page)
    if whole:
        _highlight(page, blocks, lines, str(label))


def _head(page: DocumentTail, exact: str | None, label: Traced, place: BlockPlace) -> None:
    shape = _shape(place, CODE_HEAD, above=GAP + 8, below=6)
    note(shape, LANGUAGE, label)
    if exact is not None:
        note(shape, CODE, exact.encode("utf-8", "replace").decode())
    page.block(shape)
    page.text(label or Traced(NO_LABEL, [-1] * len(NO_LABEL)), LABEL)


def write_line(page: DocumentTail, line: Traced, place: BlockPlace) -> QTextBlock:
    """Writes a line of code. Returns the block that it begins in."""
    first: QTextBlock | None = None
    start = 0
    while first is None or start < len(line):
        end = min(len(line), start + LONGEST_LINE)
        page.block(_shape(place, CODE_LINE))
        page.text(line.part(start, end), CODE_TEXT)
        if end < len(line):
            page.joined("")
        first = first or page.cursor.block()
        start = end
    return first


def end_box(page: DocumentTail) -> None:
    """Makes the last line that was written the last of the box."""
    shape = page.cursor.blockFormat()
    shape.setBottomMargin(PADDING + GAP)
    page.cursor.setBlockFormat(shape)


def _shape(place: BlockPlace, kind: str, above: float = 0, below: float = 0) -> QTextBlockFormat:
    within = BlockPlace(place.left + PADDING, place.bars, place.lists)
    shape = QTextBlockFormat(block_shape(within, above, below, CODE_LINE_HEIGHT))
    shape.setRightMargin(PADDING)
    shape.setProperty(KIND, kind)
    return shape


def _highlight(page: DocumentTail, blocks: list[QTextBlock], lines: list[str], language: str) -> None:
    """Lays colours over the text in its layout, so that each token keeps one format. What is coloured may span
    lines."""
    starts = [0, *accumulate(len(line) + 1 for line in lines)]
    over: dict[int, list[QTextLayout.FormatRange]] = {}
    formats = {kind: _colour(kind, colour) for kind, colour in code_colours(page.formats.appearance).items()}
    for start, end, kind in highlighted("\n".join(lines), language):
        line = bisect_right(starts, start) - 1
        while start < end:
            stop = min(end, starts[line + 1] - 1)
            if start < stop:
                piece = _range(lines[line], start - starts[line], stop - starts[line], formats[kind])
                over.setdefault(line, []).append(piece)
            line += 1
            start = starts[line]
    for line, ranges in over.items():
        blocks[line].layout().setFormats(ranges)


def _colour(kind: str, colour: str) -> QTextCharFormat:
    shape = QTextCharFormat()
    shape.setForeground(QColor(colour))
    if kind == "comment":
        shape.setFontItalic(True)
    if kind == "keyword":
        shape.setFontWeight(QFont.Weight.DemiBold)
    return shape


def _range(line: str, start: int, end: int, shape: QTextCharFormat) -> QTextLayout.FormatRange:
    """Returns a range of a line in UTF-16, in which Qt counts."""
    made = QTextLayout.FormatRange()
    if not line.isascii():
        start, end = (len(line[:place].encode("utf-16-le", "surrogatepass")) // 2 for place in (start, end))
    made.start = start  # type: ignore[attr-defined]
    made.length = end - start  # type: ignore[attr-defined]
    made.format = shape  # type: ignore[attr-defined]
    return made
