"""The tree of messages: what is on the current branch, new messages, and which version is shown.

Children of one message are versions of each other, as are the roots of a conversation. Each message remembers which
child is shown, so going back to a version goes back to the whole branch behind it.
"""

from __future__ import annotations

import time
from typing import Any, TypeVar

import msgspec

from app.protocol import Pair, SamplingSettings
from app.store.database import Database, Row, StoreError
from app.store.records import Attachment, MessageRecord, Role, State, Statistics, StoredReceipt

T = TypeVar("T")

_COLUMNS = (
    "message.id, message.conversation, message.parent, message.role, message.state, message.note, message.created_s, "
    "message.system, message.prompt, message.text || message.tail, message.attachments, "
    "message.statistics, message.pair, message.law, message.receipt"
)
_JSON: dict[str, type[Any]] = {
    "statistics": Statistics,
    "pair": Pair,
    "sampling": SamplingSettings,
    "receipt": StoredReceipt,
}
# Ids of the versions, oldest first, as one text.
_SIBLINGS = """(SELECT group_concat(id) FROM (
    SELECT id FROM message s WHERE s.conversation = message.conversation AND s.parent IS message.parent ORDER BY id))"""
_PATH = f"""
    WITH RECURSIVE branch (id, depth) AS (
        SELECT shown, 0 FROM conversation WHERE id = ? AND shown IS NOT NULL
        UNION ALL
        SELECT message.shown, depth + 1 FROM branch JOIN message USING (id) WHERE message.shown IS NOT NULL
    )
    SELECT {_COLUMNS}, {_SIBLINGS} FROM branch JOIN message USING (id) ORDER BY depth"""
_ANCESTORS = """
    WITH RECURSIVE up (id, parent) AS (
        SELECT id, parent FROM message WHERE id = ?
        UNION ALL
        SELECT message.id, message.parent FROM up JOIN message ON message.id = up.parent
    )
    SELECT id, parent FROM up"""


class MessageTree:
    """Reads and grows the trees. It knows nothing of rounds."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def path(self, conversation: int) -> list[MessageRecord]:
        """Returns the current branch, from its root."""
        self._database.require("conversation", conversation)
        return [_message_of(row) for row in self._database.rows(_PATH, conversation)]

    def get(self, message: int) -> MessageRecord:
        """Returns one message, on whichever branch it is."""
        row = self._database.row(f"SELECT {_COLUMNS}, {_SIBLINGS} FROM message WHERE id = ?", message)
        if row is None:
            raise StoreError(f"there is no message {message} any more; open its conversation again")
        return _message_of(row)

    def insert(self, conversation: int, parent: int | None, role: Role, state: State, **columns: str | None) -> int:
        """Adds a message as the newest version, and shows it, within a change. Returns its id."""
        self._check_parent(conversation, parent, role)
        now_s = time.time()
        place = {"conversation": conversation, "parent": parent, "role": role, "state": state, "created_s": now_s}
        added = self._database.insert("message", {**place, **columns})
        self.show(conversation, parent, added)
        self._database.run("UPDATE conversation SET updated_s = ? WHERE id = ?", now_s, conversation)
        return added

    def _check_parent(self, conversation: int, parent: int | None, role: Role) -> None:
        self._database.require("conversation", conversation)
        above = None if parent is None else self.get(parent)
        if above and above.conversation != conversation:
            raise StoreError(f"message {parent} belongs to another conversation; open that one first")
        if role == "assistant" and (above is None or above.role == "assistant"):
            raise StoreError("a reply needs a question; ask one first")

    def select(self, message: int) -> None:
        """Makes the branch that leads to this message the current one."""
        conversation = self.get(message).conversation
        with self._database.change():
            for child, parent in self._database.rows(_ANCESTORS, message):
                self.show(conversation, parent, child)

    def show(self, conversation: int, parent: int | None, child: int) -> None:
        """Shows this version among its siblings, within a change."""
        if parent is None:
            self._database.run("UPDATE conversation SET shown = ? WHERE id = ?", child, conversation)
        else:
            self._database.run("UPDATE message SET shown = ?1 WHERE id = ?2 AND shown IS NOT ?1", child, parent)


def _message_of(row: Row) -> MessageRecord:
    """Turns a row into a record. A damaged field is left out and noted: it must not take the conversation with it."""
    id, conversation, parent, role, state, note, created_s, system, prompt, text, attachments, *stored, listed = row
    siblings = tuple(int(sibling) for sibling in (listed or "").split(",") if sibling)
    siblings = siblings if id in siblings else (id,)
    made: dict[str, Any] = {name: read_json(kept, _JSON[name]) for name, kept in zip(_JSON, stored, strict=True)}
    if any(kept is not None and read is None for kept, read in zip(stored, made.values(), strict=True)):
        note = f"{note} Part of the information about this message is damaged.".strip()
    return MessageRecord(
        id=id,
        conversation=conversation,
        parent=parent,
        role=role,
        text=text,
        state=state,
        note=note,
        created_s=created_s,
        version=siblings.index(id) + 1,
        versions=len(siblings),
        siblings=siblings,
        attachments=attachments_of(attachments),
        system=system,
        prompt=prompt or "",
        **made,
    )


def to_json(value: object) -> str | None:
    """Returns `value` as JSON, None for None."""
    return None if value is None else msgspec.json.encode(value).decode()


def read_json(text: str | None, kind: type[T]) -> T | None:
    """Returns what `text` says, None where it is missing or damaged."""
    if text is None:
        return None
    try:
        return msgspec.json.decode(text, type=kind)
    except (msgspec.DecodeError, UnicodeEncodeError, RecursionError):
        return None


def attachments_of(text: str | None) -> tuple[Attachment, ...]:
    """Returns the attachments that `text` lists; if it is damaged, itself as the only one."""
    if text is None:
        return ()
    read = read_json(text, tuple[Attachment, ...])
    return (Attachment(name="damaged attachments", text=text),) if read is None else read


def clean(text: str) -> str:
    """Returns `text` as UTF-8 can carry it: lone surrogates become U+FFFD."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    return text


def clean_title(text: str) -> str:
    """Returns one line of at most 200 characters."""
    return " ".join(clean(text[:2000]).split())[:200].rstrip()
