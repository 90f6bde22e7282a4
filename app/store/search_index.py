"""Search as people type it: every word, or "words in quotes", anywhere in a title or a message, case and accents aside.

The index is a file of its own beside the store: FTS5 over three characters in a row of each message's folded text. It
can be made anew at any time, so it is never repaired: one that is damaged is deleted. What it does not hold yet, and
terms of one or two characters, are found by reading; `tidy` indexes the rest in idle moments.

Folding drops case, accents and look-alikes, so that "cafe" finds "Café" and "ﬁle" is "file". Each character is folded
by itself: folding a part gives a part of the folded whole, and a place in the folded text leads back to the text.
"""

from __future__ import annotations

import re
import sqlite3
import time
import unicodedata
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress

from app.store.database import Database, connect, prepare
from app.store.message_tree import attachments_of, clean, searchable
from app.store.records import SearchHit

_TABLE = """CREATE VIRTUAL TABLE IF NOT EXISTS folded_text USING fts5 (
    folded, tokenize = 'trigram case_sensitive 1', detail = 'none', columnsize = 0)"""
_AT_ONCE = 16_000  # characters that are indexed when they are written; a millisecond or three
_MOST_TRIGRAMS = 24  # of a term: enough to leave few messages to compare
_LONGEST_QUERY = 256  # characters that count
_MOST_TERMS = 16
_BEFORE, _AFTER = 40, 120  # characters of a snippet around its first match
_MOST_MATCHES = 32  # in one snippet
_BLOCK = 1024  # characters
_TERM = re.compile(r'"([^"]+)"(?=\s|$)|(\S+)')
# Canonical combining classes that are letters rather than accents: nukta, kana voicing, virama.
_LETTERS = (0, 7, 8, 9)
_QUOTES = dict.fromkeys("\u2018\u2019\u201a\u201b\u2032", "'") | dict.fromkeys("\u201c\u201d\u201e\u201f\u2033", '"')


