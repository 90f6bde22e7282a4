"""Recovers what can still be read of a damaged file, row by row, into a new one, ids and all.

SQLite reads the rows, each by itself: what lies on a damaged page, or is only found through one, is stepped over. Every
message that has ended is stored twice, on different pages (`message_copy`), so that one damaged page costs no text.
Backups fill in what is missing. The constraints of the new tables decide which rows are valid. An empty message takes
the place in the tree of one that is lost for good.
"""

import sqlite3
import struct
from collections.abc import Iterator, Sequence
from contextlib import closing, suppress
from pathlib import Path
from typing import Any

from app.store.database import TABLES, VERSION, DamageError, damage_reported, in_memory, new_store

LOST_NOTE = "This message was damaged; what could be read of it is shown."
LOST_TITLE = "Recovered conversation"
_PAGE = 4096
_LOG_HEADER, _FRAME_HEADER = 32, 24  # bytes
_MOST_ID = 2**53
_ROW = 32  # bytes that a row takes at least
_MOST_STEPS = 100_000  # more than the rows that one damaged page can hide

# What reads one row of a table: the next after the place `?1`, and its own place before its columns.
_NEXT_ROW = "SELECT rowid, * FROM {} NOT INDEXED WHERE rowid > ?1 ORDER BY rowid LIMIT 1"
_NEXT_COPY = """SELECT id, * FROM message INDEXED BY message_copy
    WHERE state != 'streaming' AND id > ?1 ORDER BY id LIMIT 1"""
_NEXT_KEY = "SELECT ?1 + 1, * FROM {} LIMIT 1 OFFSET ?1"  # without a number of its own
_SOURCES = {
    "conversation": (_NEXT_ROW.format("conversation"),),
    "message": (_NEXT_ROW.format("message"), _NEXT_COPY),
    "rounds": (_NEXT_ROW.format("rounds"),),
    "preset": (_NEXT_KEY.format("preset"),),
    "value": (_NEXT_KEY.format("value"),),
}

# What takes the place of values that a row cannot have, tried one after the other until the row fits its table.
_OPTIONAL = ("shown", "statistics", "pair", "sampling", "attachments", "system", "prompt", "receipt", "thought", "trim")
_SUBSTITUTES: dict[str, tuple[dict[str, object], ...]] = {
    "conversation": ({}, {"pinned": 0, "deleted_s": None, "shown": None}),
    "message": (
        {},
        dict.fromkeys(_OPTIONAL),
        {"parent": None, "role": "user", "state": "failed", "created_s": 0.0, "note": LOST_NOTE, "tail": ""},
    ),
}
_NEWEST = "(SELECT max(c.id) FROM message c WHERE c.conversation = {} AND c.parent IS {})"
_NO_CHILD = "(shown IS NULL OR shown NOT IN (SELECT c.id FROM message c WHERE c.conversation = {} AND c.parent IS {}))"
_LEVELS = {"conversation": ("conversation.id", "NULL"), "message": ("message.conversation", "message.id")}
# Every statement changes nothing in a sound store. `deleted_s` before 2001 would purge a conversation at once.
_REPAIRS = (
    "DELETE FROM rounds WHERE message NOT IN (SELECT id FROM message WHERE role = 'assistant')",
    "DELETE FROM folded WHERE message NOT IN (SELECT id FROM message)",
    "UPDATE conversation SET deleted_s = NULL WHERE deleted_s < 1e9",
    f"UPDATE sqlite_sequence SET seq = 0 WHERE typeof(seq) != 'integer' OR seq > {_MOST_ID}",
    f"""UPDATE message SET conversation = (SELECT coalesce(max(id), 0) + 1 FROM conversation)
        WHERE conversation NOT BETWEEN 1 AND {_MOST_ID}""",
    f"""INSERT INTO conversation (id, title, pinned, created_s, updated_s, settings)
        SELECT conversation, '{LOST_TITLE}', 0, min(created_s), max(created_s), '{{}}' FROM message
        WHERE conversation NOT IN (SELECT id FROM conversation) GROUP BY conversation""",
    "UPDATE message SET parent = NULL WHERE parent < 1",
    # A lost message stands after the one before it: a question above a reply, a reply above a question.
    f"""INSERT INTO message (id, conversation, parent, role, state, created_s, note, text)
        SELECT m.parent, m.conversation, before.id, iif(m.role = before.role AND m.role = 'user', 'assistant', 'user'),
            'failed', m.created_s, '{LOST_NOTE}', ''
        FROM message m LEFT JOIN message before ON before.id =
            (SELECT max(b.id) FROM message b WHERE b.conversation = m.conversation AND b.id < m.parent)
        WHERE m.parent NOT IN (SELECT id FROM message) GROUP BY m.parent""",
    """UPDATE message SET parent = NULL WHERE EXISTS
        (SELECT 1 FROM message p WHERE p.id = message.parent AND p.conversation != message.conversation)""",
    *(
        f"UPDATE {table} SET shown = {_NEWEST.format(*level)} "
        f"WHERE {_NO_CHILD.format(*level)} AND shown IS NOT {_NEWEST.format(*level)}"
        for table, level in _LEVELS.items()
    ),
)


def repair(connection: sqlite3.Connection) -> int:
    """Makes the tree whole, within a transaction: every message in a conversation and after another, every `shown` at
    a child. Returns how many rows that changed, 0 for a sound store."""
    before = connection.total_changes
    for statement in _REPAIRS:
        connection.execute(statement)
    return connection.total_changes - before


