"""How much of a growing source is final.

A block is closed once what follows shows that it is over: an empty line after a paragraph, a table or a quote; the
next item after an item of an outermost list; the next block after anything. Only whole lines count as evidence, since
"-" may become "-5". Very long paragraphs are closed piece by piece, up to a piece that is too long to be rendered.

Rendering the closed parts one after the other gives what rendering the whole gives, with these exceptions: a reference
("[name]: address") is known only to the part that it is in, and a paragraph of more than LONGEST_PARAGRAPH characters
that turns out to be a table's head has been cut already.
"""

from __future__ import annotations

from markdown_it.utils import EnvType

from app.window.markdown.token_spans import Lines
from app.window.markdown.traced_parser import (
    LONGEST_INLINE,
    LONGEST_PARAGRAPH,
    Block,
    Traced,
    blocks,
    is_closed,
    pieces,
)

_AT_ONCE = ("heading_open", "hr", "maths_block")  # over with their last line
_TILL_EMPTY = ("paragraph_open", "table_open", "blockquote_open")


def closed(source: str) -> int:
    """Returns the length of the prefix of Markdown blocks that further text cannot change. `source` begins with a
    block."""
    whole = source[: source.rfind("\n") + 1]
    text = whole.replace("\r\n", "\n").replace("\r", "\n")
    start = _closed_lines(text)
    start += _closed_pieces(source[_place(source, start) :].replace("\r\n", "\n").replace("\r", "\n"))
    return _place(source, start)


def _place(source: str, start: int) -> int:
    """Returns where character `start` of the normalised source is in the source."""
    if "\r" not in source:
        return start
    place = 0
    for _ in range(start):
        place += 2 if source.startswith("\r\n", place) else 1
    return place


def _closed_lines(text: str) -> int:
    """Returns the closed length of a source of whole lines."""
    environment: EnvType = {}
    found = list(blocks(text, environment))
    lines = Lines(text)
    line = _first_open(found, lines)
    for unclosed in environment.get("unclosed", ()):
        starts = [start for block in found for start in _starts(block) if start <= unclosed]
        line = min(line, starts[-1] if starts else unclosed)
    return lines.start(line)


def _first_open(found: list[Block], lines: Lines) -> int:
    """Returns the line where the first block begins that may still change."""
    if not found:
        return _after_empty(lines, 0)
    last = found[-1]
    end = last.lines[1]
    behind = next((line for line in range(end, len(lines)) if not lines.is_empty(line)), None)
    if behind is not None:  # a reference, which leaves no block
        return _after_empty(lines, behind)
    if (
        last.kind in _AT_ONCE
        or (last.kind in _TILL_EMPTY and lines.is_blank(end))
        or (last.kind == "fence" and is_closed(last.tokens[0]))
    ):
        return len(lines)
    return _starts(last)[-1]


def _starts(block: Block) -> list[int]:
    """Returns the lines up to which a block may be closed: its first, or those of its items if it is a list."""
    items = [
        token.map[0] for token in block.tokens if token.type == "list_item_open" and token.level == 1 and token.map
    ]
    return items or [block.lines[0]]


def _after_empty(lines: Lines, line: int) -> int:
    """Returns `line`, or the end: references are over with an empty line."""
    return len(lines) if len(lines) and lines.is_blank(len(lines) - 1) else line


def _closed_pieces(text: str) -> int:
    """Returns the closed length of the long paragraph that `text` begins with."""
    if len(text) <= LONGEST_PARAGRAPH:
        return 0
    first = next(blocks(text, {}), None)
    if first is None or first.kind != "paragraph_open" or len(first.tokens[1].content) <= LONGEST_PARAGRAPH:
        return 0
    content = first.tokens[1].content
    assert isinstance(content, Traced)
    whole = list(pieces(content))
    last = next((piece for piece in whole if len(piece) > LONGEST_INLINE), whole[-1])
    return last.at[0] if len(whole) > 1 else 0
