"""One connection to the store's file, and what can go wrong with it.

A connection belongs to the thread that opened it. Every error of SQLite that a user can meet becomes a StoreError with
one line: what happened, why, and what to do. Misuse (a closed store, another thread) does not.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from engine.errors import RedlineError

BUSY_S = 2.0  # how long a writer waits for another process
Row = tuple[Any, ...]

DAMAGED = (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB)
READ_ONLY = (sqlite3.SQLITE_READONLY, sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_PERM)
_REASONS = {
    sqlite3.SQLITE_FULL: "the disk is full; make room and try again",
    sqlite3.SQLITE_IOERR: "the disk could not be read or written; check its space and health, then try again",
    sqlite3.SQLITE_BUSY: "another program is writing to it; close that program or try again",
    sqlite3.SQLITE_LOCKED: "another program is writing to it; close that program or try again",
    sqlite3.SQLITE_TOOBIG: "a text is too long to be stored; shorten it",
    sqlite3.SQLITE_NOMEM: "there is not enough memory; close other programs and try again",
    **dict.fromkeys(READ_ONLY, "it can only be read; check the permissions of the file and its folder"),
    **dict.fromkeys(DAMAGED, "the file is damaged; start Redline again, which sets it aside and recovers what it can"),
}
# Causes outside the file; any other error while it is checked means that the file is damaged.
_OUTSIDE = (*READ_ONLY, sqlite3.SQLITE_FULL, sqlite3.SQLITE_IOERR, sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED)

_PRAGMAS = (
    "journal_mode = WAL",
    "synchronous = NORMAL",
    "foreign_keys = ON",
    "secure_delete = ON",  # deleted text is overwritten
    "checkpoint_fullfsync = ON",  # macOS: past the drive's cache before the log starts over
    "journal_size_limit = 8388608",
    "trusted_schema = OFF",
    "temp_store = MEMORY",
)


class StoreError(RedlineError):
    """Conversations cannot be read or stored. Nothing that was there before has changed."""


class DamageError(Exception):
    """A file, or something in it, is damaged; says how. Never leaves `app.store`."""


def code_of(error: sqlite3.Error | MemoryError) -> int:
    """Returns SQLite's primary result code, 0 for an error of Python's own. SQLITE_NOMEM comes as a MemoryError."""
    if isinstance(error, MemoryError):
        return sqlite3.SQLITE_NOMEM
    return int(getattr(error, "sqlite_errorcode", 0)) & 0xFF


def explain(error: sqlite3.Error | MemoryError, path: Path) -> StoreError:
    """Returns `error`, which the store at `path` met, as the user reads it."""
    reason = _REASONS.get(code_of(error), f"{error}; start Redline again")
    return StoreError(f"{path.name}: {reason}")


@contextmanager
def damage_reported() -> Iterator[None]:
    """Turns whatever SQLite makes of a damaged file into a DamageError: names that are not UTF-8, sizes for which there
    is no memory, tables that are missing or there twice."""
    try:
        yield
    except (sqlite3.DatabaseError, MemoryError, UnicodeDecodeError, OverflowError) as error:
        if isinstance(error, sqlite3.Error) and code_of(error) in _OUTSIDE:
            raise
        raise DamageError(" ".join(str(error).split()) or "its sizes are impossible") from error


def connect(path: Path, mode: str = "rw") -> sqlite3.Connection:
    """Opens a file; mode is one of SQLite's URIs: ro, rw or rwc. Text that is not UTF-8 is read with replacements."""
    uri = f"{path.absolute().as_uri()}?mode={mode}"
    connection = sqlite3.connect(uri, uri=True, timeout=BUSY_S, isolation_level=None, cached_statements=256)
    connection.text_factory = lambda data: data.decode(errors="replace")
    return connection


def prepare(connection: sqlite3.Connection) -> None:
    """Makes the connection durable, and private about what is deleted."""
    for pragma in _PRAGMAS:
        connection.execute(f"PRAGMA {pragma}").fetchall()


def suspicion_of(path: Path) -> Path:
    """Returns the marker beside a file in which damage was met: the next start checks all of it."""
    return path.with_name(path.name + ".suspect")


class Database:
    """The store's connection. path: where the user believes the file to be. on_close: called once it is closed."""

    def __init__(self, connection: sqlite3.Connection, path: Path, on_close: Callable[[], None] = lambda: None) -> None:
        self.connection = connection
        self.path = path
        self._on_close = on_close
        self._closed = False

    @contextmanager
    def explained(self) -> Iterator[None]:
        """Turns SQLite's errors into StoreErrors."""
        try:
            yield
        except sqlite3.ProgrammingError:
            raise
        except sqlite3.IntegrityError as error:
            if error.sqlite_errorcode != sqlite3.SQLITE_CONSTRAINT_FOREIGNKEY:
                raise
            raise StoreError("the conversation was deleted meanwhile; start another") from error
        except (sqlite3.Error, MemoryError) as error:
            if code_of(error) in DAMAGED:
                with suppress(OSError):
                    suspicion_of(self.path).touch()
            raise explain(error, self.path) from error

    def rows(self, sql: str, *values: object) -> list[Row]:
        """Returns every row of a query."""
        with self.explained():
            return self.connection.execute(sql, values).fetchall()

    def row(self, sql: str, *values: object) -> Row | None:
        """Returns the first row of a query, if there is one."""
        with self.explained():
            found: Row | None = self.connection.execute(sql, values).fetchone()
            return found

    def run(self, sql: str, *values: object) -> int:
        """Runs a statement of a change; returns the id of the row that it inserted, if it did."""
        return int(self.connection.execute(sql, values).lastrowid or 0)

    @contextmanager
    def change(self) -> Iterator[None]:
        """One transaction: after it all is on disk, or nothing. Does not nest. Raises StoreError."""
        with self.explained():
            self.connection.execute("BEGIN IMMEDIATE")
            try:
                yield
                self.connection.execute("COMMIT")
            except BaseException:
                if self.connection.in_transaction:  # SQLite itself rolls back when the disk is full
                    self.connection.execute("ROLLBACK")
                raise

    def require(self, table: str, id: int) -> None:
        """Raises StoreError where there is no such row."""
        if self.row(f"SELECT 1 FROM {table} WHERE id = ?", id) is None:
            raise StoreError(f"there is no {table} {id} any more; open the list of conversations again")

    def close(self) -> None:
        """Closes the connection; a second time does nothing."""
        if not self._closed:
            self._closed = True
            self.connection.close()
            self._on_close()
