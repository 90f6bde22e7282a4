"""From a path to a connection that can be trusted, whatever lies there.

    nothing                      a new file, made whole under another name and then renamed
    a whole file                 brought to this version's tables
    a newer version's, another   StoreError; not a byte of it changes
      program's
    one that may only be read    a copy of it in a temporary folder; writing raises StoreError
    a damaged one                what can be read goes to a new file, the damaged one is set aside beside it

A lock beside the file tells whether another Redline has it open. Only who holds it repairs, purges, and marks replies
that nobody streams any more as cut; another gets an ordinary connection.
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

from app.store.aside import copy_log_aside, copy_with_log, set_aside
from app.store.checks import check, damage_told, look
from app.store.database import BUSY_S, Database, connect, doubts_of, prepare
from app.store.errors import UNWRITABLE, DamagedError, StoreError, code_of, explained
from app.store.salvage import salvage
from app.store.schema import migrate
from app.store.wal import NO_LOG, Log, log_of, read_log


class Ready(NamedTuple):
    """owner: whether this is the one that tidies up. writable: False for a copy of what may only be read."""

    database: Database
    notices: list[str]
    owner: bool
    writable: bool


def open_database(path: Path) -> Ready:
    """Raises StoreError: nothing could be opened, or it is not ours to open."""
    path = path.absolute()
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    except OSError as error:
        raise StoreError(f"{path.parent}: cannot be made ({error.strerror}); choose another folder") from error
    if not _may_write(path):
        return _open_copy(path)
    lock = FileLock(f"{path}.lock")
    try:
        owner = _acquire(lock)
        return _open_here(path, lock, owner)
    except (sqlite3.Error, MemoryError) as error:
        lock.release()
        if code_of(error) not in UNWRITABLE or not path.exists():
            raise explained(error, path) from error
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


def _open_here(path: Path, lock: FileLock, owner: bool) -> Ready:
    notices: list[str] = []
    log = NO_LOG
    if owner:
        notices += _set_stray_log_aside(path)
        log = read_log(path)
        if not path.exists() and not path.is_symlink():
            _build(path).rename(path)
    else:
        _await(path)
    try:
        connection = _connect_whole(path, log, notices)
    except DamagedError as damage:
        if not owner:
            raise StoreError(f"{path.name}: damaged ({damage}) and in use; close the other Redline first") from damage
        notices.append(_replace(path, str(damage)))
        connection = _connect_whole(path, NO_LOG, notices)
    return Ready(Database(connection, path, lock.release), notices, owner, True)


def _connect_whole(path: Path, log: Log, notices: list[str]) -> sqlite3.Connection:
    """Looked at, checked, and of this version; adds to `notices`. Raises DamagedError, StoreError, sqlite3.Error."""
    look(path)
    connection = connect(path)
    try:
        check(connection, path.stat().st_size, thorough=doubts_of(path).exists())
        notices += _lost_of_log(connection, path, log)  # before anything is written over it
        with damage_told():
            prepare(connection)
            migrate(connection)
        doubts_of(path).unlink(missing_ok=True)
    except BaseException:
        connection.close()
        raise
    return connection


def _build(path: Path) -> Path:
    """A new store beside `path` under a passing name, for this user's eyes; at `path` it is whole or not at all."""
    new = path.with_name(path.name + ".new")
    for beside in ("", "-wal", "-shm"):
        new.with_name(new.name + beside).unlink(missing_ok=True)
    new.touch(mode=0o600)
    connection = connect(new)
    try:
        prepare(connection)
        migrate(connection)
    finally:
        connection.close()
    return new


def _replace(path: Path, why: str) -> str:
    """Set the damaged file aside, with what could be saved of it in its place. Says so."""
    new = _build(path)
    saved = salvage(path, new)
    if not _is_whole(new):
        new = _build(path)
        saved = "Nothing could be saved of it."
    aside = set_aside(path)
    new.rename(path)
    doubts_of(path).unlink(missing_ok=True)
    return f"The file of conversations was damaged ({why}). It was set aside as “{aside.name}”. {saved}"


def _is_whole(path: Path) -> bool:
    try:
        with closing(connect(path)) as connection:
            check(connection, path.stat().st_size, thorough=True)
    except DamagedError:
        return False
    return True


def _set_stray_log_aside(path: Path) -> list[str]:
    """SQLite deletes a log whose database is gone or empty; it may be all that is left."""
    log = log_of(path)
    if path.exists() or not log.is_file() or not log.stat().st_size:
        return []
    aside = set_aside(path)
    return [f"The file of conversations is gone. What was left of it was set aside as “{log_of(aside).name}”."]


def _lost_of_log(connection: sqlite3.Connection, path: Path, log: Log) -> list[str]:
    """What SQLite could not read of the log it found, as notices; a copy of that log is kept."""
    known = int(connection.execute("PRAGMA wal_checkpoint (PASSIVE)").fetchone()[1])
    if log.whole and log.commit <= max(known, 0):
        return []
    aside = copy_log_aside(path)
    return [f"The last changes before Redline stopped could not be read. Their log was set aside as “{aside.name}”."]


def _await(path: Path) -> None:
    """Another Redline is just making the file."""
    until = time.monotonic() + BUSY_S
    while not path.exists() and time.monotonic() < until:
        time.sleep(0.02)


def _open_copy(path: Path) -> Ready:
    """Of a file that may only be read. Raises StoreError: it cannot, or is damaged."""
    folder = Path(tempfile.mkdtemp(prefix="redline-"))
    try:
        if not path.exists():
            raise StoreError(f"{path}: cannot be made, its folder can only be read; check its permissions")
        connection = _connect_whole(copy_with_log(path, folder), NO_LOG, [])
    except BaseException as error:
        shutil.rmtree(folder, ignore_errors=True)
        if isinstance(error, DamagedError):
            raise StoreError(f"{path}: damaged ({error}) and can only be read; make its folder writable") from error
        if isinstance(error, OSError):
            raise StoreError(f"{path}: cannot be read ({error.strerror}); check its permissions") from error
        raise
    said = f"“{path}” can only be read: what is new is not kept. Check the permissions of the file and its folder."
    database = Database(connection, path, lambda: shutil.rmtree(folder, ignore_errors=True))
    return Ready(database, [said], True, False)
