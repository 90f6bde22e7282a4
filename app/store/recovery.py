"""Recovers what can still be read of a damaged file, row by row, into a new one, ids and all.

SQLite reads the rows: each page that may hold some is given to it as the whole of a table, under a sound schema. So a
row is found whatever became of the pages that led to it, and only what is on a damaged page itself can be lost. Backups
fill in what is missing. A message that is lost for good keeps its place in the tree through an empty one.
"""

from __future__ import annotations

import os
import shutil
import sqlite3
import tempfile
from bisect import bisect_left
from collections.abc import Iterator, Sequence
from contextlib import closing, suppress
from pathlib import Path
from typing import Any, get_args

from app.store.database import DamageError, connect
from app.store.message_tree import to_json
from app.store.records import ChatSettings, State
from app.store.round_codec import split_chunks

TableRow = dict[str, Any]

LOST_NOTE = "This message was damaged and could not be read."
LOST_TITLE = "Recovered conversation"
_PAGE = 4096
_LEAF, _KEYED = (b"\x0d",), (b"\x02", b"\x0a")  # first bytes of pages: rows by number; rows by key
_PAGE_KINDS = {"conversation": _LEAF, "message": _LEAF, "spans": _LEAF, "chunk": _KEYED}
_KEYS = {"conversation": "id", "message": "id", "spans": "message", "chunk": "message, number", "preset": "name"}
_PLACE = "id, conversation, parent, shown, role, state, created_s"  # readable where the text of a message is not
_OPTIONAL = ("statistics", "pair", "law", "attachments", "system", "prompt", "receipt")


def recover(damaged: Path, new: Path, backups: Sequence[Path]) -> str:
    """Fills the empty store `new`, which nobody has open; backups: newest first. Returns what was recovered, a sentence
    for the user."""
    with tempfile.TemporaryDirectory(prefix="redline-") as folder, closing(connect(new)) as target:
        rescue = _Rescue(target)
        try:
            rescue.read(_PageReader(_prepared_copy(damaged, new, Path(folder))))
        except (OSError, sqlite3.DatabaseError):
            rescue.lost += 1
        for backup in backups:
            with suppress(sqlite3.DatabaseError, DamageError):
                rescue.read_backup(backup)
        return rescue.write()


