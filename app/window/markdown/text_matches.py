"""Finds the matches of a search in a source, and in the document that shows it. The text is searched as it is shown,
across emphasis and links, without what is hidden, such as the address of a link.

A formula that is set is one match, as a whole, if its LaTeX or its symbols contain the text.
"""

import re
from collections.abc import Sequence
from functools import lru_cache
from typing import NamedTuple

from PySide6.QtCore import QRegularExpression
from PySide6.QtGui import QFont, QTextCursor, QTextDocument

from app.window.common.appearance import LIGHT
from app.window.markdown.formula_object import formula_source
from app.window.markdown.formula_spans import in_dollars
from app.window.markdown.formula_text import text_and_places
from app.window.markdown.markdown_writer import MarkdownWriter
from app.window.markdown.text_blocks import OBJECT, Run, TableBlock, TokenRuns
from app.window.markdown.text_formats import SPOKEN, Style, TextFormats

_SPACES = "[ \u00a0\u2028]"  # what a space that is looked for finds; blocks are apart by line feeds
_MARKS = re.compile(r"[\W_]+")


class _ShownText(NamedTuple):
    """A source as it is shown, with OBJECT for each formula that is set. at: the place in the source of each character;
    None for the same. formulas: by the place of their OBJECT."""

    text: str
    at: Sequence[int] | None
    formulas: dict[int, str]


def match_places(source: str, term: str, raw: bool = False) -> list[int]:
    """Returns where the matches of `term` begin in a source, whatever the case of its letters. raw: the source is shown
    as it is, formulas too."""
    if not term or not (raw or _may_match(source, term)):
        return []
    shown = _ShownText(source, None, {}) if raw else _shown_text(source)
    found = [match.start() for match in _pattern(term).finditer(shown.text)]
    found = [place for place in found if place not in shown.formulas or _contains(shown.formulas[place], term)]
    return found if shown.at is None else [shown.at[place] for place in found]


def _may_match(source: str, term: str) -> bool:
    """Whether a source has the words of a term, marks aside. A formula may have any, since its symbols differ from its
    LaTeX."""
    if "$" in source or "\\" in source:
        return True
    letters = _MARKS.sub("", source.casefold())
    return all(word in letters for word in term.casefold().split() if word.isalnum())


def document_matches(document: QTextDocument, term: str) -> list[QTextCursor]:
    """Returns a selection of each match of `term` in a document, in order."""
    pattern = QRegularExpression(_pattern(term).pattern, QRegularExpression.PatternOption.CaseInsensitiveOption)
    found: list[QTextCursor] = []
    cursor = document.find(pattern) if term else QTextCursor()
    while not cursor.isNull() and cursor.hasSelection():
        if _is_match(cursor, term):
            found.append(QTextCursor(cursor))
        cursor = document.find(pattern, cursor)
    return found


def _is_match(cursor: QTextCursor, term: str) -> bool:
    """Whether what was found can be seen and, if it is a formula, contains the text."""
    shape = cursor.charFormat()
    if cursor.selectedText() != OBJECT:
        return not shape.hasProperty(SPOKEN)
    formula = formula_source(shape)
    return formula is not None and _contains(formula, term)


def _contains(formula: str, term: str) -> bool:
    """Whether a formula's LaTeX, dollars included, or its symbols contain this text."""
    wanted = term.casefold()
    return wanted in formula.casefold() or wanted in text_and_places(formula.strip("$"))[0].casefold()


def _pattern(term: str) -> re.Pattern[str]:
    return re.compile(f"{_SPACES.join(map(re.escape, term.split(' ')))}|{OBJECT}", re.IGNORECASE)


@lru_cache(maxsize=256)
def _shown_text(source: str) -> _ShownText:
    text: list[str] = []
    at: list[int] = []
    formulas: dict[int, str] = {}
    same_length = source.replace("\r\n", " \n").replace("\r", "\n")
    runs = TokenRuns(len(source), (), {})
    for block in MarkdownWriter(same_length, runs, TextFormats(LIGHT, QFont()), None).write():
        rows = block.rows if isinstance(block, TableBlock) else [[block]]
        for run in (run for row in rows for cell in row for run in [*cell.runs, _END]):
            if run.formula is not None:
                formulas[len(at)] = in_dollars(run.formula.source, run.style.formula == "display")
            text.append(run.text)
            at += run.at or [-1] * len(run.text)
    last = 0
    for i, place in enumerate(at):  # what has no place in the source stands behind what is before it
        last = at[i] = place if place >= 0 else last
    return _ShownText("".join(text), at, formulas)


_END = Run("\n", Style(), None)  # of a block
