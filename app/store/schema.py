"""The tables, and the way from every older version of them to this one.

    conversation 1 - n message 1 - n chunk      rounds of a reply that streams, as they came
                               1 - 1 spans      all rounds of a reply that ended
                               1 - 1 passage    its text folded for searching (`waiting`: not in the index yet)

Invariants:
    1. A message's id is greater than its parent's: the tree has no cycle, and ids order versions by age.
    2. `shown` of a message is its child on the way shown, that of a conversation its root; NULL only without children.
    3. A reply has chunks only while its state is "streaming". Its text is message.text, its chunks' texts, its tail.
    4. Ids are never used again (AUTOINCREMENT): what the window still holds cannot come to mean something else.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable

from app.store.index import fold_passages

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

_SEARCH = (
    """CREATE TABLE passage (
        message INTEGER PRIMARY KEY REFERENCES message ON DELETE CASCADE,
        folded TEXT NOT NULL
    ) STRICT""",
    "CREATE TABLE waiting (message INTEGER PRIMARY KEY REFERENCES passage ON DELETE CASCADE) STRICT",
    fold_passages,
    "INSERT INTO waiting SELECT message FROM passage",
)

# What a check of a reply needs beside its law, and what came of it.
_RECEIPTS = (
    "ALTER TABLE message ADD COLUMN system TEXT",
    "ALTER TABLE message ADD COLUMN prompt TEXT",
    "ALTER TABLE message ADD COLUMN receipt TEXT",
)

Step = str | Callable[[sqlite3.Connection], None]
# MIGRATIONS[n] leads from version n to n + 1. Never edit one that users may have; add another.
MIGRATIONS: tuple[tuple[Step, ...], ...] = (_CONVERSATIONS, _SEARCH, _RECEIPTS)
VERSION = len(MIGRATIONS)
TABLES = ("conversation", "message", "chunk", "spans", "preset", "value", "passage", "waiting")


def version_of(connection: sqlite3.Connection) -> int:
    """What the file says, 0 for an empty one."""
    return int(connection.execute("PRAGMA user_version").fetchone()[0])


def migrate(connection: sqlite3.Connection) -> None:
    """Bring the file to VERSION, each step whole or not at all."""
    for version in range(version_of(connection), VERSION):
        connection.execute("BEGIN IMMEDIATE")
        try:
            if version_of(connection) == version:  # another process may have been quicker
                for step in MIGRATIONS[version]:
                    connection.execute(step) if isinstance(step, str) else step(connection)
                connection.execute(f"PRAGMA application_id = {APPLICATION_ID}")
                connection.execute(f"PRAGMA user_version = {version + 1}")
            connection.execute("COMMIT")
        except BaseException:
            if connection.in_transaction:
                connection.execute("ROLLBACK")
            raise