def image_of(path: Path) -> bytes:
    """Returns the bytes of a database file as of its last commit, its write-ahead log included, to be opened in memory.
    See sqlite.org/fileformat2.html, section 4; frames of an earlier log have another salt."""
    pages = bytearray(path.read_bytes() if path.is_file() else b"")
    log_path = path.with_name(path.name + "-wal")
    log = log_path.read_bytes() if log_path.is_file() else b""
    most_pages = (len(pages) + len(log)) // _PAGE
    uncommitted: dict[int, bytes] = {}
    for at in range(_LOG_HEADER, len(log) - _FRAME_HEADER - _PAGE + 1, _FRAME_HEADER + _PAGE):
        number, pages_after = struct.unpack_from(">II", log, at)
        if log[at + 8 : at + 16] != log[16:24] or not 0 < number <= most_pages or pages_after > most_pages:
            break
        uncommitted[number] = log[at + _FRAME_HEADER : at + _FRAME_HEADER + _PAGE]
        if pages_after:  # a commit
            pages.extend(bytes(max(0, max(pages_after, *uncommitted) * _PAGE - len(pages))))
            for place, content in uncommitted.items():
                pages[(place - 1) * _PAGE : place * _PAGE] = content
            uncommitted.clear()
    pages[18:20] = b"\1\1" if len(pages) >= _PAGE else pages[18:20]  # a database in memory has no log
    return bytes(pages)


def recover(image: bytes, backups: Sequence[Path]) -> tuple[sqlite3.Connection, str]:
    """Returns a sound store in memory with what can be read of a damaged one and of its backups, newest first, and a
    sentence about what was recovered, for the user."""
    store = new_store()
    most_steps = min(len(image) // _ROW, _MOST_STEPS)
    with suppress(DamageError), damage_reported(), closing(_with_sound_schema(image)) as damaged:
        for table, sources in _SOURCES.items():
            rows = [row for source in sources for row in _readable_rows(damaged, source, most_steps)]
            _insert(store, table, sorted(rows, key=_is_spoiled))  # of two copies of a message the first is taken
    for backup in backups:
        with suppress(DamageError, OSError), damage_reported():
            _fill_from_backup(store, image_of(backup))
    lost = repair(store) or store.execute("SELECT count(*) FROM message WHERE note = ?", (LOST_NOTE,)).fetchone()[0]
    counts = {table: store.execute(f"SELECT count(*) FROM {table}").fetchone()[0] for table in TABLES[:2]}
    if not counts["conversation"]:
        return store, "Nothing could be recovered."
    found = " and ".join(f"{count:,} {table}{'' if count == 1 else 's'}" for table, count in counts.items())
    return store, f"Recovered: {found}.{' Some of it could not be read.' if lost else ''}"


def _with_sound_schema(image: bytes) -> sqlite3.Connection:
    """Opens a damaged file in memory with the first page, header and schema, of a new store."""
    with closing(new_store()) as new:
        first = new.serialize()[:_PAGE]
    first = first[:28] + bytes(4) + first[32:]  # without a page count SQLite goes by the size of the file
    rest = image[_PAGE:]
    return in_memory(first + rest + bytes(-len(rest) % _PAGE))


def _readable_rows(damaged: sqlite3.Connection, source: str, most_steps: int) -> Iterator[dict[str, Any]]:
    """Yields the rows of a table that can be read, some perhaps twice. most_steps: how many in a row may be missing."""
    after = steps = 0
    while steps < most_steps:
        with suppress(DamageError), damage_reported():
            found = (cursor := damaged.execute(source, (after,))).fetchone()
            if found is None:
                return
            yield dict(zip((name for name, *_ in cursor.description[1:]), found[1:], strict=True))
            if 0 < found[0] - after < _MOST_STEPS:  # a damaged page may have any number
                after, steps = found[0], 0
                continue
        after, steps = after + 1, steps + 1


def _is_spoiled(row: dict[str, Any]) -> bool:
    """Whether a text of a row has what a page of zeros or of other bytes makes of it, which SQLite cannot tell."""
    return any(isinstance(value, str) and ("\0" in value or "\ufffd" in value) for value in row.values())


def _insert(store: sqlite3.Connection, table: str, rows: Sequence[dict[str, Any]]) -> None:
    """Inserts the rows that fit a table, then those that do with other values in some columns."""
    for substitutes in _SUBSTITUTES.get(table, ({},)):
        for row in rows:
            row |= {column: value for column, value in substitutes.items() if column in row}
            columns, places = ", ".join(row), ", ".join("?" * len(row))
            if 0 < row.get("id", 1) < _MOST_ID:
                with suppress(sqlite3.IntegrityError):
                    store.execute(f"INSERT INTO {table} ({columns}) VALUES ({places})", tuple(row.values()))


def _fill_from_backup(store: sqlite3.Connection, backup: bytes) -> None:
    """Takes what is missing from a backup. Purging reaches backups too, so whatever is in one was lost to damage,
    unless the backup is of another store that lay here: then its ids mean something else."""
    store.execute("ATTACH ':memory:' AS backup")
    try:
        store.deserialize(backup, name="backup")
        shared = "main.message m JOIN backup.message b USING (id)"
        count, alike = store.execute(f"SELECT count(*), total(b.created_s = m.created_s) FROM {shared}").fetchone()
        ((version,),) = store.execute("PRAGMA backup.user_version")
        if version == VERSION and 2 * alike >= count:
            store.execute("DELETE FROM message WHERE note = ? AND id IN (SELECT id FROM backup.message)", (LOST_NOTE,))
            for table in TABLES:
                store.execute(f"INSERT OR IGNORE INTO {table} SELECT * FROM backup.{table}")
    finally:
        store.execute("DETACH backup")
