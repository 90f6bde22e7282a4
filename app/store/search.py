"""Search as people type it: every word, or "words in quotes", anywhere in a title or a message, case and accents aside.

Nothing of what is typed is syntax but the quotes. Titles come first, then messages, newest first.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from app.records import Hit
from app.store.database import Database
from app.store.folding import fold, unfold
from app.store.index import Index, searched
from app.store.rows import attachments_of, clean

_LONGEST = 256  # characters of a query that count
_MOST_TERMS = 16
_BEFORE, _AFTER = 40, 120  # characters of a snippet around its first match
_MOST_MATCHES = 32  # in one snippet

_TERM = re.compile(r'"([^"]+)"(?=\s|$)|(\S+)')


def terms_of(query: str) -> list[str]:
    """The folded words and phrases of a query, each once."""
    folded = fold(clean(query[:_LONGEST]))
    terms = [(quoted or bare).strip() for quoted, bare in _TERM.findall(folded)]
    return list(dict.fromkeys(term for term in terms if term))[:_MOST_TERMS]


class Search:
    def __init__(self, database: Database, index: Index) -> None:
        self._database = database
        self._index = index

    def search(self, query: str, limit: int) -> list[Hit]:
        """At most `limit` hits; none for a query without a character to look for."""
        terms = terms_of(query)
        if not terms or limit <= 0:
            return []
        hits = self._titles(terms)[:limit]
        with self._database.said():
            found = self._index.containing(terms, limit - len(hits)) if len(hits) < limit else []
        return hits + [hit for message in found if (hit := self._hit(message, terms))]

    def _titles(self, terms: Sequence[str]) -> list[Hit]:
        rows = self._database.rows(
            "SELECT id, title FROM conversation WHERE deleted_s IS NULL ORDER BY pinned DESC, updated_s DESC"
        )
        hits: list[Hit] = []
        for conversation, title in rows:
            folded = fold(title)
            if all(term in folded for term in terms):
                matches = matches_in(title, terms)
                hits.append(Hit(conversation=conversation, title=title, message=None, snippet=title, matches=matches))
        return hits

    def _hit(self, message: int, terms: Sequence[str]) -> Hit | None:
        row = self._database.row(
            "SELECT conversation.id, title, text || tail, attachments FROM message "
            "JOIN conversation ON conversation.id = message.conversation WHERE message.id = ?",
            message,
        )
        if row is None:  # another process was quicker to remove it
            return None
        conversation, title, text, attachments = row
        snippet, matches = snippet_of(searched(text, attachments_of(attachments)), terms)
        return Hit(conversation=conversation, title=title, message=message, snippet=snippet, matches=matches)


def snippet_of(text: str, terms: Sequence[str]) -> tuple[str, tuple[tuple[int, int], ...]]:
    """The text around the first match of any term, on one line, and the matches in it."""
    folded = fold(text)
    first = min((place for term in terms if (place := folded.find(term)) >= 0), default=0)
    at = unfold(text, [first])[0]
    start = max(0, at - _BEFORE)
    if start:  # begin with a whole word, where one is near
        start += next((i for i, c in enumerate(text[start:at], 1) if c.isspace()), 0)
    cut = text[start : at + _AFTER]
    shown = "".join(" " if c.isspace() else c for c in cut)
    shown = f"{'…' if start else ''}{shown}{'…' if at + _AFTER < len(text) else ''}"
    return shown, matches_in(shown, terms)


def matches_in(text: str, terms: Sequence[str]) -> tuple[tuple[int, int], ...]:
    """Where `text` has a term: (start, length), in order; those that touch or overlap are one."""
    folded = fold(text)
    found = sorted((at.start(), at.end()) for term in terms for at in re.finditer(re.escape(term), folded))
    joined: list[list[int]] = []
    for start, end in found[: _MOST_MATCHES * len(terms)]:
        if joined and start <= joined[-1][1]:
            joined[-1][1] = max(joined[-1][1], end)
        else:
            joined.append([start, end])
    return tuple(_matched(text, start, end) for start, end in joined[:_MOST_MATCHES])


def _matched(text: str, start: int, end: int) -> tuple[int, int]:
    first, last = unfold(text, [start, end - 1])
    return first, last + 1 - first
