"""The tree of messages: what is on screen, new questions, and which version is shown.

Children of one message are versions of each other, as are the roots of a conversation. Each message remembers which
child is shown, so that going back to a version goes back to the whole way behind it.
"""

from __future__ import annotations

import time
from collections.abc import Sequence

from app.protocol import Law, Pair
from app.records import Attachment, MessageRecord, Role, State
from app.store.database import Database, Row
from app.store.errors import StoreError
from app.store.index import Index, searched
from app.store.rows import MESSAGE, clean, message_of, to_json

# Ids of the versions, oldest first, as one text.
_SIBLINGS = """(SELECT group_concat(id) FROM (
    SELECT id FROM message s WHERE s.conversation = message.conversation AND s.parent IS message.parent ORDER BY id))"""
_PATH = f"""
    WITH RECURSIVE way (id, depth) AS (
        SELECT shown, 0 FROM conversation WHERE id = ? AND shown IS NOT NULL
        UNION ALL
        SELECT message.shown, depth + 1 FROM way JOIN message USING (id) WHERE message.shown IS NOT NULL
    )
    SELECT {MESSAGE}, {_SIBLINGS} FROM way JOIN message USING (id) ORDER BY depth"""
_UP = """
    WITH RECURSIVE up (id, parent) AS (
        SELECT id, parent FROM message WHERE id = ?
        UNION ALL
        SELECT message.id, message.parent FROM up JOIN message ON message.id = up.parent
    )
    SELECT id, parent FROM up"""


def _record_of(row: Row) -> MessageRecord:
    """Of a row of MESSAGE with its siblings behind."""
    siblings = tuple(int(id) for id in (row[-1] or "").split(",") if id)
    return message_of(row[:-1], siblings if row[0] in siblings else (row[0],))


class Messages:
    """Knows nothing of rounds: the text of a reply that streams is as far as it was settled."""

    def __init__(self, database: Database, index: Index) -> None:
        self._database = database
        self._index = index

    def path(self, conversation: int) -> list[MessageRecord]:
        """The way shown, from the root."""
        self._database.need("conversation", conversation)
        return [_record_of(row) for row in self._database.rows(_PATH, conversation)]

    def get(self, message: int) -> MessageRecord:
        row = self._database.row(f"SELECT {MESSAGE}, {_SIBLINGS} FROM message WHERE id = ?", message)
        if row is None:
            raise StoreError(f"there is no message {message} any more; open its conversation again")
        return _record_of(row)

    def add_question(
        self, conversation: int, parent: int | None, text: str, attachments: Sequence[Attachment]
    ) -> MessageRecord:
        """Complete, and found by its text and its attachments."""
        kept = [Attachment(name=clean(a.name), text=clean(a.text)) for a in attachments]
        with self._database.change():
            added = self.insert(conversation, parent, "user", "complete", clean(text))
            if kept:
                self._database.run("UPDATE message SET attachments = ? WHERE id = ?", to_json(kept), added)
            self._index.put(added, searched(clean(text), kept))
        return self.get(added)

    def add_reply(self, conversation: int, parent: int, pair: Pair, law: Law, system: str | None) -> MessageRecord:
        """Empty, and streaming."""
        with self._database.change():
            added = self.insert(conversation, parent, "assistant", "streaming", "")
            self._database.run(
                "UPDATE message SET pair = ?, law = ?, system = ? WHERE id = ?",
                *(to_json(pair), to_json(law), None if system is None else clean(system), added),
            )
        return self.get(added)

    def insert(self, conversation: int, parent: int | None, role: Role, state: State, text: str) -> int:
        """A message as the newest version, and shown. Within a change."""
        self._check_parent(conversation, parent, role)
        now_s = time.time()
        added = self._database.run(
            "INSERT INTO message (conversation, parent, role, state, created_s, text) VALUES (?, ?, ?, ?, ?, ?)",
            *(conversation, parent, role, state, now_s, text),
        )
        if parent is not None:
            self._database.run("UPDATE message SET shown = ? WHERE id = ?", added, parent)
        else:
            self._database.run("UPDATE conversation SET shown = ? WHERE id = ?", added, conversation)
        self._database.run("UPDATE conversation SET updated_s = ? WHERE id = ?", now_s, conversation)
        return added

    def _check_parent(self, conversation: int, parent: int | None, role: Role) -> None:
        self._database.need("conversation", conversation)
        if parent is None:
            if role == "assistant":
                raise StoreError("a reply needs a question; ask one first")
            return
        above = self.get(parent)
        if above.conversation != conversation:
            raise StoreError(f"message {parent} belongs to another conversation; open that one first")
        if role == "assistant" and above.role == "assistant":
            raise StoreError("a reply needs a question, not another reply; ask one first")

    def select(self, message: int) -> None:
        """Show this version, and the way that leads to it."""
        conversation = self.get(message).conversation
        with self._database.change():
            for child, parent in self._database.rows(_UP, message):
                if parent is None:
                    self._database.run("UPDATE conversation SET shown = ? WHERE id = ?", child, conversation)
                else:
                    self._database.run("UPDATE message SET shown = ?1 WHERE id = ?2 AND shown IS NOT ?1", child, parent)
