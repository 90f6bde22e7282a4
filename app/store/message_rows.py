"""Messages as rows: the queries that read them, and how a row becomes a record and back.

Children of one message are versions of each other, as are the roots of a conversation. Each message remembers which
child is shown, so going back to a version goes back to the whole branch after it.
"""

from typing import Any, TypeVar

import msgspec

from app.protocol import Pair, SamplingSettings
from app.store.database import Row
from app.store.records import Attachment, ContextTrim, MessageBody, MessageRecord, Statistics, StoredReceipt

T = TypeVar("T")

# The fields of a message, and the columns that hold them; those of _JSON_FIELDS as JSON.
BODY = MessageBody.__struct_fields__
_JSON_FIELDS: dict[str, Any] = {
    "statistics": Statistics,
    "pair": Pair,
    "sampling": SamplingSettings,
    "receipt": StoredReceipt,
    "trim": ContextTrim,
}
_COLUMNS = ", ".join(f"message.{column}" for column in ("id", "conversation", "parent", "tail", *BODY))
# Ids of the versions, oldest first, as one text.
_SIBLINGS = """(SELECT group_concat(id) FROM (
    SELECT id FROM message s WHERE s.conversation = message.conversation AND s.parent IS message.parent ORDER BY id))"""
# Ids alone: what is sorted is copied, and a text may have millions of characters.
BRANCH = """
    WITH RECURSIVE branch (id, depth) AS (
        SELECT shown, 0 FROM conversation WHERE id = ? AND shown IS NOT NULL
        UNION ALL
        SELECT message.shown, depth + 1 FROM branch JOIN message USING (id) WHERE message.shown IS NOT NULL
    )
    SELECT id FROM branch JOIN message USING (id) ORDER BY depth"""
MESSAGE = f"SELECT {_COLUMNS}, {_SIBLINGS} FROM message WHERE id = ?"
ANCESTORS = """
    WITH RECURSIVE up (id, parent) AS (
        SELECT id, parent FROM message WHERE id = ?
        UNION ALL
        SELECT message.id, message.parent FROM up JOIN message ON message.id = up.parent
    )
    SELECT id, parent FROM up"""
# A message and all that follows it on any branch, from one conversation to another.
MOVE_BRANCH = """
    WITH RECURSIVE below (id) AS (
        VALUES (?1)
        UNION ALL
        SELECT message.id FROM below JOIN message ON message.conversation = ?2 AND message.parent = below.id
    )
    UPDATE message SET conversation = ?3 WHERE id IN (SELECT id FROM below)"""


def message_of(row: Row) -> MessageRecord:
    """Turns a row into a record. A damaged field is left out and noted: it must not take the conversation with it."""
    values = dict(zip(("id", "conversation", "parent", "tail", *BODY, "siblings"), row, strict=True))
    for name, kind in _JSON_FIELDS.items():
        stored, values[name] = values[name], read_json(values[name], kind)
        if stored is not None and values[name] is None:
            values["note"] = f"{values['note']} Part of the information about this message is damaged.".strip()
    siblings = tuple(int(sibling) for sibling in (values["siblings"] or "").split(",") if sibling)
    siblings = siblings if values["id"] in siblings else (values["id"],)
    values |= {"siblings": siblings, "version": siblings.index(values["id"]) + 1, "versions": len(siblings)}
    values |= {"text": values["text"] + values.pop("tail"), "prompt": values["prompt"] or ""}
    values["thought"] = values["thought"] or ""
    return MessageRecord(**values | {"attachments": attachments_of(values["attachments"])})


def columns_of(body: MessageBody) -> dict[str, Any]:
    """Returns what the columns of a message hold."""
    values = {name: getattr(body, name) for name in BODY}
    json = {name: to_json(getattr(body, name) or None) for name in (*_JSON_FIELDS, "attachments")}
    return {**values, **json, "prompt": body.prompt or None, "thought": body.thought or None}


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
