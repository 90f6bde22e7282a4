"""Where a text that is looked for stands in a source, and in the document that shows it.

A formula that is set is one match, as a whole, if its LaTeX or its symbols say the text; one that is shown as text is
searched as it is shown. All other Markdown is searched as it is written.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import lru_cache
from typing import NamedTuple

from PySide6.QtCore import QRegularExpression
from PySide6.QtGui import QTextCursor, QTextDocument

from app.window.markdown.formula_object import formula_source
from app.window.markdown.formula_spans import formula_spans
from app.window.markdown.formula_text import is_set, text_and_places
from app.window.markdown.text_blocks import OBJECT


class _ShownText(NamedTuple):
    """A source as it is shown, with OBJECT for each formula that is set. at: the place in the source of each character;
    None for the same. formulas: by the place of their OBJECT."""

    text: str
    at: Sequence[int] | None
    formulas: dict[int, str]


def match_places(source: str, term: str, raw: bool = False) -> list[int]:
    """Returns where the matches of `term` begin in a source, whatever the case of its letters. raw: the source is shown
    as it is, formulas too."""
    if not term:
        return []
    shown = _ShownText(source, None, {}) if raw or not formula_spans(source) else _shown_text(source)
    found = [match.start() for match in _pattern(term).finditer(shown.text)]
    found = [place for place in found if place not in shown.formulas or says(shown.formulas[place], term)]
    return found if shown.at is None else [shown.at[place] for place in found]


def document_matches(document: QTextDocument, term: str) -> list[QTextCursor]:
    """Returns a selection of each match of `term` in a document, in order."""
    pattern = QRegularExpression(_pattern(term).pattern, QRegularExpression.PatternOption.CaseInsensitiveOption)
    found: list[QTextCursor] = []
    cursor = document.find(pattern) if term else QTextCursor()
    while not cursor.isNull() and cursor.hasSelection():
        formula = formula_source(cursor.charFormat())
        if cursor.selectedText() != OBJECT or (formula is not None and says(formula, term)):
            found.append(QTextCursor(cursor))
        cursor = document.find(pattern, cursor)
    return found


def says(formula: str, term: str) -> bool:
    """Whether a formula's LaTeX, dollars included, or its symbols have this text."""
    wanted = term.casefold()
    return wanted in formula.casefold() or wanted in text_and_places(formula.strip("$"))[0].casefold()


def _pattern(term: str) -> re.Pattern[str]:
    return re.compile(f"{re.escape(term)}|{OBJECT}", re.IGNORECASE)


@lru_cache(maxsize=64)
def _shown_text(source: str) -> _ShownText:
    text: list[str] = []
    at: list[int] = []
    formulas: dict[int, str] = {}
    done = 0
    for start, end, first, last, display in formula_spans(source):
        inner = source[first:last]
        shown, places = text_and_places(inner.strip())
        first += len(inner) - len(inner.lstrip())
        text.append(source[done:start])
        at += range(done, start)
        if is_set(inner.strip(), display):
            dollars = "$$" if display else "$"
            formulas[len(at)] = f"{dollars}{inner.strip()}{dollars}"
            shown, places, first = OBJECT, [0], start
        text.append(shown or source[start:end])
        at += [first + place for place in places] if shown else range(start, end)
        done = end
    text.append(source[done:])
    at += range(done, len(source))
    return _ShownText("".join(text), at, formulas)
