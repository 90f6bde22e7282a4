"""What can go wrong with the store, each as one line for the user: what, why, what to do."""

from __future__ import annotations

import sqlite3
from pathlib import Path

from engine.errors import RedlineError

# Primary result codes of SQLite after which the file itself is in doubt.
DAMAGED = (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB)
# ... after which the file may still be read.
UNWRITABLE = (sqlite3.SQLITE_READONLY, sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_PERM)

_WHY = {
    sqlite3.SQLITE_FULL: "the disk is full; make room and try again",
    sqlite3.SQLITE_IOERR: "the disk could not be read or written; check its space and health, then try again",
    sqlite3.SQLITE_BUSY: "another program is writing to it; close that program or try again",
    sqlite3.SQLITE_LOCKED: "another program is writing to it; close that program or try again",
    sqlite3.SQLITE_TOOBIG: "a text is too long to be kept; shorten it",
    sqlite3.SQLITE_NOMEM: "there is not enough memory; close other programs and try again",
    **dict.fromkeys(UNWRITABLE, "it can only be read; check the permissions of the file and its folder"),
    **dict.fromkeys(DAMAGED, "the file is damaged; start Redline again, which sets it aside and saves what it can"),
}


class StoreError(RedlineError):
    """Conversations cannot be read or kept. Nothing that was there before has changed."""


class DamagedError(Exception):
    """The file is no whole store; says why. Only within `app.store`."""


def code_of(error: sqlite3.Error | MemoryError) -> int:
    """SQLite's primary result code, 0 where Python itself complained. Its SQLITE_NOMEM comes as a MemoryError."""
    if isinstance(error, MemoryError):
        return sqlite3.SQLITE_NOMEM
    return int(getattr(error, "sqlite_errorcode", 0)) & 0xFF


def explained(error: sqlite3.Error | MemoryError, path: Path) -> StoreError:
    """`error` as it met the store at `path`."""
    why = _WHY.get(code_of(error), f"{error}; start Redline again")
    return StoreError(f"{path.name}: {why}")
