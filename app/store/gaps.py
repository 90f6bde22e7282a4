"""Rows that salvage could not read, replaced by rows that say so, and rows that make no sense."""

from __future__ import annotations

from bisect import bisect_left
from typing import Any, get_args

from app.records import ChatSettings, State
from app.store.rows import to_json

Row = dict[str, Any]

LOST_NOTE = "This message was damaged and could not be read."
LOST_TITLE = "Recovered conversation"


def is_conversation(row: Row) -> bool:
    """Whether a row of that table can be one. What it can do without is forgotten where it makes no sense."""
    _forget(row, "deleted_s", float)
    _forget(row, "shown", int)
    kinds = {"title": str, "pinned": int, "created_s": float, "updated_s": float, "settings": str}
    return _has(row, kinds) and row["pinned"] in (0, 1)


def is_message(row: Row) -> bool:
    """The same; a message needs a place in a tree."""
    for column in ("statistics", "pair", "law", "attachments", "system", "prompt", "receipt"):
        _forget(row, column, str)
    _forget(row, "shown", int)
    if row["shown"] is not None and row["shown"] <= row["id"]:
        row["shown"] = None
    kinds = {"conversation": int, "created_s": float, "note": str, "tail": str, "text": str}
    parent = row["parent"]
    return (
        _has(row, kinds)
        and row["role"] in ("user", "assistant")
        and row["state"] in get_args(State)
        and (parent is None or (isinstance(parent, int) and 0 < parent < row["id"]))
    )


def _has(row: Row, kinds: dict[str, type]) -> bool:
    return all(isinstance(row[column], kind) for column, kind in kinds.items())


def _forget(row: Row, column: str, kind: type) -> None:
    """An older file lacks the column."""
    if not isinstance(row.get(column), kind):
        row[column] = None


def fill_gaps(conversations: dict[int, Row], messages: dict[int, Row]) -> int:
    """Put rows in where others refer to some that are lost; how many."""
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


def _lost_conversation(id: int, created_s: float) -> Row:
    return {
        "id": id,
        "title": LOST_TITLE,
        "pinned": 0,
        "created_s": created_s,
        "updated_s": created_s,
        "settings": to_json(ChatSettings()),
    }


def _lost_message(id: int, parent: int | None, child: Row) -> Row:
    """A question above a reply, a reply above a question."""
    role = "user" if child["role"] == "assistant" or parent is None else "assistant"
    return {
        "id": id,
        "conversation": child["conversation"],
        "parent": parent,
        "shown": child["id"],
        "role": role,
        "state": "failed",
        "created_s": child["created_s"],
        "note": LOST_NOTE,
        "text": "",
    }
