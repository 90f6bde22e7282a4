"""What is a formula in a Markdown source: $...$, \\(...\\), $$...$$, \\[...\\], and environments such as
\\begin{align}...\\end{align} without dollars. Where there is code, the Markdown parser knows (`traced_parser`).

What is a formula follows KaTeX's auto-render and GitHub where these agree; prices and the variables of shells keep
their dollars.
"""

import re
from typing import NamedTuple

LONGEST_FORMULA = 2000  # characters; longer ones stay as they are written
FENCES = frozenset(("math", "katex"))  # languages of fences whose content is a formula in display

_CLOSERS = {"$$": "$$", "\\[": "\\]", "\\(": "\\)"}
_DOLLAR = re.compile(r"(?:[^$\\\n]|\\.|\n(?!\s*\n))+", re.DOTALL)
_EMPTY_LINE = re.compile(r"\n[ \t>]*\n")
_BEGIN = re.compile(
    r"\\begin\{((?:equation|align|alignat|aligned|alignedat|gather|gathered|split|multline|CD|cases|dcases|rcases|drcases|"
    r"array|darray|subarray|[pbBvV]?matrix|smallmatrix)\*?)\}"
)
_LATEX = re.compile(r"\\[A-Za-z]+|\^|_\{")
_WORD = re.compile(r"(?<!\\)\b[A-Za-z]{2,}")
_ENDING = re.compile(r"(?:th|st|nd|rd|s|es)\b")  # the $n$th


class FormulaSpan(NamedTuple):
    """A formula. It reaches from `start` to `end` with its delimiters; its LaTeX is source[first:last]. display: on a
    line of its own."""

    start: int
    end: int
    first: int
    last: int
    display: bool


def in_dollars(latex: str, display: bool) -> str:
    """Returns a formula between the dollars that mark it in Markdown."""
    dollars = "$$" if display else "$"
    return f"{dollars}{latex}{dollars}"


def formula_at(source: str, start: int) -> FormulaSpan | None:
    """Returns the formula whose opener begins at `start`; None if there is none."""
    stop = min(len(source), start + LONGEST_FORMULA)
    if source.startswith("\\begin{", start):
        return _environment(source, start, stop)
    opener = source[start : start + 2]
    closer = _CLOSERS.get(opener)
    if closer is None:
        return _within_dollars(source, start, stop) if opener[:1] == "$" else None
    last = _closer(source, closer, start + 2, stop)
    if last < 0 or not source[start + 2 : last].strip():
        return None
    display = closer != "\\)" and _stands_alone(source, start, last + 2)
    if _EMPTY_LINE.search(source, start, last) and not display:
        return None
    return FormulaSpan(start, last + 2, start + 2, last, display)


def _closer(source: str, closer: str, start: int, stop: int) -> int:
    """Returns where the closer stands; -1 for nowhere. A backslash hides the character behind it."""
    place = source.find(closer, start, stop)
    while place >= 0 and _is_escaped(source, place, start):
        place = source.find(closer, place + 1, stop)
    return place


def _is_escaped(source: str, place: int, start: int) -> bool:
    """Whether an odd number of backslashes stands before this place."""
    before = source[start:place]
    return (len(before) - len(before.rstrip("\\"))) % 2 == 1


def _stands_alone(source: str, start: int, end: int) -> bool:
    """Whether nothing but marks of quotes and lists stands on the lines of the delimiters."""
    before = source[source.rfind("\n", 0, start) + 1 : start]
    after = source[end : (source.find("\n", end) + 1 or len(source) + 1) - 1]
    return not before.strip(" \t>-+*.)0123456789") and not after.strip()


def _environment(source: str, start: int, stop: int) -> FormulaSpan | None:
    begin = _BEGIN.match(source, start, stop)
    if begin is None:
        return None
    depth = 0
    for mark in re.finditer(r"\\(begin|end)\{" + re.escape(begin[1]) + r"\}", source[start:stop]):
        depth += 1 if mark[1] == "begin" else -1
        if not depth:
            end = start + mark.end()
            return FormulaSpan(start, end, start, end, _stands_alone(source, start, end))
    return None


def _within_dollars(source: str, start: int, stop: int) -> FormulaSpan | None:
    """What touches letters or digits, unless they are an ending as in the $n$th, has no words in it, and does not end
    as names of variables are joined. What has blanks at its ends or several lines has no words, unless it has LaTeX,
    and stands before no number. What begins with a command is always a formula."""
    inner = _DOLLAR.match(source, start + 1, stop)
    if inner is None or not source.startswith("$", inner.end()):
        return None
    text, end = inner[0], inner.end() + 1
    bare = text.strip()
    if not bare or source[end : end + 1].isdigit():
        return None
    latex = _LATEX.search(text) is not None
    words = bare[0] != "\\" and _WORD.search(bare) is not None
    blank, closes = bare != text, _is_alphanumeric(source[end : end + 1]) and not _ENDING.match(source, end)
    opens = start > 0 and _is_alphanumeric(source[start - 1])
    if words and (opens or closes or (not latex and (blank or "\n" in text))):
        return None
    if not latex and closes and (blank or bare[-1] in "/:=;,("):
        return None
    if blank:
        letter = latex or any(map(str.isalpha, bare)) or not text[0].isspace()
        if not letter or source[end : end + 2].strip()[:1].isdigit():
            return None
    return FormulaSpan(start, end, start + 1, end - 1, False)


def _is_alphanumeric(character: str) -> bool:
    return character.isascii() and character.isalnum()