def _prepared_copy(damaged: Path, new: Path, folder: Path) -> Path:
    """Returns a copy of the damaged file, its log included, with the first page of `new`: header and schema. Tables are
    always created in one order, so their first pages are the same in every file."""
    copy = folder / "copy.sqlite"
    page = new.read_bytes()[:_PAGE]
    page = page[:92] + bytes(4) + page[96:]  # no valid page count: SQLite goes by the size of the file
    shutil.copyfile(damaged, copy)
    log = damaged.with_name(damaged.name + "-wal")
    if log.is_file():
        shutil.copyfile(log, copy.with_name(copy.name + "-wal"))
    for _ in range(2):  # the log may hold the damaged page as well
        with copy.open("r+b") as file:
            file.write(page)
        os.truncate(copy, max(-(-copy.stat().st_size // _PAGE), 64) * _PAGE)  # every table has its first page
        with suppress(sqlite3.DatabaseError), closing(connect(copy)) as connection:
            connection.execute("SELECT count(*) FROM sqlite_schema").fetchall()  # the last to close writes the log back
    return copy


class _PageReader:
    """Reads rows from single pages. complete: whether everything so far could be read."""

    def __init__(self, path: Path) -> None:
        self._connection = connect(path)
        for pragma in ("writable_schema = ON", "journal_mode = DELETE", "journal_mode = OFF", "synchronous = OFF"):
            self._connection.execute(f"PRAGMA {pragma}").fetchall()
        with path.open("rb") as file:
            self._pages = [
                (page, self._kind(file.fileno(), page)) for page in range(2, path.stat().st_size // _PAGE + 1)
            ]
        self._version = 1_000
        self.complete = True

    @staticmethod
    def _kind(file: int, page: int) -> bytes:
        return os.pread(file, 1, (page - 1) * _PAGE)

    def rows(self, table: str) -> Iterator[TableRow]:
        """Yields what any page holds that may be a row of this table; the caller judges."""
        for page in [page for page, kind in self._pages if kind in _PAGE_KINDS[table]]:
            self._connection.execute("UPDATE sqlite_schema SET rootpage = ? WHERE name = ?", (page, table))
            self._version += 1
            self._connection.execute(f"PRAGMA schema_version = {self._version}")  # have it read again
            yield from self.table(table)

    def table(self, table: str) -> Iterator[TableRow]:
        """Yields the rows of a table in order; behind a row that cannot be read, the others by their keys."""
        keys, found = _KEYS.get(table, "key"), set()
        names = keys.split(", ")
        before, self.complete = self.complete, True
        for row in self._read(f"SELECT * FROM {table} NOT INDEXED"):
            found.add(tuple(row[name] for name in names))
            yield row
        if not self.complete:
            for order in ("", " DESC"):
                listed = list(
                    self._read(f"SELECT {keys} FROM {table} NOT INDEXED ORDER BY {f'{order}, '.join(names)}{order}")
                )
                for key in [tuple(row.values()) for row in listed]:
                    if key not in found:
                        found.add(key)
                        yield from self._by_key(table, keys, key)
        self.complete &= before

    def _by_key(self, table: str, keys: str, key: tuple[object, ...]) -> Iterator[TableRow]:
        where = f"FROM {table} NOT INDEXED WHERE ({keys}) = ({', '.join('?' * len(key))})"
        rows = list(self._read(f"SELECT * {where}", *key))
        yield from rows or (self._read(f"SELECT {_PLACE} {where}", *key) if table == "message" else ())

    def _read(self, sql: str, *values: object) -> Iterator[TableRow]:
        try:
            cursor = self._connection.execute(sql, values)
            names = [column[0] for column in cursor.description]
            for row in cursor:
                yield dict(zip(names, row, strict=True))
        except (sqlite3.DatabaseError, MemoryError):
            self.complete = False

    def close(self) -> None:
        self._connection.close()


class _Rescue:
    """Collects rows, and writes them to the new store. lost: how many rows are known to be missing."""

    def __init__(self, target: sqlite3.Connection) -> None:
        self._target = target
        self._conversations: dict[int, TableRow] = {}
        self._messages: dict[int, TableRow] = {}
        self._others: dict[str, list[tuple[object, ...]]] = {"spans": [], "chunk": [], "preset": [], "value": []}
        self._partial = False  # presets or values could not all be read
        self.lost = 0

    def read(self, reader: _PageReader) -> None:
        """Takes every row that makes sense from a damaged file."""
        for row in reader.rows("conversation"):
            if _is_conversation(row):
                self._conversations.setdefault(row["id"], row)
        for row in reader.rows("message"):
            if _is_message(row):
                self._messages.setdefault(row["id"], row)
        for row in reader.rows("spans"):
            if self._is_reply(row["message"]) and _is_rounds(row["data"]):
                self._others["spans"].append(tuple(row.values()))
        for row in reader.rows("chunk"):
            kinds = {"number": int, "text": str, "data": bytes}
            if self._is_reply(row["message"]) and _fits(row, kinds):
                self._others["chunk"].append(tuple(row.values()))
        self.lost += not reader.complete
        reader.complete = True
        for table in ("preset", "value"):
            found = [tuple(row.values()) for row in reader.table(table)]
            self._others[table] += [row for row in found if all(isinstance(value, str) for value in row)]
        self._partial = not reader.complete
        reader.close()

    def _is_reply(self, id: object) -> bool:
        return isinstance(id, int) and self._messages.get(id, {}).get("role") == "assistant"

    def read_backup(self, backup: Path) -> None:
        """Takes what is missing from a backup. Purging reaches backups too, so whatever is in one was lost to damage,
        unless the backup is of another store that lay here: then its ids mean something else."""
        with closing(connect(backup, "ro")) as source:
            source.row_factory = lambda cursor, row: dict(zip([c[0] for c in cursor.description], row, strict=True))
            messages = {row["id"]: row for row in source.execute("SELECT * FROM message") if _is_message(row)}
            shared = [id for id in messages if id in self._messages]
            alike = sum(messages[id]["created_s"] == self._messages[id]["created_s"] for id in shared)
            if 2 * alike < len(shared):
                return
            for row in source.execute("SELECT * FROM conversation"):
                if _is_conversation(row):
                    self._conversations.setdefault(row["id"], row)
            unread = {id for id, row in self._messages.items() if row["note"] == LOST_NOTE}
            restored = {id: row for id, row in messages.items() if id in unread or id not in self._messages}
            self._messages |= restored
            texts = {id: row["text"] for id, row in self._messages.items()}
            for row in source.execute("SELECT message, data FROM spans"):
                if row["message"] in messages and texts[row["message"]] == messages[row["message"]]["text"]:
                    self._others["spans"].append(tuple(row.values()))
            if self._partial:
                for table in ("preset", "value"):
                    self._others[table] += [tuple(row.values()) for row in source.execute(f"SELECT * FROM {table}")]

    def write(self) -> str:
        """Writes all there is, the tree made whole; returns a sentence for the user."""
        self.lost += _fill_gaps(self._conversations, self._messages)
        self.lost += sum(row["note"] == LOST_NOTE and "text" in row for row in self._messages.values())
        self._target.execute("PRAGMA foreign_keys = ON")
        self._target.execute("BEGIN IMMEDIATE")
        for table, rows in (("conversation", self._conversations), ("message", self._messages)):
            for id in sorted(rows):
                self._insert(f"INSERT INTO {table} ({', '.join(rows[id])})", tuple(rows[id].values()))
        for table, others in self._others.items():
            for values in others:
                self._insert(f"INSERT OR IGNORE INTO {table}", values)
        _mend_branches(self._target)
        self._target.execute("COMMIT")
        if not self._conversations:
            return "Nothing could be recovered."
        counts = " and ".join(self._count(table) for table in ("conversation", "message"))
        return f"Recovered: {counts}.{' Some of it could not be read.' if self.lost else ''}"

    def _insert(self, into: str, values: tuple[object, ...]) -> None:
        try:
            self._target.execute(f"{into} VALUES ({', '.join('?' * len(values))})", values)
        except sqlite3.IntegrityError:  # it breaks a rule of its table
            self.lost += 1

    def _count(self, table: str) -> str:
        number = self._target.execute(f"SELECT count(*) FROM {table}").fetchone()[0]
        return f"{number:,} {table}{'' if number == 1 else 's'}"


def _is_conversation(row: TableRow) -> bool:
    """Returns whether this can be a row of that table; optional columns that make no sense are cleared."""
    if not isinstance(row["deleted_s"], float) or row["deleted_s"] < 1e9:
        row["deleted_s"] = None
    if not isinstance(row["shown"], int):
        row["shown"] = None
    kinds = {"id": int, "title": str, "pinned": int, "created_s": float, "updated_s": float, "settings": str}
    return _fits(row, kinds) and row["pinned"] in (0, 1)


def _is_message(row: TableRow) -> bool:
    """The same for a message; one whose text cannot be read gets an empty one."""
    for column in _OPTIONAL:
        if not isinstance(row.get(column), str):
            row[column] = None
    if "text" not in row:
        row |= {"text": "", "tail": "", "note": LOST_NOTE, "state": "failed"}
    if not isinstance(row["shown"], int) or row["shown"] <= row["id"]:
        row["shown"] = None
    parent = row["parent"]
    kinds = {"id": int, "conversation": int, "created_s": float, "note": str, "tail": str, "text": str}
    return (
        _fits(row, kinds)
        and row["role"] in ("user", "assistant")
        and row["state"] in get_args(State)
        and (parent is None or (isinstance(parent, int) and 0 < parent < row["id"]))
    )


def _is_rounds(data: object) -> bool:
    try:
        return isinstance(data, bytes) and bool(split_chunks(data))
    except DamageError:
        return False


def _fits(row: TableRow, kinds: dict[str, type]) -> bool:
    return all(isinstance(row[column], kind) for column, kind in kinds.items())


def _fill_gaps(conversations: dict[int, TableRow], messages: dict[int, TableRow]) -> int:
    """Adds placeholder rows for those that others refer to and that are lost; returns how many."""
    lost = 0
    families: dict[int, list[int]] = {}  # ids of a conversation's messages, ascending
    for id in sorted(messages):
        families.setdefault(messages[id]["conversation"], []).append(id)
    for conversation, ids in families.items():
        if conversation not in conversations:
            lost += 1
            conversations[conversation] = _lost_conversation(conversation, messages[ids[0]]["created_s"])
        for id in ids:
            parent = messages[id]["parent"]
            if parent in messages and messages[parent]["conversation"] != conversation:
                lost += 1
                messages[id]["parent"] = None
            elif parent is not None and parent not in messages:
                lost += 1
                before = bisect_left(ids, parent)
                messages[parent] = _lost_message(parent, ids[before - 1] if before else None, messages[id])
    return lost


def _lost_conversation(id: int, created_s: float) -> TableRow:
    times = {"created_s": created_s, "updated_s": created_s}
    return {"id": id, "title": LOST_TITLE, "pinned": 0, "settings": to_json(ChatSettings()), **times}


def _lost_message(id: int, parent: int | None, child: TableRow) -> TableRow:
    """A question above a reply, a reply above a question."""
    role = "user" if child["role"] == "assistant" or parent is None else "assistant"
    place = {"id": id, "conversation": child["conversation"], "parent": parent, "shown": child["id"], "role": role}
    return {**place, "created_s": child["created_s"], "state": "failed", "note": LOST_NOTE, "text": ""}


def _mend_branches(target: sqlite3.Connection) -> None:
    """Makes every `shown` lead to a child: the one it did, else the newest."""
    child = "SELECT {} FROM message c WHERE c.conversation = {} AND c.parent IS {}"
    for table, *family in (
        ("conversation", "conversation.id", "NULL"),
        ("message", "message.conversation", "message.id"),
    ):
        children, newest = child.format("c.id", *family), child.format("max(c.id)", *family)
        target.execute(f"UPDATE {table} SET shown = ({newest}) WHERE shown IS NULL OR shown NOT IN ({children})")
