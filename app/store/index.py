"""Finds messages by any part of their texts: folded copies of them (`passage`), and over these a trigram index of FTS5.

The index keeps which messages contain three characters in a row, not where; so what it proposes is compared with the
passage itself. What it does not cover is read through instead: terms of one or two characters, passages that wait to be
indexed (long ones, and those of an import), and everything where SQLite has no FTS5.
"""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Iterable, Sequence

from app.records import Attachment
from app.store.database import Database, Row
from app.store.errors import DAMAGED, code_of
from app.store.folding import fold
from app.store.rows import attachments_of

_TABLE = """CREATE VIRTUAL TABLE IF NOT EXISTS found USING fts5 (
    folded, content = 'passage', content_rowid = 'message', tokenize = 'trigram case_sensitive 1', detail = 'none',
    columnsize = 0)"""
# FTS5 does not even drop a damaged index: so it is first made one with nothing in it.
_DROP = (
    "CREATE VIRTUAL TABLE temp.blank USING fts5 (folded, detail = 'none', columnsize = 0)",
    *(f"DELETE FROM main.found_{part}" for part in ("data", "idx", "config")),
    *(f"INSERT INTO main.found_{part} SELECT * FROM temp.blank_{part}" for part in ("data", "idx", "config")),
    "DROP TABLE temp.blank",
    "DROP TABLE main.found",
)
_AT_ONCE = 16_000  # characters that are indexed where they are written; a millisecond or three
_MOST_TRIGRAMS = 24  # of a term: enough to leave few messages to compare


def searched(text: str, attachments: Iterable[Attachment]) -> str:
    """What of a message is searched: its text, then the names and texts of its attachments."""
    return "\n\n".join([text, *(f"{a.name}\n{a.text}" for a in attachments)])


def fold_passages(connection: sqlite3.Connection) -> None:
    """Fill `passage` for every message that lacks one and does not stream: a step of the migrations."""
    rows = connection.execute("SELECT id, text || tail, attachments FROM message WHERE state != 'streaming'")
    for message, text, attachments in rows:
        folded = fold(searched(text, attachments_of(attachments)))
        if folded.strip():
            connection.execute("INSERT OR IGNORE INTO passage VALUES (?, ?)", (message, folded))


def has_trigrams(connection: sqlite3.Connection) -> bool:
    """Whether this SQLite has FTS5 and its trigram tokenizer (3.34)."""
    try:
        connection.execute("CREATE VIRTUAL TABLE temp.probe USING fts5 (text, tokenize = 'trigram case_sensitive 1')")
        connection.execute("DROP TABLE temp.probe")
    except sqlite3.OperationalError:
        return False
    return True


