"""Recovers what can still be read of a damaged file, row by row, into a new one, ids and all.

SQLite reads the rows: each page that may hold some is given to it as a whole table, under a sound schema. So a row is
found whatever happened to the pages that led to it, and only what is on a damaged page itself can be lost. The
constraints of the new tables decide which rows are valid. Backups fill in what is missing. An empty message takes the
place in the tree of one that is lost for good.
"""

from __future__ import annotations

import itertools
import sqlite3
import struct
from collections.abc import Iterator, Sequence
from contextlib import closing, suppress
from pathlib import Path
from typing import Any

from app.store.database import TABLES, DamageError, damage_reported, in_memory, new_store
from app.store.migration import attached, copy_tables

LOST_NOTE = "This message was damaged; what could be read of it is shown."
LOST_TITLE = "Recovered conversation"
_PAGE = 4096
_NUMBERED, _KEYED = TABLES[:3], TABLES[3:]  # tables whose rows have numbers, and others
_LEAF = 0x0D  # the first byte of a page that holds rows
_LOG_HEADER, _FRAME_HEADER = 32, 24  # bytes
_MOST_ID = 2**53
_PLACE = "id, conversation, parent, shown, role, state, created_s"  # readable where the text of a message is not

# What takes the place of values that a row cannot have, tried one after the other until the row fits its table.
_OPTIONAL = ("shown", "statistics", "pair", "law", "attachments", "system", "prompt", "receipt", "thought")
_REPAIRS: dict[str, tuple[dict[str, object], ...]] = {
    "conversation": ({}, {"pinned": 0, "deleted_s": None, "shown": None}),
    "message": (
        {},
        dict.fromkeys(_OPTIONAL),
        {"parent": None, "role": "user", "state": "failed", "created_s": 0.0, "note": LOST_NOTE, "tail": ""},
    ),
}
_NEWEST = "(SELECT max(c.id) FROM message c WHERE c.conversation = {} AND c.parent IS {})"
_NO_CHILD = "(shown IS NULL OR shown NOT IN (SELECT c.id FROM message c WHERE c.conversation = {} AND c.parent IS {}))"
_LEVELS = {"conversation": ("conversation.id", "NULL"), "message": ("message.conversation", "message.id")}
# Every statement changes nothing in a sound store. `deleted_s` before 2001 would purge a conversation at once.
_MENDS = (
    "DELETE FROM rounds WHERE message NOT IN (SELECT id FROM message WHERE role = 'assistant')",
    "DELETE FROM folded WHERE message NOT IN (SELECT id FROM message)",
    "UPDATE conversation SET deleted_s = NULL WHERE deleted_s < 1e9",
    f"UPDATE sqlite_sequence SET seq = 0 WHERE typeof(seq) != 'integer' OR seq > {_MOST_ID}",
    f"""UPDATE message SET conversation = (SELECT coalesce(max(id), 0) + 1 FROM conversation)
        WHERE conversation NOT BETWEEN 1 AND {_MOST_ID}""",
    f"""INSERT INTO conversation (id, title, pinned, created_s, updated_s, settings)
        SELECT conversation, '{LOST_TITLE}', 0, min(created_s), max(created_s), '{{}}' FROM message
        WHERE conversation NOT IN (SELECT id FROM conversation) GROUP BY conversation""",
    "UPDATE message SET parent = NULL WHERE parent < 1",
    # A lost message stands after the one before it: a question above a reply, a reply above a question.
    f"""INSERT INTO message (id, conversation, parent, role, state, created_s, note, text)
        SELECT m.parent, m.conversation, before.id, iif(m.role = before.role AND m.role = 'user', 'assistant', 'user'),
            'failed', m.created_s, '{LOST_NOTE}', ''
        FROM message m LEFT JOIN message before ON before.id =
            (SELECT max(b.id) FROM message b WHERE b.conversation = m.conversation AND b.id < m.parent)
        WHERE m.parent NOT IN (SELECT id FROM message) GROUP BY m.parent""",
    """UPDATE message SET parent = NULL WHERE EXISTS
        (SELECT 1 FROM message p WHERE p.id = message.parent AND p.conversation != message.conversation)""",
    *(
        f"UPDATE {table} SET shown = {_NEWEST.format(*level)} "
        f"WHERE {_NO_CHILD.format(*level)} AND shown IS NOT {_NEWEST.format(*level)}"
        for table, level in _LEVELS.items()
    ),
)


def mend(connection: sqlite3.Connection) -> int:
    """Makes the tree whole, within a transaction: every message in a conversation and after another, every `shown` at
    a child. Returns how many rows that changed, 0 for a sound store."""
    before = connection.total_changes
    for statement in _MENDS:
        connection.execute(statement)
    return connection.total_changes - before


def image_of(path: Path) -> bytes:
    """Returns the bytes of a database file as of its last commit, its write-ahead log included, to be opened in memory.
    See sqlite.org/fileformat2.html, section 4; frames of an earlier log have another salt."""
    pages = bytearray(path.read_bytes() if path.is_file() else b"")
    log_path = path.with_name(path.name + "-wal")
    log = log_path.read_bytes() if log_path.is_file() else b""
    most_pages = (len(pages) + len(log)) // _PAGE
    uncommitted: dict[int, bytes] = {}
    for at in range(_LOG_HEADER, len(log) - _FRAME_HEADER - _PAGE + 1, _FRAME_HEADER + _PAGE):
        number, pages_after = struct.unpack_from(">II", log, at)
        if log[at + 8 : at + 16] != log[16:24] or not 0 < number <= most_pages or pages_after > most_pages:
            break
        uncommitted[number] = log[at + _FRAME_HEADER : at + _FRAME_HEADER + _PAGE]
        if pages_after:  # a commit
            pages.extend(bytes(max(0, max(pages_after, *uncommitted) * _PAGE - len(pages))))
            for place, content in uncommitted.items():
                pages[(place - 1) * _PAGE : place * _PAGE] = content
            uncommitted.clear()
    pages[18:20] = b"\1\1" if len(pages) >= _PAGE else pages[18:20]  # a database in memory has no log
    return bytes(pages)


