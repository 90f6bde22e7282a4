"""Is the file whole, and ours? Asked before anything is written to it."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

from app.store.database import connect
from app.store.errors import DAMAGED, DamagedError, StoreError, code_of
from app.store.schema import APPLICATION_ID, VERSION, version_of
from app.store.wal import log_of

_HEADER_BYTES = 100
_OURS = {"conversation", "message"}
# What is looked at however large the file is; damage elsewhere shows when it is read, and is looked for then.
_ESSENTIAL = ("conversation", "message", "chunk", "preset", "value")
_ORPHANS = (
    """SELECT 1 FROM message WHERE parent IS NOT NULL AND NOT EXISTS
    (SELECT 1 FROM message p WHERE p.id = message.parent AND p.conversation = message.conversation)""",
    "PRAGMA foreign_key_check",
)
SMALL_BYTES = 64 * 1024 * 1024  # in which every table is looked at, in some 60 ms


@contextmanager
def damage_told() -> Iterator[None]:
    """A file that SQLite cannot make sense of is a DamagedError: so is one that lacks a table or has it twice."""
    try:
        yield
    except sqlite3.DatabaseError as error:
        if code_of(error) in DAMAGED or code_of(error) == sqlite3.SQLITE_ERROR:
            raise DamagedError(str(error)) from error
        raise


def look(path: Path) -> None:
    """Through a connection that cannot write. Raises DamagedError; StoreError: not ours to touch; sqlite3.Error."""
    if not path.is_file():
        raise DamagedError("it is a folder" if path.is_dir() else "it is no file")
    _check_length(path)
    with closing(connect(path, "ro")) as connection, damage_told():
        version = version_of(connection)
        ours = connection.execute("PRAGMA application_id").fetchone()[0] == APPLICATION_ID
        names = {name for (name,) in connection.execute("SELECT name FROM sqlite_schema WHERE type = 'table'")}
    if names and not ours and not names >= _OURS:
        raise StoreError(f"{path}: belongs to another program; choose another file")
    if version > VERSION:
        raise StoreError(
            f"{path}: written by a newer Redline (format {version}, this one reads up to {VERSION}); update Redline"
        )
    if version < 0 or (version == 0) != (not names):
        raise DamagedError(f"its version says {version}")


def _check_length(path: Path) -> None:
    """Whether all pages are there that the header counts; some may still be in the log (fileformat2.html, 1.3)."""
    size_bytes, log = path.stat().st_size, log_of(path)
    if not size_bytes:
        raise DamagedError("it is empty")
    with path.open("rb") as file:
        header = file.read(_HEADER_BYTES)
    page_bytes, pages = int.from_bytes(header[16:18], "big"), int.from_bytes(header[28:32], "big")
    logged = log.is_file() and log.stat().st_size > 0
    if len(header) < _HEADER_BYTES or (pages * page_bytes > size_bytes and not logged):
        raise DamagedError("it is cut short")


def check(connection: sqlite3.Connection, size_bytes: int, thorough: bool) -> None:
    """Tables page by page and row by row, and whether what they refer to is there: all of a small file, the essential
    ones of a large one. thorough: all of any, and whether indexes agree. Raises DamagedError."""
    with damage_told():
        if version_of(connection) == 0:
            return
        tables: tuple[str, ...] = _ESSENTIAL
        if thorough or size_bytes <= SMALL_BYTES:
            listed = connection.execute("SELECT name FROM sqlite_schema WHERE type = 'table' AND rootpage > 0")
            tables = tuple(name for (name,) in listed)
        for table in tables:
            _check_table(connection, table.replace('"', '""'), "integrity" if thorough else "quick")
        if tables != _ESSENTIAL and any(connection.execute(sql).fetchone() for sql in _ORPHANS):
            raise DamagedError("what belongs to a message is there without it")


def _check_table(connection: sqlite3.Connection, table: str, kind: str) -> None:
    found = connection.execute(f'PRAGMA {kind}_check ("{table}")').fetchall()
    if found != [("ok",)]:
        lines = str(found[0][0]).splitlines() if found else []
        raise DamagedError(next((line for line in lines if not line.startswith("***")), "a table is gone"))
