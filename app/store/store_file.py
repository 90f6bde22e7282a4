"""From a path to a database that can be trusted, whatever lies there.

    nothing                    a new file, built under another name and then renamed
    a sound file               migrated to this version
    a newer version's file,    StoreError; not a byte of it changes
      another program's
    a read-only file           a copy of it in a temporary folder; writing raises StoreError
    a damaged file             a new one with what can be recovered; the damaged one is set aside, never overwritten

A lock beside the file tells whether another Redline has it open. Only the owner of the lock repairs, purges, and marks
replies that nobody streams any more as cut.
"""

from __future__ import annotations

import os
import shutil
import sqlite3
import tempfile
import time
from contextlib import closing
from pathlib import Path
from typing import NamedTuple

from filelock import FileLock, Timeout

from app.store import schema
from app.store.backup import backups_of
from app.store.database import (
    BUSY_S,
    READ_ONLY,
    DamageError,
    Database,
    StoreError,
    code_of,
    connect,
    damage_reported,
    explain,
    prepare,
    suspicion_of,
)
from app.store.recovery import recover

SMALL_BYTES = 64 * 1024 * 1024  # up to this size a file is checked whole, in some 60 ms
_COMPANIONS = ("", "-wal", "-shm")
_MAGIC = b"SQLite format 3\0\x10\x00"  # and pages of 4,096 bytes
# What must not be found in a sound file, beyond the rules of its tables. `deleted_s` before 2001 would purge at once.
_CONTRADICTIONS = {
    "a message without the one before it": """SELECT 1 FROM message WHERE parent IS NOT NULL AND NOT EXISTS
        (SELECT 1 FROM message p WHERE p.id = message.parent AND p.conversation = message.conversation)""",
    "a branch that leads nowhere": """SELECT 1 FROM message WHERE CASE WHEN shown IS NULL
        THEN EXISTS (SELECT 1 FROM message c WHERE c.conversation = message.conversation AND c.parent = message.id)
        ELSE NOT EXISTS (SELECT 1 FROM message c WHERE c.id = message.shown AND c.parent = message.id) END""",
    "a conversation that shows nothing": """SELECT 1 FROM conversation WHERE CASE WHEN shown IS NULL
        THEN EXISTS (SELECT 1 FROM message c WHERE c.conversation = conversation.id AND c.parent IS NULL)
        ELSE NOT EXISTS (SELECT 1 FROM message c
            WHERE c.id = conversation.shown AND c.conversation = conversation.id AND c.parent IS NULL) END""",
    "an impossible time": "SELECT 1 FROM conversation WHERE deleted_s < 1e9",
    "an impossible number": "SELECT 1 FROM sqlite_sequence WHERE typeof(seq) != 'integer' OR seq > 1 << 53",
    "a row whose owner is missing": "PRAGMA foreign_key_check",
}


class StoreFile(NamedTuple):
    """owner: whether this process repairs and purges. writable: False for the copy of a read-only file."""

    database: Database
    notices: list[str]
    owner: bool
    writable: bool


def open_store_file(path: Path) -> StoreFile:
    """Opens, makes or repairs the file. Raises StoreError where that is impossible, or the file is not ours."""
    path = path.absolute()
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    except OSError as error:
        raise StoreError(f"{path.parent}: cannot be created ({error.strerror}); choose another folder") from error
    if not _may_write(path):
        return _open_copy(path)
    lock = FileLock(f"{path}.lock")
    try:
        return _open_in_place(path, lock, _acquire(lock))
    except (sqlite3.Error, MemoryError) as error:
        lock.release()
        if code_of(error) not in READ_ONLY or not path.exists():
            raise explain(error, path) from error
        return _open_copy(path)
    except OSError as error:
        lock.release()
        raise StoreError(f"{path}: cannot be opened ({error.strerror}); check the disk and permissions") from error
    except BaseException:
        lock.release()
        raise


def _may_write(path: Path) -> bool:
    effective = os.access in os.supports_effective_ids
    places = [path.parent, path] if path.exists() else [path.parent]
    return all(os.access(place, os.W_OK, effective_ids=effective) for place in places)


def _acquire(lock: FileLock) -> bool:
    try:
        lock.acquire(timeout=0)
    except Timeout:
        return False
    return True


def _open_in_place(path: Path, lock: FileLock, owner: bool) -> StoreFile:
    notices: list[str] = []
    if not owner:
        _wait_for(path)
    elif not path.exists() and not path.is_symlink():
        notices += _set_stray_log_aside(path)
        _build(path).rename(path)
    try:
        connection = _connect_checked(path)
    except DamageError as damage:
        if not owner:
            raise StoreError(f"{path.name}: damaged ({damage}) and in use; close the other Redline first") from damage
        notices.append(_replace(path, str(damage)))
        connection = _connect_checked(path)
    return StoreFile(Database(connection, path, lock.release), notices, owner, True)


def _connect_checked(path: Path) -> sqlite3.Connection:
    """Returns a connection to a sound file of this version. Raises DamageError, StoreError, sqlite3.Error."""
    _identify(path)
    connection = connect(path)
    try:
        check(connection, whole=path.stat().st_size <= SMALL_BYTES or suspicion_of(path).exists())
        with damage_reported():
            prepare(connection)
            schema.migrate(connection)
        suspicion_of(path).unlink(missing_ok=True)
    except BaseException:
        connection.close()
        raise
    return connection


