"""Rows of the tables as records, and back. What a damaged row says wrongly is left out and said, not raised: one bad
field must not take the conversation with it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeVar

import msgspec

from app.protocol import Law, Pair
from app.records import Attachment, ChatSettings, ConversationRecord, KeptReceipt, MessageRecord, Statistics

T = TypeVar("T")

CONVERSATION = "id, title, pinned, created_s, updated_s, settings"
MESSAGE = (
    "message.id, message.conversation, message.parent, message.role, message.state, message.note, message.created_s, "
    "message.attachments, message.statistics, message.pair, message.law, message.receipt, message.system, "
    "message.prompt, message.text || message.tail"
)

_encoder = msgspec.json.Encoder()


def to_json(value: object) -> str | None:
    """None of None."""
    return None if value is None else _encoder.encode(value).decode()


def read_json(text: str | None, kind: type[T]) -> T | None:
    """None where there is nothing, or nothing that can be read."""
    if text is None:
        return None
    try:
        return msgspec.json.decode(text, type=kind)
    except (msgspec.DecodeError, UnicodeEncodeError, RecursionError):
        return None


def attachments_of(text: str | None) -> tuple[Attachment, ...]:
    """Those that `text` lists; if it is damaged, itself as the only one."""
    if text is None:
        return ()
    read = read_json(text, tuple[Attachment, ...])
    return (Attachment(name="damaged attachments", text=text),) if read is None else read


def conversation_of(row: Sequence[Any]) -> ConversationRecord:
    """Of a row of CONVERSATION."""
    id, title, pinned, created_s, updated_s, settings = row
    return ConversationRecord(
        id=id,
        title=title,
        pinned=bool(pinned),
        created_s=created_s,
        updated_s=updated_s,
        settings=read_json(settings, ChatSettings) or ChatSettings(),
    )


def message_of(row: Sequence[Any], siblings: tuple[int, ...]) -> MessageRecord:
    """Of a row of MESSAGE, one of these versions."""
    id, conversation, parent, role, state, note, created_s, attachments, *made, system, prompt, text = row
    statistics, pair, law = read_json(made[0], Statistics), read_json(made[1], Pair), read_json(made[2], Law)
    read = (statistics, pair, law, receipt := read_json(made[3], KeptReceipt))
    if any(kept is not None and found is None for kept, found in zip(made, read, strict=True)):
        note = f"{note} What is kept of how it was made is damaged.".strip()
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
        statistics=statistics,
        pair=pair,
        law=law,
        system=system,
        prompt=prompt or "",
        receipt=receipt,
    )


def clean(text: str) -> str:
    """`text` as UTF-8 can carry it: lone surrogates become U+FFFD."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    return text


def clean_title(text: str) -> str:
    """One line of at most 200 characters."""
    return " ".join(clean(text[:2000]).split())[:200].rstrip()
