"""Search as people type it: every word, or "words in quotes", anywhere in a title or a message, case and accents aside.

Each message is stored a second time as it is compared, folded, and SQLite looks through all of those: 20 ms for 10,000
messages. Folding drops case, accents and look-alikes, so that "cafe" finds "Café" and "ﬁle" is "file". Each character
is folded by itself: folding a part gives a part of the folded whole, and a place in the folded text leads back to the
text.
"""

import re
import unicodedata
from collections.abc import Iterable, Sequence

from app.store.database import Database
from app.store.message_rows import attachments_of, clean
from app.store.records import SearchHit
from app.store.shown_text import shown_text

_LONGEST_QUERY = 256  # characters that count
_MOST_TERMS = 16
_BEFORE, _AFTER = 40, 120  # characters of a snippet around its first match
_MOST_MATCHES = 32  # in one snippet
_LONGEST_SNIPPET_SOURCE = 1000  # characters of a message, marks of Markdown included
_BLOCK = 1024  # characters
_TERM = re.compile(r'"([^"]+)"(?=\s|$)|(\S+)')
# Canonical combining classes that are letters rather than accents: nukta, kana voicing, virama.
_LETTERS = (0, 7, 8, 9)
_QUOTES = dict.fromkeys("\u2018\u2019\u201a\u201b\u2032", "'") | dict.fromkeys("\u201c\u201d\u201e\u201f\u2033", '"')


def folded_texts(database: Database) -> list[tuple[str, int]]:
    """Returns the folded texts and the ids of the messages that are not findable yet, except replies that are
    streaming. Call it outside of a change: millions of characters take seconds to fold."""
    missing = database.rows(
        "SELECT id, role, text || tail, attachments FROM message "
        "WHERE state != 'streaming' AND id NOT IN (SELECT message FROM folded)"
    )
    return [(fold(_searchable(*columns)), message) for message, *columns in missing]


def make_searchable(database: Database, texts: Iterable[tuple[str, int]]) -> None:
    """Makes messages findable by their folded texts, unless deleted or continued meanwhile; within a change."""
    for text, message in texts:
        database.run(
            "INSERT OR IGNORE INTO folded SELECT id, ? FROM message WHERE id = ? AND state != 'streaming'",
            *(text, message),
        )


def search(database: Database, query: str, limit: int) -> list[SearchHit]:
    """Returns at most `limit` hits, titles first, then messages, newest first."""
    terms = terms_of(query)
    if not terms or limit <= 0:
        return []
    hits = _titles(database, terms, limit)
    rows = database.rows(
        "SELECT message.id, conversation.id, title, role, message.text || tail, attachments "
        "FROM folded CROSS JOIN message ON message.id = folded.message "
        "JOIN conversation ON conversation.id = message.conversation "
        f"WHERE {' AND '.join(['instr(folded.text, ?) > 0'] * len(terms))} AND deleted_s IS NULL "
        "ORDER BY folded.message DESC LIMIT ?",
        *(*terms, limit - len(hits)),
    )
    for message, conversation, title, *columns in rows:
        snippet, matches = snippet_of(_searchable(*columns), terms)
        hit = SearchHit(conversation=conversation, title=title, message=message, snippet=snippet, matches=matches)
        hits.append(hit)
    return hits


def _titles(database: Database, terms: Sequence[str], limit: int) -> list[SearchHit]:
    rows = database.rows(
        "SELECT id, title FROM conversation WHERE deleted_s IS NULL ORDER BY pinned DESC, updated_s DESC"
    )
    found = [(id, title) for id, title in rows if all(term in fold(title) for term in terms)][:limit]
    return [
        SearchHit(
            conversation=id,
            title=title,
            message=None,
            snippet=_last_words(database, id),
            matches=matches_in(title, terms),
        )
        for id, title in found
    ]


def _last_words(database: Database, conversation: int) -> str:
    """Returns how the last message of a conversation begins, on one line."""
    row = database.row(
        "SELECT role, substr(text || tail, 1, ?), NULL FROM message WHERE conversation = ? ORDER BY id DESC LIMIT 1",
        *(_LONGEST_SNIPPET_SOURCE, conversation),
    )
    return "" if row is None else " ".join(_searchable(*row).split())[: _BEFORE + _AFTER]