def _identify(path: Path) -> None:
    """Raises DamageError, or StoreError where the file is another program's or a newer Redline's. Writes nothing."""
    if not path.is_file():
        raise DamageError("it is a folder" if path.is_dir() else "it is not a file")
    with path.open("rb") as file:
        header = file.read(100)
    if not header:
        raise DamageError("it is empty")
    with closing(connect(path, "ro")) as connection, damage_reported():
        version = schema.version_of(connection)
        ours = connection.execute("PRAGMA application_id").fetchone()[0] == schema.APPLICATION_ID
        names = {name for (name,) in connection.execute("SELECT name FROM sqlite_schema WHERE type = 'table'")}
        if names and not ours and not names >= {"conversation", "message"}:
            raise StoreError(f"{path}: belongs to another program; choose another file")
        known = [number for number in range(1, schema.VERSION + 1) if schema.matches(connection, number)]
    if version > schema.VERSION and ours and not known:
        newest = f"format {version}, this one reads up to {schema.VERSION}"
        raise StoreError(f"{path}: written by a newer Redline ({newest}); update Redline")
    if version not in known:
        raise DamageError(f"its tables are not those of version {version}")
    if not ours or header[:18] != _MAGIC or header[18:20] not in (b"\1\1", b"\2\2"):
        raise DamageError("its header is wrong")


def check(connection: sqlite3.Connection, whole: bool) -> None:
    """Raises DamageError for pages, rows, indexes or references that are not sound. whole: else the rounds, which make
    up most of a large file, are left out: damage there shows when they are read, and the next start looks for it."""
    with damage_reported():
        if whole and schema.version_of(connection) == schema.VERSION:
            pragmas = ["PRAGMA integrity_check (1)"]
        else:
            tables = [name for name in schema.TABLES if whole or name != "spans"]
            pragmas = [f"PRAGMA integrity_check ({table})" for table in ("sqlite_schema", *tables)]
        for pragma in pragmas:
            found = [line for row in connection.execute(pragma) for line in str(row[0]).splitlines()]
            if found != ["ok"]:
                raise DamageError(next((line for line in found if not line.startswith("***")), "a table is missing"))
        for what, sql in _CONTRADICTIONS.items():
            if connection.execute(sql).fetchone():
                raise DamageError(f"there is {what}")


def _build(path: Path) -> Path:
    """Makes an empty store beside `path` under a temporary name, readable by its user alone; returns its path."""
    new = path.with_name(path.name + ".new")
    for companion in _COMPANIONS:
        _with(new, companion).unlink(missing_ok=True)
    new.touch(mode=0o600)
    with closing(connect(new)) as connection:
        prepare(connection)
        schema.migrate(connection)
    return new


def _replace(path: Path, reason: str) -> str:
    """Sets the damaged file aside and puts what can be recovered of it in its place; returns the notice."""
    new = _build(path)
    recovered = recover(path, new, backups_of(path))
    if not _is_sound(new):
        new = _build(path)
        recovered = "Nothing could be recovered."
    aside = _set_aside(path)
    new.rename(path)
    suspicion_of(path).unlink(missing_ok=True)
    return f"The file of conversations was damaged ({reason}). It was set aside as “{aside.name}”. {recovered}"


def _is_sound(path: Path) -> bool:
    try:
        with closing(connect(path)) as connection:
            check(connection, whole=True)
    except DamageError:
        return False
    return True


def _set_stray_log_aside(path: Path) -> list[str]:
    """SQLite deletes a log whose database is missing; it may be all that is left. Returns notices."""
    log = _with(path, "-wal")
    if not log.is_file() or not log.stat().st_size:
        return []
    aside = _with(_set_aside(path), "-wal")
    return [f"The file of conversations is missing. What was left of it was set aside as “{aside.name}”."]


def _set_aside(path: Path) -> Path:
    """Renames what is at `path`, its log and its shared memory to names that are free; returns the first."""
    stamp = time.strftime("%Y%m%d-%H%M%S")
    number, name = 1, path.with_name(f"{path.stem}.damaged-{stamp}{path.suffix}")
    while any(_with(name, companion).exists() for companion in _COMPANIONS):
        number += 1
        name = path.with_name(f"{path.stem}.damaged-{stamp}-{number}{path.suffix}")
    for companion in _COMPANIONS:
        source = _with(path, companion)
        if source.exists() or source.is_symlink():
            source.rename(_with(name, companion))
    return name


def _with(path: Path, companion: str) -> Path:
    return path.with_name(path.name + companion)


def _wait_for(path: Path) -> None:
    """Another Redline is just making the file."""
    until = time.monotonic() + BUSY_S
    while not path.exists() and time.monotonic() < until:
        time.sleep(0.02)


def _open_copy(path: Path) -> StoreFile:
    """Opens a copy of a file that may only be read. Raises StoreError where it cannot be read, or is damaged."""
    folder = Path(tempfile.mkdtemp(prefix="redline-"))
    try:
        if not path.exists():
            raise StoreError(f"{path}: cannot be created, its folder can only be read; check its permissions")
        for companion in _COMPANIONS[:2]:
            if _with(path, companion).exists():
                shutil.copyfile(_with(path, companion), _with(folder / path.name, companion))
        connection = _connect_checked(folder / path.name)
    except BaseException as error:
        shutil.rmtree(folder, ignore_errors=True)
        if isinstance(error, DamageError):
            raise StoreError(f"{path}: damaged ({error}) and can only be read; make its folder writable") from error
        if isinstance(error, OSError):
            raise StoreError(f"{path}: cannot be read ({error.strerror}); check its permissions") from error
        raise
    notice = f"“{path}” can only be read: nothing new is saved. Check the permissions of the file and its folder."
    database = Database(connection, path, lambda: shutil.rmtree(folder, ignore_errors=True))
    return StoreFile(database, [notice], True, False)
