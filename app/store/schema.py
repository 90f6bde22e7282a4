"""The tables, and the migrations from every older version of them.

    conversation 1 - n message 1 - n chunk      rounds of a reply that streams, as they came
                               1 - 1 spans      all rounds of a reply that ended

Invariants:
    1. A message's id is greater than its parent's: the tree has no cycle, and ids order versions by age.
    2. `shown` of a message is its child on the current branch, that of a conversation its root; NULL only without
       children.
    3. A reply has chunks only while its state is "streaming". Its text is message.text, its chunks' texts, its tail.
    4. Ids are never used again (AUTOINCREMENT): what the window still holds cannot come to mean something else.
"""

from __future__ import annotations

import sqlite3
from contextlib import closing

APPLICATION_ID = 0x5265646C  # "Redl", where `file` and SQLite look for it

_CONVERSATIONS = (
    """CREATE TABLE conversation (
        id INTEGER PRIMARY KEY AUTOINCREMENT,
        title TEXT NOT NULL,
        pinned INTEGER NOT NULL CHECK (pinned IN (0, 1)),
        created_s REAL NOT NULL,
        updated_s REAL NOT NULL,
        deleted_s REAL,
        shown INTEGER,
        settings TEXT NOT NULL
    ) STRICT""",
    """CREATE TABLE message (
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
        law TEXT,
        text TEXT NOT NULL,
        attachments TEXT
    ) STRICT""",
    "CREATE INDEX family ON message (conversation, parent)",
    "CREATE INDEX streaming ON message (id) WHERE state = 'streaming'",
    """CREATE TABLE chunk (
        message INTEGER NOT NULL REFERENCES message ON DELETE CASCADE,
        number INTEGER NOT NULL,
        text TEXT NOT NULL,
        data BLOB NOT NULL,
        PRIMARY KEY (message, number)
    ) STRICT, WITHOUT ROWID""",
    """CREATE TABLE spans (
        message INTEGER PRIMARY KEY REFERENCES message ON DELETE CASCADE,
        data BLOB NOT NULL
    ) STRICT""",
    "CREATE TABLE preset (name TEXT PRIMARY KEY, settings TEXT NOT NULL) STRICT, WITHOUT ROWID",
    "CREATE TABLE value (key TEXT PRIMARY KEY, value TEXT NOT NULL) STRICT, WITHOUT ROWID",
)

# Version 2 had tables for searching; they are a file of their own now (`search_index`), so version 4 drops them.
_OLD_SEARCH = tuple(f"DROP TABLE IF EXISTS {table}" for table in ("found", "passage", "waiting"))

# What the check of a reply needs besides its sampling settings, and its receipt.
_RECEIPTS = (
    "ALTER TABLE message ADD COLUMN system TEXT",
    "ALTER TABLE message ADD COLUMN prompt TEXT",
    "ALTER TABLE message ADD COLUMN receipt TEXT",
)

# MIGRATIONS[n] leads from version n to n + 1, and changes the schema: `matches` relies on that. Never edit one that
# users may have; add another.
MIGRATIONS: tuple[tuple[str, ...], ...] = (_CONVERSATIONS, (), _RECEIPTS, _OLD_SEARCH)
VERSION = len(MIGRATIONS)
TABLES = ("conversation", "message", "chunk", "spans", "preset", "value")


def version_of(connection: sqlite3.Connection) -> int:
    """Returns the version that the file claims, 0 for an empty one."""
    return int(connection.execute("PRAGMA user_version").fetchone()[0])


def migrate(connection: sqlite3.Connection, to: int = VERSION) -> None:
    """Brings the file to version `to`, each step whole or not at all."""
    for version in range(version_of(connection), to):
        connection.execute("BEGIN IMMEDIATE")
        try:
            if version_of(connection) == version:  # another process may have been quicker
                for statement in MIGRATIONS[version]:
                    connection.execute(statement)
                connection.execute(f"PRAGMA application_id = {APPLICATION_ID}")
                connection.execute(f"PRAGMA user_version = {version + 1}")
            connection.execute("COMMIT")
        except BaseException:
            if connection.in_transaction:
                connection.execute("ROLLBACK")
            raise


def matches(connection: sqlite3.Connection, version: int) -> bool:
    """Returns whether the tables are those of this version, to the letter."""
    with closing(sqlite3.connect(":memory:", isolation_level=None)) as expected:
        migrate(expected, version)
        return _objects(connection) == _objects(expected)


def _objects(connection: sqlite3.Connection) -> set[tuple[str, ...]]:
    rows = connection.execute("SELECT type, name, tbl_name, sql FROM sqlite_schema").fetchall()
    return {row for row in rows if row[2] not in ("passage", "waiting") and not str(row[2]).startswith("found")}