class Index:
    """`put` and `drop` within a change; `tidy` now and then, when nothing else is to be done."""

    def __init__(self, database: Database, writable: bool) -> None:
        self._database = database
        self._trigrams = has_trigrams(database.connection)
        if self._trigrams and writable:
            self._create()
        elif self._trigrams:
            self._trigrams = self._exists()

    def put(self, message: int, text: str, later: bool = False) -> None:
        """`text` is what this message is found by from now on. later: leave the index to `tidy`."""
        self.drop([message])
        folded = fold(text)
        if not folded.strip():
            return
        self._database.run("INSERT INTO passage VALUES (?, ?)", message, folded)
        sql = "INSERT INTO found (rowid, folded) VALUES (?, ?)"
        if later or len(folded) > _AT_ONCE or not self._tell(sql, message, folded):
            self._database.run("INSERT INTO waiting VALUES (?)", message)

    def drop(self, messages: Sequence[int]) -> None:
        """Of the index only traces of a few characters stay, until `forget`."""
        for message in messages:
            self._tell(
                "INSERT INTO found (found, rowid, folded) SELECT 'delete', message, folded FROM passage "
                "WHERE message = ? AND message NOT IN waiting",
                message,
            )
            self._database.run("DELETE FROM passage WHERE message = ?", message)

    def forget(self) -> None:
        """Nothing of what was dropped stays in the index: rewrites all of it, 0.3 s for 10,000 messages."""
        with self._database.change():
            self._tell("INSERT INTO found (found) VALUES ('optimize')")

    def tidy(self, seconds: float) -> bool:
        """Index what waits for about so long; whether there is more. One passage is not divided: 60 ms a million
        characters."""
        until = time.monotonic() + seconds
        if not self._trigrams or self._next_waiting() is None:
            return False
        with self._database.change():
            while self._trigrams and (row := self._next_waiting()) is not None:
                if self._tell("INSERT INTO found (rowid, folded) VALUES (?, ?)", *row):
                    self._database.run("DELETE FROM waiting WHERE message = ?", row[0])
                if time.monotonic() >= until:
                    break
        return self._trigrams and self._next_waiting() is not None

    def _next_waiting(self) -> Row | None:
        return self._database.row("SELECT message, folded FROM waiting JOIN passage USING (message) LIMIT 1")

    def containing(self, terms: Sequence[str], limit: int) -> list[int]:
        """Messages, newest first, whose passages contain all of these folded terms; deleted ones left out."""
        trigrams = list(dict.fromkeys(t for term in terms for t in _trigrams_of(term)))
        if self._trigrams and trigrams:
            quoted = " AND ".join('"' + trigram.replace('"', '""') + '"' for trigram in trigrams)
            try:
                indexed = self._matching("found CROSS JOIN passage ON message = found.rowid", terms, limit, quoted)
                waiting = self._matching("waiting CROSS JOIN passage USING (message)", terms, limit)
                return sorted({*indexed, *waiting}, reverse=True)[:limit]
            except (sqlite3.DatabaseError, MemoryError) as error:
                self._give_up(error)
        return self._matching("passage", terms, limit)

    def _matching(self, tables: str, terms: Sequence[str], limit: int, quoted: str | None = None) -> list[int]:
        wanted = ["instr(passage.folded, ?) > 0"] * len(terms)
        sql = (
            f"SELECT passage.message FROM {tables} CROSS JOIN message ON message.id = passage.message "
            "CROSS JOIN conversation ON conversation.id = message.conversation "
            f"WHERE {' AND '.join([*wanted, 'deleted_s IS NULL', *(['found MATCH ?'] if quoted else [])])} "
            f"ORDER BY {'found.rowid' if quoted else 'passage.message'} DESC LIMIT ?"
        )
        values = (*terms, *([quoted] if quoted else []), limit)
        return [row[0] for row in self._database.connection.execute(sql, values)]

    def _exists(self) -> bool:
        return self._database.row("SELECT 1 FROM sqlite_schema WHERE name = 'found'") is not None

    def _create(self) -> None:
        if not self._exists():
            with self._database.change():
                self._database.run(_TABLE)
                self._database.run("INSERT OR IGNORE INTO waiting SELECT message FROM passage")

    def _tell(self, sql: str, *values: object) -> bool:
        """A statement to the index, within a change; whether there is one that took it."""
        if self._trigrams:
            try:
                self._database.run(sql, *values)
            except (sqlite3.DatabaseError, MemoryError) as error:
                self._give_up(error)
        return self._trigrams

    def _give_up(self, error: sqlite3.DatabaseError | MemoryError) -> None:
        """A damaged index never stands in the way: passages are read through from now on, and the next start makes
        it anew. One whose damaged sizes ask for more memory than there is counts as such. Any other error is raised
        again."""
        if code_of(error) not in (*DAMAGED, sqlite3.SQLITE_NOMEM):
            raise error
        self._trigrams = False
        self._database.run("SAVEPOINT whole")
        try:
            for sql in _DROP:
                self._database.run(sql)
        except sqlite3.DatabaseError:
            self._database.run("ROLLBACK TO whole")
            self._database.doubt()
        self._database.run("RELEASE whole")


def _trigrams_of(term: str) -> list[str]:
    """Spread over the term where it has more than _MOST_TRIGRAMS."""
    places = range(len(term) - 2)
    step = max(1, -(-len(places) // _MOST_TRIGRAMS))
    return [term[at : at + 3] for at in places[::step]]
