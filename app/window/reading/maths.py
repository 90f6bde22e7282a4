"""Mathematics in Markdown: $...$ and \\(...\\) within a line, $$...$$ and \\[...\\] within one or as a block."""

from __future__ import annotations

import re

from markdown_it import MarkdownIt
from markdown_it.rules_block import StateBlock
from markdown_it.rules_inline import StateInline

from app.window.reading.tracing import Traced

LONGEST = 2000  # characters of a formula; longer ones stay as they are written

_CLOSERS = {"$$": "$$", "\\[": "\\]", "\\(": "\\)"}
_DOLLAR = re.compile(r"(?:[^$\\]|\\.)+", re.DOTALL)


def add_maths(parser: MarkdownIt) -> None:
    """Tokens "maths" (inline) and "maths_block", content traced."""
    parser.inline.ruler.before("escape", "maths", inline_maths)
    alternatives = ["paragraph", "reference", "blockquote", "list"]
    parser.block.ruler.before("fence", "maths_block", block_maths, {"alt": alternatives})


def inline_maths(state: StateInline, silent: bool) -> bool:
    """A dollar opens before a character that is no space, and closes after one unless a digit follows, so that
    "$5 and $10" are prices."""
    start = state.pos
    if state.src[start] not in "$\\":
        return False
    opener = state.src[start : start + 2]
    closer = _CLOSERS.get(opener)
    if closer:
        inner = start + 2
        end = state.src.find(closer, inner, min(state.posMax, inner + LONGEST))
        if end < 0 or not state.src[inner:end].strip():
            return False
        after = end + 2
    else:
        inner, end = start + 1, _dollar_end(state)
        after = end + 1
        if end < 0:
            return False
    if not silent:
        token = state.push("maths", "math", 0)
        token.content = state.src[inner:end]
        token.meta["at"] = inner
    state.pos = after
    return True


def _dollar_end(state: StateInline) -> int:
    """Where the formula that a single dollar opens here ends, -1 for nowhere."""
    start = state.pos + 1
    found = _DOLLAR.match(state.src, start, min(state.posMax, start + LONGEST))
    if state.src[state.pos] != "$" or found is None:
        return -1
    end = found.end()
    if end >= state.posMax or state.src[end] != "$" or found[0][0].isspace() or found[0][-1].isspace():
        return -1
    return -1 if state.src[end + 1 : end + 2].isdigit() else end


def block_maths(state: StateBlock, startLine: int, endLine: int, silent: bool) -> bool:
    """Begins with its opener, ends at a line that ends with its closer, and has no empty line.
    env["unclosed"]: lines with an opener whose closer may still come."""
    start = state.bMarks[startLine] + state.tShift[startLine]
    closer = {"$$": "$$", "\\[": "\\]"}.get(state.src[start : start + 2])
    if closer is None or state.is_code_block(startLine):
        return False
    line = startLine
    while line < endLine and not state.isEmpty(line) and (line == startLine or state.sCount[line] >= state.blkIndent):
        place = state.src.find(closer, start + 2 if line == startLine else state.bMarks[line], state.eMarks[line])
        if place >= 0:
            break
        line += 1
    else:
        if line == state.lineMax:
            state.env.setdefault("unclosed", []).append(startLine)
        return False
    if state.src[place + 2 : state.eMarks[line]].strip():
        return False
    if not silent:
        _push(state, startLine, line, closer)
    return True


def _push(state: StateBlock, first: int, last: int, closer: str) -> None:
    state.line = last + 1
    token = state.push("maths_block", "math", 0)
    token.map = [first, last + 1]
    lines = state.getLines(first, last + 1, state.blkIndent, False)
    assert isinstance(lines, Traced)
    lines = lines.strip()
    token.content = lines.part(2, len(lines) - 2).strip()