def recover(image: bytes, backups: Sequence[Path]) -> tuple[sqlite3.Connection, str]:
    """Returns a sound store in memory with what can be read of a damaged one and of its backups, newest first, and a
    sentence about what was recovered, for the user."""
    store = new_store()
    lost = 0
    with suppress(DamageError), damage_reported(), closing(_PageReader(image)) as reader:
        lost += _copy_pages(reader, store)
    for backup in backups:
        with suppress(DamageError, OSError), damage_reported():
            _fill_from_backup(store, image_of(backup))
    lost += mend(store)
    lost += store.execute("SELECT count(*) FROM message WHERE note = ?", (LOST_NOTE,)).fetchone()[0]
    counts = {table: store.execute(f"SELECT count(*) FROM {table}").fetchone()[0] for table in TABLES[:2]}
    if not counts["conversation"]:
        return store, "Nothing could be recovered."
    found = " and ".join(f"{count:,} {table}{'' if count == 1 else 's'}" for table, count in counts.items())
    return store, f"Recovered: {found}.{' Some of it could not be read.' if lost else ''}"


def _fill_from_backup(store: sqlite3.Connection, backup: bytes) -> None:
    """Takes what is missing from a backup. Purging reaches backups too, so whatever is in one was lost to damage,
    unless the backup is of another store that lay here: then its ids mean something else."""
    with attached(store, backup):
        shared = "SELECT count(*), total(o.created_s = m.created_s) FROM main.message m JOIN other.message o USING (id)"
        count, alike = store.execute(shared).fetchone()
        if 2 * alike >= count:
            store.execute("DELETE FROM message WHERE note = ? AND id IN (SELECT id FROM other.message)", (LOST_NOTE,))
            copy_tables(store)


class _PageReader:
    """Reads rows from single pages of a file, whose first page is replaced by that of a new store: header and schema.
    Tables are always created in one order, so their first pages are the same in every file."""

    def __init__(self, image: bytes) -> None:
        with closing(new_store()) as new:
            first = new.serialize()[:_PAGE]
        first = first[:28] + bytes(4) + first[32:]  # without a page count SQLite goes by the size of the file
        size_bytes = max(-(-len(image) // _PAGE), 64) * _PAGE  # every table has its first page
        self._image = first + image[_PAGE:] + bytes(size_bytes - max(len(image), _PAGE))
        self._connection = in_memory(self._image)
        self._connection.row_factory = sqlite3.Row
        self._connection.execute("PRAGMA writable_schema = ON")
        self._schemas = 1_000

    def pages(self) -> Iterator[tuple[int, int]]:
        """Yields the number of each page that may hold rows, and how many rows it may hold."""
        for start in range(_PAGE, len(self._image), _PAGE):
            if self._image[start] == _LEAF:
                yield start // _PAGE + 1, int.from_bytes(self._image[start + 3 : start + 5], "big")

    def give(self, page: int, table: str) -> None:
        """Makes a page a whole table: SQLite reads a table from the page that its schema names as the root, and
        a page of rows is a table of one page."""
        self._connection.execute("UPDATE sqlite_schema SET rootpage = ? WHERE name = ?", (page, table))
        self._schemas += 1
        self._connection.execute(f"PRAGMA schema_version = {self._schemas}")  # have the schema read again

    def row(self, table: str, place: int) -> dict[str, Any] | None:
        """Returns the row at a place of a table, or for a message at least its place in the tree; else None."""
        if (row := self._read(f"* FROM {table}", place)) or table != "message":
            return row
        row = self._read(f"{_PLACE} FROM message", place)
        return row and row | {"text": "", "note": LOST_NOTE, "state": "failed"}

    def _read(self, source: str, place: int) -> dict[str, Any] | None:
        with suppress(DamageError), damage_reported():
            sql = f"SELECT {source} NOT INDEXED LIMIT 1 OFFSET ?"
            return next((dict(row) for row in self._connection.execute(sql, (place,))), None)
        return None

    def close(self) -> None:
        self._connection.close()


def _copy_pages(reader: _PageReader, store: sqlite3.Connection) -> int:
    """Copies every row that fits its table; returns how many are known to be lost."""
    lost = 0
    for page, count in reader.pages():
        for table in _NUMBERED:
            reader.give(page, table)
            rows = [row for place in range(count) if (row := reader.row(table, place))]
            if copied := sum(_insert(store, table, row) for row in rows):
                lost += count - copied
                break
    for table in _KEYED:
        places = itertools.count()
        while row := reader.row(table, next(places)):
            _insert(store, table, row)
    return lost


def _insert(store: sqlite3.Connection, table: str, row: dict[str, Any]) -> bool:
    """Inserts a row, as far as it fits its table; returns whether it does."""
    if not 0 < row.get("id", 1) < _MOST_ID:
        return False
    for repair in _REPAIRS.get(table, ({},)):
        row |= {column: value for column, value in repair.items() if column in row}
        columns, places = ", ".join(row), ", ".join("?" * len(row))
        with suppress(sqlite3.IntegrityError):
            store.execute(f"INSERT INTO {table} ({columns}) VALUES ({places})", tuple(row.values()))
            return True
    return False
