"""The store's file as one SQLite connection: its tables, its transactions, and what can go wrong with it.

    conversation 1 - n message 1 - n rounds    the rounds of a reply, in the batches in which they came
                               1 - 1 folded    what the message is found by

Invariants:
    1. A message's id is greater than its parent's: the tree has no cycle, and ids order versions by age.
    2. `shown` of a message is its child on the current branch, that of a conversation its root; NULL only without
       children.
    3. A reply that has rounds consists of their texts (`text`) and of what was held back at its end (`tail`). While it
       streams, `text` has those from before it was continued.
    4. Ids are never used again (AUTOINCREMENT): what the window still holds cannot come to mean something else.

A connection belongs to the thread that opened it. Every error of SQLite that a user can meet becomes a StoreError with
one line: what happened, why, and what to do. Misuse (a closed store, another thread) does not.
"""

from __future__ import annotations

import errno
import sqlite3
import threading
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from typing import Any

from filelock import FileLock

from engine.errors import RedlineError

BUSY_S = 2.0  # how long a writer waits for another process
APPLICATION_ID = 0x5265646C  # "Redl", where `file` and SQLite look for it
Row = tuple[Any, ...]

# --- tables -----------------------------------------------------------------------------------

# Tables and indexes begin on the same pages in every file, as they are created in this order: the schema of a damaged
# file can be replaced by that of a new one. `message_copy` has every column, so that a damaged page costs no message.
_SCHEMA = """
    CREATE TABLE conversation (
        id INTEGER PRIMARY KEY AUTOINCREMENT,
        title TEXT NOT NULL,
        pinned INTEGER NOT NULL CHECK (pinned IN (0, 1)),
        created_s REAL NOT NULL,
        updated_s REAL NOT NULL,
        deleted_s REAL,
        shown INTEGER,
        settings TEXT NOT NULL
    ) STRICT;
    CREATE TABLE message (
        id INTEGER PRIMARY KEY AUTOINCREMENT,
        conversation INTEGER NOT NULL REFERENCES conversation ON DELETE CASCADE,
        parent INTEGER CHECK (parent < id),
        shown INTEGER CHECK (shown > id),
        role TEXT NOT NULL CHECK (role IN ('user', 'assistant')),
        state TEXT NOT NULL CHECK (state IN ('complete', 'stopped', 'cut', 'failed', 'streaming')),
        created_s REAL NOT NULL,
        note TEXT NOT NULL DEFAULT '',
        tail TEXT NOT NULL DEFAULT '',
        statistics TEXT,
        pair TEXT,
        sampling TEXT,
        text TEXT NOT NULL,
        attachments TEXT,
        system TEXT,
        prompt TEXT,
        receipt TEXT,
        thought TEXT,
        trim TEXT
    ) STRICT;
    CREATE INDEX family ON message (conversation, parent);
    CREATE INDEX streaming ON message (id) WHERE state = 'streaming';
    CREATE INDEX message_copy ON message (
        id, conversation, parent, shown, role, state, created_s, note, tail, statistics, pair, sampling, text,
        attachments, system, prompt, receipt, thought, trim
    ) WHERE state != 'streaming';
    CREATE TABLE rounds (
        message INTEGER NOT NULL REFERENCES message ON DELETE CASCADE,
        number INTEGER NOT NULL,
        data BLOB NOT NULL,
        PRIMARY KEY (message, number)
    ) STRICT;
    CREATE TABLE preset (name TEXT PRIMARY KEY, settings TEXT NOT NULL) STRICT, WITHOUT ROWID;
    CREATE TABLE value (key TEXT PRIMARY KEY, value TEXT NOT NULL) STRICT, WITHOUT ROWID;
    CREATE TABLE folded (message INTEGER PRIMARY KEY REFERENCES message ON DELETE CASCADE, text TEXT NOT NULL) STRICT;
"""
VERSION = 8
TABLES = ("conversation", "message", "rounds", "preset", "value")  # `folded` follows from the others


