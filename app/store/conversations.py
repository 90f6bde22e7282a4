"""The sidebar's lines, and what is kept beside conversations: presets, and values of the app.

Deleting is soft: `undelete` brings all of it back until `purge`, which leaves no text of it in the file.
"""

from __future__ import annotations

import time

from app.records import ChatSettings, ConversationRecord
from app.store.database import Database
from app.store.errors import StoreError
from app.store.index import Index
from app.store.rows import CONVERSATION, clean, clean_title, conversation_of, read_json, to_json

UNDO_S = 600.0  # a deletion this old is not undone any more: the next start purges it


class Conversations:
    def __init__(self, database: Database, index: Index) -> None:
        self._database = database
        self._index = index

    def all(self) -> list[ConversationRecord]:
        """Pinned ones first, then by their last change; deleted ones left out."""
        rows = self._database.rows(
            f"SELECT {CONVERSATION} FROM conversation WHERE deleted_s IS NULL "
            "ORDER BY pinned DESC, updated_s DESC, id DESC"
        )
        return [conversation_of(row) for row in rows]

    def get(self, conversation: int) -> ConversationRecord:
        row = self._database.row(f"SELECT {CONVERSATION} FROM conversation WHERE id = ?", conversation)
        if row is None:
            raise StoreError(f"there is no conversation {conversation} any more; choose another")
        return conversation_of(row)

    def create(self, settings: ChatSettings) -> ConversationRecord:
        now_s = time.time()
        with self._database.change():
            created = self._database.run(
                "INSERT INTO conversation (title, pinned, created_s, updated_s, settings) VALUES ('', 0, ?, ?, ?)",
                *(now_s, now_s, to_json(settings)),
            )
        return self.get(created)

    def rename(self, conversation: int, title: str) -> None:
        self._set(conversation, "title", clean_title(title))

    def pin(self, conversation: int, pinned: bool) -> None:
        self._set(conversation, "pinned", int(pinned))

    def change_settings(self, conversation: int, settings: ChatSettings) -> None:
        self._set(conversation, "settings", to_json(settings))

    def delete(self, conversation: int) -> None:
        self._set(conversation, "deleted_s", time.time())

    def undelete(self, conversation: int) -> None:
        self._set(conversation, "deleted_s", None)

    def purge(self, older_than_s: float = 0.0) -> int:
        """Remove what was deleted at least so long ago, for good; how many conversations that were."""
        rows = self._database.rows(
            "SELECT id FROM conversation WHERE deleted_s <= ? AND NOT EXISTS "
            "(SELECT 1 FROM message WHERE conversation = conversation.id AND state = 'streaming')",
            time.time() - older_than_s,
        )
        if not rows:
            return 0
        for (conversation,) in rows:
            with self._database.change():
                messages = self._database.rows("SELECT id FROM message WHERE conversation = ?", conversation)
                self._index.drop([message for (message,) in messages])
                self._database.run("DELETE FROM conversation WHERE id = ?", conversation)
        self._index.forget()
        self._database.rows("PRAGMA wal_checkpoint (TRUNCATE)")  # the log still had the texts
        return len(rows)

    def _set(self, conversation: int, column: str, value: object) -> None:
        self._database.need("conversation", conversation)
        with self._database.change():
            self._database.run(f"UPDATE conversation SET {column} = ? WHERE id = ?", value, conversation)


class Kept:
    """Presets by name, and strings of the app by key."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def presets(self) -> dict[str, ChatSettings]:
        """By name, in the order of names; one that cannot be read is left out."""
        rows = self._database.rows("SELECT name, settings FROM preset ORDER BY name COLLATE NOCASE, name")
        read = ((name, read_json(settings, ChatSettings)) for name, settings in rows)
        return {name: settings for name, settings in read if settings is not None}

    def save_preset(self, name: str, settings: ChatSettings) -> None:
        """Replaces one of this name. Raises StoreError: no name."""
        if not (name := clean_title(name)):
            raise StoreError("a preset needs a name; type one")
        with self._database.change():
            self._database.run("INSERT OR REPLACE INTO preset VALUES (?, ?)", name, to_json(settings))

    def delete_preset(self, name: str) -> None:
        with self._database.change():
            self._database.run("DELETE FROM preset WHERE name = ?", name)

    def value(self, key: str) -> str | None:
        row = self._database.row("SELECT value FROM value WHERE key = ?", key)
        return None if row is None else str(row[0])

    def set_value(self, key: str, value: str) -> None:
        with self._database.change():
            self._database.run("INSERT OR REPLACE INTO value VALUES (?, ?)", key, clean(value))
