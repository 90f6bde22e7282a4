"""From a path to a database that can be trusted, whatever lies there.

    nothing                    a new file
    a newer version's file,    StoreError; not a byte of it changes
      another program's
    an older version's file    a new file; the old one is set aside
    a read-only file,          its contents in memory; writing raises StoreError
      or a full disk
    a damaged file             a new one with what can be recovered; the damaged one is set aside, never overwritten

A lock beside the file tells whether another Redline has it open. Only the owner of the lock repairs, purges, and marks
replies that are no longer streamed as cut. Backups lie beside the file: one a day, the newest three.
"""

import os
import sqlite3
import time
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager, suppress
from pathlib import Path

from filelock import FileLock, Timeout

from app.store.database import (
    APPLICATION_ID,
    BUSY_S,
    READ_ONLY,
    VERSION,
    DamageError,
    Database,
    StoreError,
    code_of,
    connect,
    damage_reported,
    explain,
    has_current_tables,
    in_memory,
    lacks_room,
    new_store,
    prepare,
)
from app.store.recovery import image_of, recover, repair

BACKUP_EVERY_S = 24 * 3600.0
MOST_BACKUPS = 3
_COMPANIONS = ("", "-wal", "-shm")
_MAGIC = b"SQLite format 3\0\x10\x00"  # and pages of 4,096 bytes


PERMISSIONS = "is read-only, so nothing new is saved. Check the permissions of the file and its folder."
NO_ROOM = (
    "cannot be written because the disk is full or failing, so nothing new is saved. Free up space, then restart "
    "Redline."
)


def open_store_file(path: Path) -> tuple[Database, list[str]]:
    """Opens, makes or repairs the file; returns notices for the user as well. Raises StoreError where that is
    impossible, or the file is not ours."""
    path = path.absolute()
    with _explained(path):
        try:
            path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            return _open_in_place(path) if _may_write(path) else _open_read_only(path, PERMISSIONS)
        except (sqlite3.Error, OSError) as error:
            if lacks_room(error):
                return _open_read_only(path, NO_ROOM)
            if isinstance(error, OSError) or code_of(error) not in READ_ONLY or not path.is_file():
                raise
            return _open_read_only(path, PERMISSIONS)


def open_without_room(path: Path) -> tuple[Database, list[str]]:
    """Opens a file in memory, as the disk has no room for what must be written first. Raises StoreError."""
    with _explained(path):
        return _open_read_only(path.absolute(), NO_ROOM)


@contextmanager
def _explained(path: Path) -> Iterator[None]:
    try:
        yield
    except (sqlite3.Error, MemoryError) as error:
        raise explain(error, path) from error
    except OSError as error:
        verb = "read" if path.exists() else "created"
        raise StoreError(f"{path}: cannot be {verb} ({error.strerror}); check the disk and permissions") from error


def _may_write(path: Path) -> bool:
    effective = os.access in os.supports_effective_ids
    places = [path.parent, path] if path.exists() else [path.parent]
    return all(os.access(place, os.W_OK, effective_ids=effective) for place in places)


def _open_in_place(path: Path) -> tuple[Database, list[str]]:
    lock = FileLock(f"{path}.lock")
    with suppress(Timeout):
        lock.acquire(timeout=0)
    owner = lock.is_locked
    try:
        connection, notices = _open_as_owner(path) if owner else (_open_beside_owner(path), [])
    except BaseException:
        lock.release()
        raise
    return Database(connection, path, lock, owner, writable=True), notices


def _open_as_owner(path: Path) -> tuple[sqlite3.Connection, list[str]]:
    log = _with(path, "-wal")
    if not os.path.lexists(path) and not (log.is_file() and log.stat().st_size):  # SQLite would delete the log
        _written(path, new_store()).rename(path)
    try:
        return _open_checked(path, alone=True), []
    except DamageError as damage:
        store, recovered = recover(image_of(path), backups_of(path))
        aside = _replace(path, store, "damaged")
        notice = f"The conversations file was damaged ({damage}). It was set aside as “{aside.name}”. {recovered}"
        return _open_checked(path, alone=True), [notice]
    except OutdatedError as outdated:
        aside = _replace(path, new_store(), "outdated")
        notice = f"The conversations were {outdated}. Their file was set aside as “{aside.name}”."
        return _open_checked(path, alone=True), [notice]


def _open_beside_owner(path: Path) -> sqlite3.Connection:
    until = time.monotonic() + BUSY_S
    while not path.exists() and time.monotonic() < until:  # the owner is just making the file
        time.sleep(0.02)
    try:
        return _open_checked(path, alone=False)
    except OutdatedError as outdated:
        raise StoreError(f"{path}: {outdated}; close that Redline, or choose another file") from outdated
    except DamageError as damage:
        raise StoreError(f"{path.name}: damaged ({damage}) and in use; close the other Redline first") from damage


def _open_checked(path: Path, alone: bool) -> sqlite3.Connection:
    _identify_file(path)
    connection = connect(path)
    try:
        _check(connection, alone)
    except BaseException:
        connection.close()
        raise
    return connection


def _open_read_only(path: Path, why: str) -> tuple[Database, list[str]]:
    """Reads the file into memory: SQLite cannot read a log without writing beside it. Raises OSError."""
    notice = f"“{path}” {why}"
    if not path.exists():
        if why == PERMISSIONS:
            raise StoreError(f"{path}: cannot be created because its folder is read-only; check its permissions")
        return Database(new_store(), path, None, owner=True, writable=False), [notice]
    image = image_of(path)
    connection = in_memory(image)
    try:
        _identify(connection, path, image)
        _check(connection, alone=True)
    except DamageError as damage:
        connection, recovered = recover(image, backups_of(path))
        notice += f" It is damaged ({damage}). {recovered}"
    return Database(connection, path, None, owner=True, writable=False), [notice]