def new_store() -> sqlite3.Connection:
    """Returns an empty store in memory."""
    connection = in_memory()
    connection.executescript(f"{_SCHEMA} PRAGMA application_id = {APPLICATION_ID}; PRAGMA user_version = {VERSION}")
    return connection


def has_current_tables(connection: sqlite3.Connection) -> bool:
    """Returns whether the tables of a file are those of this version to the letter."""
    with closing(new_store()) as new:
        return _tables(connection) == _tables(new)


def _tables(connection: sqlite3.Connection) -> set[Row]:
    return set(connection.execute("SELECT type, name, tbl_name, sql FROM sqlite_schema"))


# --- connections ------------------------------------------------------------------------------

_PRAGMAS = (
    "journal_mode = WAL",
    "synchronous = NORMAL",
    "foreign_keys = ON",
    "secure_delete = ON",  # deleted text is overwritten
    "checkpoint_fullfsync = ON",  # macOS: past the drive's cache before the log starts over
    "journal_size_limit = 8388608",
    "wal_autocheckpoint = 4000",  # pages; `empty_log` comes first while replies stream
    "trusted_schema = OFF",
    "temp_store = MEMORY",
    "cache_size = -32000",  # KiB: search reads all folded texts
)


def connect(path: Path, mode: str = "rw") -> sqlite3.Connection:
    """Opens a file; mode is one of SQLite's URIs: ro, rw or rwc."""
    return _connected(f"{path.absolute().as_uri()}?mode={mode}")


def in_memory(image: bytes = b"") -> sqlite3.Connection:
    """Opens the bytes of a database file as a database in memory, nothing as an empty one."""
    connection = _connected(":memory:")
    if image:
        connection.deserialize(image)
    return connection


def _connected(uri: str) -> sqlite3.Connection:
    connection = sqlite3.connect(uri, uri=True, timeout=BUSY_S, isolation_level=None, cached_statements=256)
    connection.text_factory = lambda data: data.decode(errors="replace")
    return connection


def prepare(connection: sqlite3.Connection) -> None:
    """Makes the connection durable, and private about what is deleted."""
    for pragma in _PRAGMAS:
        connection.execute(f"PRAGMA {pragma}").fetchall()


# --- errors -----------------------------------------------------------------------------------

_DAMAGED = (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB)
READ_ONLY = (sqlite3.SQLITE_READONLY, sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_PERM)
_IN_USE = (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED)
_REASONS = {
    sqlite3.SQLITE_FULL: "the disk is full; free up space and try again",
    sqlite3.SQLITE_IOERR: "the disk could not be read or written; check its space and health, then try again",
    sqlite3.SQLITE_TOOBIG: "a text is too long to be stored; shorten it",
    sqlite3.SQLITE_NOMEM: "there is not enough memory; close other programs and try again",
    **dict.fromkeys(_IN_USE, "another program is writing to it; close that program or try again"),
    **dict.fromkeys(READ_ONLY, "it can only be read; check the permissions of the file and its folder"),
    **dict.fromkeys(_DAMAGED, "the file is damaged; start Redline again, which sets it aside and recovers what it can"),
}
# Causes outside the file; any other error while it is checked means that the file is damaged.
_OUTSIDE = (*READ_ONLY, *_IN_USE, sqlite3.SQLITE_FULL, sqlite3.SQLITE_IOERR)


class StoreError(RedlineError):
    """Conversations cannot be read or stored. Nothing that was there before has changed."""


class DamageError(Exception):
    """A file, or something in it, is damaged; says how. Never leaves `app.store`."""


def code_of(error: sqlite3.Error | MemoryError) -> int:
    """Returns SQLite's primary result code, 0 for an error of Python's own. SQLITE_NOMEM comes as a MemoryError."""
    if isinstance(error, MemoryError):
        return sqlite3.SQLITE_NOMEM
    return int(getattr(error, "sqlite_errorcode", 0)) & 0xFF