class SearchIndex:
    """Finds messages. Nothing that happens to its file is ever an error."""

    def __init__(self, database: Database, writable: bool) -> None:
        self._database = database
        self._path = database.path.with_name(f"{database.path.stem}.search{database.path.suffix}")
        self._connection: sqlite3.Connection | None = None
        rows = database.rows("SELECT id FROM message WHERE state != 'streaming'")
        self._unindexed = {id for (id,) in rows}
        if writable and self._open():
            self._forget_unknown()

    def put(self, message: int, text: str) -> None:
        """`text` is what this message is found by from now on."""
        self.drop([message])
        self._unindexed.add(message)
        if len(text) <= _AT_ONCE:
            self._index(message, text)

    def put_later(self, messages: Iterable[int]) -> None:
        """Leaves these to `tidy`."""
        self._unindexed.update(messages)

    def drop(self, messages: Sequence[int]) -> None:
        """These messages are not found any more; traces of a few characters stay in the file until `forget`."""
        self._unindexed.difference_update(messages)
        for message in messages:
            self._run("DELETE FROM folded_text WHERE rowid = ?", message)

    def forget(self) -> None:
        """Leaves nothing of what was dropped in the file: rewrites all of it, 0.3 s for 10,000 messages."""
        self._run("INSERT INTO folded_text (folded_text) VALUES ('optimize')")
        self._run("PRAGMA wal_checkpoint (TRUNCATE)")

    def tidy(self, seconds: float) -> bool:
        """Indexes for about so long; returns whether there is more. One text is not divided: 60 ms a million
        characters."""
        until = time.monotonic() + seconds
        while self._connection is not None and self._unindexed:
            for message, text in self._texts([max(self._unindexed)]):
                self._index(message, text)
            if time.monotonic() >= until:
                break
        return self._connection is not None and bool(self._unindexed)

    def search(self, query: str, limit: int) -> list[SearchHit]:
        """Returns at most `limit` hits, titles first, then messages, newest first."""
        terms = terms_of(query)
        if not terms or limit <= 0:
            return []
        hits = self._titles(terms)[:limit]
        found = self._containing(terms) if len(hits) < limit else ()
        for message in found:
            if hit := self._hit(message, terms):
                hits.append(hit)
            if len(hits) >= limit:
                break
        return hits

    def close(self) -> None:
        """Closes the file."""
        if self._connection is not None:
            with suppress(sqlite3.Error):
                self._connection.close()
            self._connection = None

    # --- the file -----------------------------------------------------------------------------

    def _open(self) -> bool:
        """Opens the file or makes it anew; returns whether there is an index."""
        for _ in range(2):
            try:
                self._path.touch(mode=0o600)
                self._connection = connect(self._path)
                prepare(self._connection)
                self._connection.execute(_TABLE)
                return True
            except (sqlite3.Error, OSError, MemoryError):  # damaged, or this SQLite has no FTS5
                self._delete()
        return False

    def _delete(self) -> None:
        self.close()
        for companion in ("", "-wal", "-shm"):
            with suppress(OSError):
                self._path.with_name(self._path.name + companion).unlink(missing_ok=True)

    def _forget_unknown(self) -> None:
        """Compares what the index holds with what there is: another Redline, a crash or a recovery may be between."""
        indexed = {int(str(row[0])) for row in self._run("SELECT rowid FROM folded_text")}
        unknown = indexed - self._unindexed
        self._unindexed -= indexed
        streaming = {id for (id,) in self._database.rows("SELECT id FROM message WHERE state = 'streaming'")}
        self.drop(sorted(unknown - streaming))

    def _index(self, message: int, text: str) -> None:
        self._run("INSERT OR REPLACE INTO folded_text (rowid, folded) VALUES (?, ?)", message, fold(text))
        if self._connection is not None:
            self._unindexed.discard(message)

    def _run(self, sql: str, *values: object) -> list[tuple[object, ...]]:
        """Runs a statement; a file that fails is made anew, and filled again by `tidy`."""
        if self._connection is None:
            return []
        try:
            return self._connection.execute(sql, values).fetchall()
        except (sqlite3.Error, MemoryError) as error:
            self._start_over(error)
            return []

    def _start_over(self, error: sqlite3.Error | MemoryError) -> None:
        if isinstance(error, sqlite3.ProgrammingError):
            raise error
        self._delete()
        self._open()
        self._unindexed = {id for (id,) in self._database.rows("SELECT id FROM message WHERE state != 'streaming'")}

    # --- searching ----------------------------------------------------------------------------

    def _containing(self, terms: Sequence[str]) -> Iterator[int]:
        """Yields the messages that contain all of these terms, newest first."""
        found = set(self._matching(terms))
        for message, text in self._texts(self._unindexed):
            folded = fold(text)
            if all(term in folded for term in terms):
                found.add(message)
        yield from sorted(found, reverse=True)

    def _matching(self, terms: Sequence[str]) -> list[int]:
        """Returns what the index holds; the index proposes by trigrams, the texts decide."""
        trigrams = list(dict.fromkeys(trigram for term in terms for trigram in _trigrams_of(term)))
        quoted = " AND ".join('"' + trigram.replace('"', '""') + '"' for trigram in trigrams)
        conditions = [*(["folded_text MATCH ?"] if quoted else []), *["instr(folded, ?) > 0"] * len(terms)]
        sql = f"SELECT rowid FROM folded_text WHERE {' AND '.join(conditions)}"
        return [int(str(row[0])) for row in self._run(sql, *([quoted] if quoted else []), *terms)]

    def _texts(self, messages: Iterable[int]) -> Iterator[tuple[int, str]]:
        for message in sorted(messages, reverse=True):
            row = self._database.row("SELECT text || tail, attachments FROM message WHERE id = ?", message)
            if row is None:  # another process removed it
                self._unindexed.discard(message)
            else:
                yield message, searchable(row[0], attachments_of(row[1]))

    def _titles(self, terms: Sequence[str]) -> list[SearchHit]:
        rows = self._database.rows(
            "SELECT id, title FROM conversation WHERE deleted_s IS NULL ORDER BY pinned DESC, updated_s DESC"
        )
        return [
            SearchHit(conversation=id, title=title, message=None, snippet=title, matches=matches_in(title, terms))
            for id, title in rows
            if all(term in fold(title) for term in terms)
        ]

    def _hit(self, message: int, terms: Sequence[str]) -> SearchHit | None:
        row = self._database.row(
            "SELECT conversation.id, title, text || tail, attachments FROM message "
            "JOIN conversation ON conversation.id = message.conversation WHERE message.id = ? AND deleted_s IS NULL",
            message,
        )
        if row is None:
            return None
        conversation, title, text, attachments = row
        snippet, matches = snippet_of(searchable(text, attachments_of(attachments)), terms)
        return SearchHit(conversation=conversation, title=title, message=message, snippet=snippet, matches=matches)


def terms_of(query: str) -> list[str]:
    """Returns the folded words and phrases of a query, each once. Nothing that is typed is syntax but the quotes."""
    folded = fold(clean(query[:_LONGEST_QUERY]))
    terms = [(quoted or bare).strip() for quoted, bare in _TERM.findall(folded)]
    return list(dict.fromkeys(term for term in terms if term))[:_MOST_TERMS]


def _trigrams_of(term: str) -> list[str]:
    """Returns three characters in a row, spread over a long term."""
    places = range(len(term) - 2)
    step = max(1, -(-len(places) // _MOST_TRIGRAMS))
    return [term[at : at + 3] for at in places[::step]]


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
    """Returns `text` as it is compared: white space as single spaces, invisible characters and NUL left out."""
    return text.translate(_FOLDED)


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
