"""Backups of the store beside it: one a day, the newest three, made by SQLite itself from a file that was just checked.

They are for recovery alone, so what a user deletes for good is deleted from them as well.
"""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Sequence
from contextlib import closing, suppress
from pathlib import Path

from app.store.database import connect, prepare

EVERY_S = 24 * 3600.0
MOST_BACKUPS = 3


def backups_of(path: Path) -> list[Path]:
    """Returns the backups of the store at `path`, the newest first."""
    return sorted(path.parent.glob(f"{path.stem}.backup-*{path.suffix}"), reverse=True)


def is_due(path: Path) -> bool:
    """Returns whether the newest backup is older than a day, or there is none."""
    with suppress(OSError):
        return all(abs(time.time() - backup.stat().st_mtime) > EVERY_S for backup in backups_of(path)[:1])
    return False


def back_up(connection: sqlite3.Connection, path: Path) -> None:
    """Adds a backup, and removes those beyond the newest three. What fails is tried again next time: a backup must not
    keep anybody from their conversations."""
    unfinished = path.with_name(f"{path.stem}.unfinished-backup{path.suffix}")
    with suppress(OSError, sqlite3.Error):
        unfinished.unlink(missing_ok=True)
        unfinished.touch(mode=0o600)
        with closing(connect(unfinished)) as target:
            connection.backup(target)
            target.execute("PRAGMA journal_mode = DELETE").fetchall()  # one file, without a log beside it
        unfinished.rename(path.with_name(f"{path.stem}.backup-{time.strftime('%Y%m%d-%H%M%S')}{path.suffix}"))
        for old in backups_of(path)[MOST_BACKUPS:]:
            old.unlink()


def purge_backups(path: Path, conversations: Sequence[int]) -> None:
    """Deletes conversations from every backup; a backup from which that is impossible goes altogether."""
    for backup in backups_of(path):
        try:
            with closing(connect(backup)) as connection:
                prepare(connection)
                connection.executemany("DELETE FROM conversation WHERE id = ?", [(id,) for id in conversations])
                connection.execute("PRAGMA journal_mode = DELETE").fetchall()
        except sqlite3.Error:
            with suppress(OSError):
                backup.unlink()