def lacks_room(error: BaseException | None) -> bool:
    """Returns whether an error says that the disk is full, or takes nothing for another reason."""
    if isinstance(error, sqlite3.Error):
        return code_of(error) in (sqlite3.SQLITE_FULL, sqlite3.SQLITE_IOERR)
    return isinstance(error, OSError) and error.errno in (errno.ENOSPC, errno.EDQUOT)


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


def _empty_log(path: Path) -> None:
    with suppress(sqlite3.Error, MemoryError), closing(connect(path)) as connection:  # the next time will do
        prepare(connection)
        connection.execute("PRAGMA wal_checkpoint (PASSIVE)").fetchall()


# --- use --------------------------------------------------------------------------------------


class Database:
    """The store's connection. path: where the user believes the file to be. lock: held until it is closed. owner:
    whether this process repairs and purges. writable: False where a read-only file was read into memory."""

    def __init__(
        self, connection: sqlite3.Connection, path: Path, lock: FileLock | None, owner: bool, writable: bool
    ) -> None:
        self.connection = connection
        self.path = path
        self.owner = owner
        self.writable = writable
        self._lock = lock
        self._emptying: threading.Thread | None = None  # the log into the file, last

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
            raise StoreError("the conversation was deleted in the meantime; start another") from error
        except (sqlite3.Error, MemoryError) as error:
            raise explain(error, self.path) from error

    def rows(self, sql: str, *values: object) -> list[Row]:
        """Returns every row of a query."""
        with self.explained():
            return self.connection.execute(sql, values).fetchall()

    def row(self, sql: str, *values: object) -> Row | None:
        """Returns the first row of a query, if there is one."""
        return next(iter(self.rows(sql, *values)), None)

    def run(self, sql: str, *values: object) -> int:
        """Runs a statement of a change; returns the id of the row that it inserted, if it did."""
        return int(self.connection.execute(sql, values).lastrowid or 0)

    def insert(self, table: str, values: dict[str, object]) -> int:
        """Inserts a row of these columns, within a change; returns its id."""
        places = ", ".join("?" * len(values))
        return self.run(f"INSERT INTO {table} ({', '.join(values)}) VALUES ({places})", *values.values())

    @contextmanager
    def change(self, wait: bool = True) -> Iterator[None]:
        """One transaction: after it all is on disk, or nothing. Does not nest. wait: for another process that writes,
        for a while. Raises StoreError."""
        with self.explained():
            self._begin(wait)
            try:
                yield
                self.connection.execute("COMMIT")
            except BaseException:
                if self.connection.in_transaction:  # SQLite itself rolls back when the disk is full
                    self.connection.execute("ROLLBACK")
                raise

    def _begin(self, wait: bool) -> None:
        if not wait:
            self.connection.execute("PRAGMA busy_timeout = 0")
        try:
            self.connection.execute("BEGIN IMMEDIATE")
        finally:
            if not wait:
                self.connection.execute(f"PRAGMA busy_timeout = {round(BUSY_S * 1000)}")

    @contextmanager
    def beside(self) -> Iterator[Database]:
        """Yields the store over another connection, for another thread. While that changes something, changes over this
        one wait for it, or fail where they must not wait."""
        with self.explained(), closing(connect(self.path)) as connection:
            prepare(connection)
            yield Database(connection, self.path, None, False, self.writable)

    def empty_log(self) -> None:
        """Empties the log into the file, in a thread with a connection of its own: it waits for the drive, up to a
        second, and nobody waits for it."""
        self._emptying = threading.Thread(target=_empty_log, args=(self.path,), name="checkpoint", daemon=True)
        self._emptying.start()

    def erase_log(self) -> None:
        """Empties the log into the file and leaves nothing in it. SQLite does that for one connection at a time, and
        tells the other only that it is busy."""
        if self._emptying is not None:
            self._emptying.join()
        self.rows("PRAGMA wal_checkpoint (TRUNCATE)")

    def close(self) -> None:
        """Closes the connection; a second time does nothing."""
        self.connection.close()
        if self._lock is not None:
            self._lock.release()