def _searchable(role: str, text: str, attachments: str | None) -> str:
    """Returns what a message is found by: its text as it is shown, then the names and texts of its attachments."""
    shown = shown_text(text) if role == "assistant" else text
    return "\n\n".join([shown, *(f"{one.name}\n{one.text}" for one in attachments_of(attachments))])


def terms_of(query: str) -> list[str]:
    """Returns the folded words and phrases of a query, each once. Nothing that is typed is syntax but the quotes."""
    folded = fold(clean(query[:_LONGEST_QUERY]))
    terms = [(quoted or bare).strip() for quoted, bare in _TERM.findall(folded)]
    return list(dict.fromkeys(term for term in terms if term))[:_MOST_TERMS]


def snippet_of(text: str, terms: Sequence[str]) -> tuple[str, tuple[tuple[int, int], ...]]:
    """Returns the text around the first match of any term, on one line, and the matches in it."""
    folded = fold(text)
    first = min((place for term in terms if (place := folded.find(term)) >= 0), default=0)
    at = _place_of(text, first)
    start = max(0, at - _BEFORE)
    if start:  # begin with a whole word, where one is near
        start += next((i for i, c in enumerate(text[start:at], 1) if c.isspace()), 0)
    cut = "".join(" " if c.isspace() else c for c in text[start : at + _AFTER])
    shown = f"{'…' if start else ''}{cut}{'…' if at + _AFTER < len(text) else ''}"
    return shown, matches_in(shown, terms)


def _place_of(text: str, place: int) -> int:
    """Returns where the character at `place` of the folded text comes from, looking at a block at a time."""
    for start in range(0, len(text), _BLOCK):
        length = len(fold(text[start : start + _BLOCK]))
        if place < length:
            return start + _fold_with_places(text[start : start + _BLOCK])[1][place]
        place -= length
    return len(text)


def matches_in(text: str, terms: Sequence[str]) -> tuple[tuple[int, int], ...]:
    """Returns where `text` has a term: (start, length), in order; those that touch or overlap are one."""
    folded, places = _fold_with_places(text)
    found = sorted((at.start(), at.end()) for term in terms for at in re.finditer(re.escape(term), folded))
    joined: list[list[int]] = []
    for start, end in found[: _MOST_MATCHES * len(terms)]:
        if joined and start <= joined[-1][1]:
            joined[-1][1] = max(joined[-1][1], end)
        else:
            joined.append([start, end])
    return tuple((places[start], places[end - 1] + 1 - places[start]) for start, end in joined[:_MOST_MATCHES])


def fold(text: str) -> str:
    """Returns `text` as it is compared: white space as single spaces, invisible characters and NUL left out.

    In blocks, since no other thread runs during `str.translate`, which takes two seconds for 8 million Chinese
    characters.
    """
    if len(text) <= _BLOCK:
        return text.translate(_FOLDED)
    return "".join(text[start : start + _BLOCK].translate(_FOLDED) for start in range(0, len(text), _BLOCK))


def _fold_with_places(text: str) -> tuple[str, list[int]]:
    """Returns the folded text, and for each of its characters the place in `text` that it comes from."""
    parts = [fold(character) for character in text]
    return "".join(parts), [place for place, part in enumerate(parts) for _ in part]


class _FoldTable(dict[int, str]):
    """A table for str.translate that learns a character when it first meets it."""

    def __missing__(self, code: int) -> str:
        self[code] = folded = _fold_character(chr(code))
        return folded


def _fold_character(character: str) -> str:
    if character in _QUOTES:
        return _QUOTES[character]
    if character.isspace() or unicodedata.category(character) == "Cc":
        return " "
    if unicodedata.category(character) == "Cf" or "\ufe00" <= character <= "\ufe0f":  # joiners, variation selectors
        return ""
    plain = unicodedata.normalize("NFKD", unicodedata.normalize("NFKD", character).casefold())
    kept = "".join(c for c in plain if unicodedata.combining(c) in _LETTERS)
    return "".join(" " if c.isspace() else c for c in kept)


_FOLDED = _FoldTable()