# --- checks -----------------------------------------------------------------------------------


class OutdatedError(StoreError):
    """A file was written by an older version of Redline: the message says by which, to stand after "it was"."""


def _identify_file(path: Path) -> None:
    """Raises DamageError where a file is no store of this version, and StoreError where it is not ours to open."""
    if not path.is_file():
        raise DamageError("it is a folder" if path.is_dir() else "it is missing")
    with closing(connect(path, "ro")) as connection, path.open("rb") as file:
        _identify(connection, path, file.read(100))


def _identify(connection: sqlite3.Connection, path: Path, header: bytes) -> None:
    if not header:
        raise DamageError("it is empty")
    with damage_reported():
        ((version,),) = connection.execute("PRAGMA user_version")
        ours = connection.execute("PRAGMA application_id").fetchone()[0] == APPLICATION_ID
        names = {name for (name,) in connection.execute("SELECT name FROM sqlite_schema WHERE type = 'table'")}
        current = has_current_tables(connection)
    if names and not ours and not names >= {"conversation", "message"}:
        raise StoreError(f"{path}: belongs to another program; choose another file")
    if version > VERSION and ours and not current:
        newest = f"format {version}, this one reads {VERSION}"
        raise StoreError(f"{path}: written by a newer Redline ({newest}); update Redline")
    if 0 < version < VERSION and ours and not current:
        raise OutdatedError(f"written by an older version of Redline (format {version}, this one reads {VERSION})")
    if version != VERSION or not current:
        raise DamageError(f"its tables are not those of format {VERSION}")
    if not ours or header[:18] != _MAGIC or header[18:20] not in (b"\1\1", b"\2\2"):
        raise DamageError("its header is wrong")


def _check_pages(connection: sqlite3.Connection) -> None:
    with damage_reported():
        ((found,),) = connection.execute("PRAGMA integrity_check (1)")
    if found != "ok":
        raise DamageError(found.splitlines()[-1])


def _check(connection: sqlite3.Connection, alone: bool) -> None:
    """Raises DamageError for pages, rows, indexes or references that are not sound. alone: whether nobody else writes,
    so that what the messages say of each other may be compared."""
    _check_pages(connection)
    with damage_reported():
        prepare(connection)
        if alone:
            connection.executescript("BEGIN IMMEDIATE; PRAGMA defer_foreign_keys = ON")
            repaired = repair(connection)
            connection.execute("ROLLBACK")
            if repaired:
                raise DamageError("its messages contradict each other")


# --- files ------------------------------------------------------------------------------------


def _written(path: Path, store: sqlite3.Connection) -> Path:
    """Writes a store in memory beside `path`, readable by its user alone, and closes it; returns the file."""
    new = _with(path, ".new")
    new.unlink(missing_ok=True)
    new.touch(mode=0o600)
    try:
        with closing(store), new.open("wb") as file:
            file.write(store.serialize())
            os.fsync(file.fileno())
    except OSError:
        new.unlink()  # a partial file takes up space
        raise
    return new


def _replace(path: Path, store: sqlite3.Connection, why: str) -> Path:
    """Writes a store in memory to `path`. What is there, its log and its shared memory are renamed to names that are
    free; returns the first."""
    written = _written(path, store)
    stamp = f"{path.stem}.{why}-{time.strftime('%Y%m%d-%H%M%S')}"
    number, name = 1, path.with_name(f"{stamp}{path.suffix}")
    while any(_with(name, companion).exists() for companion in _COMPANIONS):
        number += 1
        name = path.with_name(f"{stamp}-{number}{path.suffix}")
    for companion in _COMPANIONS:
        if os.path.lexists(_with(path, companion)):
            _with(path, companion).rename(_with(name, companion))
    written.rename(path)
    return name


def _with(path: Path, companion: str) -> Path:
    return path.with_name(path.name + companion)


# --- backups ----------------------------------------------------------------------------------


def backups_of(path: Path) -> list[Path]:
    """Returns the backups of the store at `path`, the newest first."""
    return sorted(path.parent.glob(f"{path.stem}.backup-*{path.suffix}"), reverse=True)


def back_up(path: Path, connection: sqlite3.Connection) -> None:
    """Adds a backup once a day, and removes those beyond the newest three. What fails is tried again next time: a
    backup must not keep anybody from their conversations."""
    with suppress(OSError, sqlite3.Error, MemoryError):
        if any(abs(time.time() - backup.stat().st_mtime) < BACKUP_EVERY_S for backup in backups_of(path)[:1]):
            return
        name = path.with_name(f"{path.stem}.backup-{time.strftime('%Y%m%d-%H%M%S')}{path.suffix}")
        copy = in_memory()
        connection.backup(copy)
        _written(name, copy).rename(name)
        for old in backups_of(path)[MOST_BACKUPS:]:
            old.unlink()


def purge_backups(path: Path, conversations: Sequence[int]) -> None:
    """Deletes conversations from every backup; a backup where that fails is deleted entirely. Backups are for
    recovery alone, so what a user deletes for good is deleted from them as well."""
    for backup in backups_of(path):
        try:
            with closing(connect(backup)) as connection:
                prepare(connection)
                connection.executemany("DELETE FROM conversation WHERE id = ?", [(id,) for id in conversations])
                connection.execute("PRAGMA journal_mode = DELETE").fetchall()
        except sqlite3.Error:
            with suppress(OSError):
                backup.unlink()
