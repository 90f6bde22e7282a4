"""What can still be read of a damaged file goes to a new one, row by row, ids and all.

Where a page cannot be read its rows are lost, the others are not. A message whose parent is lost keeps its place
through an empty one that says so; a conversation whose own row is lost gets a title that says so.
"""

from __future__ import annotations

import sqlite3
import tempfile
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

from app.store.aside import copy_with_log
from app.store.database import connect
from app.store.gaps import Row, fill_gaps, is_conversation, is_message
from app.store.index import fold_passages

_MOST_IDS = 1_000_000  # looked for one by one
_ROW_BYTES = 24  # no message is smaller, so a file has no more of them than this tells
_HEADER_BYTES = 100
_PAGE_BYTES = 4096


def salvage(damaged: Path, new: Path) -> str:
    """Fill the empty store `new`, which nothing has open. A sentence for the user: what was saved."""
    if not damaged.is_file() or not damaged.stat().st_size:
        return "Nothing could be read of it."
    header = new.read_bytes()[:_HEADER_BYTES]
    try:
        with tempfile.TemporaryDirectory(prefix="redline-") as folder:
            copy = copy_with_log(damaged, Path(folder))
            if not _has_tables(copy):
                _mend_header(copy, header)
            with closing(connect(copy)) as source, closing(connect(new)) as into:
                return _Salvage(source, into, copy.stat().st_size).run()
    except (OSError, sqlite3.DatabaseError) as error:
        return f"Nothing could be saved of it ({error})."


def _has_tables(path: Path) -> bool:
    try:
        with closing(connect(path)) as connection:
            return bool(connection.execute("SELECT count(*) FROM sqlite_schema").fetchone()[0])
    except sqlite3.DatabaseError:
        return False


def _mend_header(path: Path, header: bytes) -> None:
    """Give the file the header of a whole one, with as many pages as there are (sqlite.org/fileformat2.html, 1.3)."""
    pages = path.stat().st_size // _PAGE_BYTES
    with path.open("r+b") as file:
        file.write(header[:28] + pages.to_bytes(4, "big") + bytes(8) + header[40:92] + header[24:28] + header[96:])


class _Salvage:
    """source: a copy of the damaged file, of so many bytes; into: the new store."""

    def __init__(self, source: sqlite3.Connection, into: sqlite3.Connection, size_bytes: int) -> None:
        self._source = source
        self._into = into
        self._most = min(_MOST_IDS, size_bytes // _ROW_BYTES)
        self._lost = 0  # rows or pages that are there and cannot be read

    def run(self) -> str:
        conversations = self._table("conversation", is_conversation)
        messages = self._table("message", is_message)
        self._lost += fill_gaps(conversations, messages)
        self._into.execute("PRAGMA foreign_keys = ON")
        self._into.execute("BEGIN IMMEDIATE")
        for id in sorted(conversations):
            self._put("conversation", conversations[id])
        for id in sorted(messages):
            self._put("message", messages[id])
            self._copy_rounds(id)
        for table in ("preset", "value"):
            for values in self._read(f"SELECT * FROM {table}"):
                self._insert(f"INSERT OR IGNORE INTO {table} VALUES (?, ?)", values)
        self._mend_ways()
        fold_passages(self._into)
        self._into.execute("INSERT OR IGNORE INTO waiting SELECT message FROM passage")
        self._into.execute("COMMIT")
        said = f"Saved from it: {self._count('conversation')}, {self._count('message')}."
        return f"{said} Some of it could not be read." if self._lost else said

    def _count(self, table: str) -> str:
        number = self._into.execute(f"SELECT count(*) FROM {table}").fetchone()[0]
        return f"{number:,} {table}{'' if number == 1 else 's'}"

    def _table(self, name: str, is_sound: Callable[[Row], bool]) -> dict[int, Row]:
        """Rows that can be read and make sense, by their ids."""
        found: dict[int, Row] = {}
        for row in self._rows(name):
            if is_sound(row):
                found[row["id"]] = row
            else:
                self._lost += 1
        return found

    def _rows(self, table: str) -> Iterator[Row]:
        """At one go as far as that leads, the rest by looking for each id. Columns that are new are left out."""
        known = {row[1] for row in self._into.execute(f"PRAGMA table_info ({table})")}
        last = 0
        if not any(True for _ in self._read(f"EXPLAIN SELECT * FROM {table}")):
            return  # not even the schema can be read
        try:
            for row in self._named(f"SELECT * FROM {table} ORDER BY id"):
                last = row["id"]
                yield {name: value for name, value in row.items() if name in known}
        except sqlite3.DatabaseError:
            self._lost += 1
            for id in range(last + 1, self._highest(table) + 1):
                try:
                    for row in self._named(f"SELECT * FROM {table} WHERE id = ?", id):
                        yield {name: value for name, value in row.items() if name in known}
                except sqlite3.DatabaseError:
                    continue

    def _named(self, sql: str, *values: object) -> Iterator[Row]:
        cursor = self._source.execute(sql, values)
        names = [column[0] for column in cursor.description]
        for row in cursor:
            yield dict(zip(names, row, strict=True))

    def _highest(self, table: str) -> int:
        """The highest id that the table had, as far as anything still tells."""
        asked = (f"SELECT max(id) FROM {table}", f"SELECT seq FROM sqlite_sequence WHERE name = '{table}'")
        told = [row[0] for sql in asked for row in self._read(sql) if isinstance(row[0], int)]
        return min(max(told, default=self._most), _MOST_IDS)

    def _read(self, sql: str, *values: object) -> Iterator[tuple[Any, ...]]:
        """Rows as far as they can be read."""
        try:
            yield from self._source.execute(sql, values)
        except sqlite3.DatabaseError:
            self._lost += 1

    def _put(self, table: str, row: Row) -> None:
        places = ", ".join("?" * len(row))
        self._insert(f"INSERT INTO {table} ({', '.join(row)}) VALUES ({places})", tuple(row.values()))

    def _insert(self, sql: str, values: tuple[Any, ...]) -> None:
        """A row that breaks the rules of its table is lost."""
        try:
            self._into.execute(sql, values)
        except sqlite3.IntegrityError:
            self._lost += 1

    def _copy_rounds(self, message: int) -> None:
        for table, columns in (("chunk", 4), ("spans", 2)):
            for values in self._read(f"SELECT * FROM {table} WHERE message = ?", message):
                self._insert(f"INSERT INTO {table} VALUES ({', '.join('?' * columns)})", values)

    def _mend_ways(self) -> None:
        """Every `shown` leads to a child: the one it did, else the newest."""
        child = "SELECT {} FROM message c WHERE c.conversation = {} AND c.parent IS {}"
        for table, conversation, parent in (
            ("conversation", "conversation.id", "NULL"),
            ("message", "message.conversation", "message.id"),
        ):
            children = child.format("c.id", conversation, parent)
            newest = child.format("max(c.id)", conversation, parent)
            self._into.execute(
                f"UPDATE {table} SET shown = ({newest}) WHERE shown IS NULL OR shown NOT IN ({children})"
            )
