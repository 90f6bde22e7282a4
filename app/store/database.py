"""One connection to the store's file, for the thread that opened it: the window's own. Nothing else may use it.

Every error of SQLite that a user can meet leaves as StoreError; misuse (a closed store, another thread) does not.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from app.store.errors import DAMAGED, StoreError, code_of, explained

BUSY_S = 2.0  # how long another process may keep us waiting
Row = tuple[Any, ...]

_PRAGMAS = (
    "journal_mode = WAL",
    "synchronous = NORMAL",
    "foreign_keys = ON",
    "secure_delete = ON",  # what was deleted is overwritten
    "checkpoint_fullfsync = ON",  # macOS: past the drive's cache before the log starts over
    "journal_size_limit = 8388608",
    "trusted_schema = OFF",
    "temp_store = MEMORY",
)


def connect(path: Path, mode: str = "rw") -> sqlite3.Connection:
    """mode: of SQLite's URIs: ro, rw or rwc. Text that is no UTF-8 is read with replacement characters."""
    uri = f"{path.absolute().as_uri()}?mode={mode}"
    connection = sqlite3.connect(uri, uri=True, timeout=BUSY_S, isolation_level=None, cached_statements=256)
    connection.text_factory = lambda data: data.decode(errors="replace")
    return connection


def prepare(connection: sqlite3.Connection) -> None:
    """Settings that SQLite keeps per connection, and the log beside the file."""
    for pragma in _PRAGMAS:
        connection.execute(f"PRAGMA {pragma}").fetchall()


def doubts_of(path: Path) -> Path:
    """Lies beside a file that was seen to be damaged in use, so that the next start looks at all of it."""
    return path.with_name(path.name + ".doubts")


class Database:
    """path: where the user believes the file to be. after: what to undo once the connection is closed."""

    def __init__(self, connection: sqlite3.Connection, path: Path, after: Callable[[], None] = lambda: None) -> None:
        self.connection = connection
        self.path = path
        self._after = after
        self._closed = False

    @contextmanager
    def said(self) -> Iterator[None]:
        """SQLite's errors within are StoreErrors outside."""
        try:
            yield
        except sqlite3.ProgrammingError:
            raise
        except sqlite3.IntegrityError as error:
            if error.sqlite_errorcode != sqlite3.SQLITE_CONSTRAINT_FOREIGNKEY:
                raise
            raise StoreError("the conversation was deleted meanwhile; begin another") from error
        except (sqlite3.Error, MemoryError) as error:
            if code_of(error) in DAMAGED:
                self.doubt()
            raise explained(error, self.path) from error

    def rows(self, sql: str, *values: object) -> list[Row]:
        with self.said():
            return self.connection.execute(sql, values).fetchall()

    def row(self, sql: str, *values: object) -> Row | None:
        with self.said():
            found: Row | None = self.connection.execute(sql, values).fetchone()
            return found

    def run(self, sql: str, *values: object) -> int:
        """A statement of a change; the id of the row that it inserted, if it did."""
        return int(self.connection.execute(sql, values).lastrowid or 0)

    @contextmanager
    def change(self) -> Iterator[None]:
        """One transaction: all of it is on disk behind this, or nothing. Does not nest.

        Raises StoreError: what was there before is unchanged.
        """
        with self.said():
            self.connection.execute("BEGIN IMMEDIATE")
            try:
                yield
                self.connection.execute("COMMIT")
            except BaseException:
                if self.connection.in_transaction:  # SQLite itself rolls back when the disk is full
                    self.connection.execute("ROLLBACK")
                raise

    def need(self, table: str, id: int) -> None:
        """Raises StoreError: there is no such row."""
        if self.row(f"SELECT 1 FROM {table} WHERE id = ?", id) is None:
            raise StoreError(f"there is no {table} {id} any more; open the list of conversations again")

    def doubt(self) -> None:
        """Have the next start look at all of the file."""
        with suppress(OSError):
            doubts_of(self.path).touch()

    def close(self) -> None:
        if not self._closed:
            self._closed = True
            self.connection.close()
            self._after()
