"""Conversations out, as Markdown and JSON, and in again from JSON."""

from __future__ import annotations

from typing import Any

import msgspec

from app.numbers import in_words, receipt_in_words
from app.protocol import Told
from app.records import ConversationRecord, KeptReceipt, MessageRecord
from app.store.conversations import Conversations
from app.store.database import Database
from app.store.document import FORMAT, VERSION, Document, MessageDocument, read_document, refused
from app.store.errors import StoreError
from app.store.faults import fault_of
from app.store.index import Index, searched
from app.store.messages import Messages
from app.store.replies import CUT_NOTE, Replies
from app.store.rows import to_json
from app.store.spans import join, pack, text_of
from engine.events import Origin, Round

_CHUNK = 256  # rounds


class Exchange:
    def __init__(
        self, database: Database, conversations: Conversations, messages: Messages, replies: Replies, index: Index
    ) -> None:
        self._database = database
        self._conversations = conversations
        self._messages = messages
        self._replies = replies
        self._index = index

    def to_json(self, conversation: int) -> str:
        """All versions, with rounds; see `app.store.document`."""
        record = self._conversations.get(conversation)
        rows = self._database.rows("SELECT id, shown FROM message WHERE conversation = ? ORDER BY id", conversation)
        places = {id: place for place, (id, _) in enumerate(rows)}
        shown = self._database.rows("SELECT shown FROM conversation WHERE id = ?", conversation)[0][0]
        document = {
            "format": FORMAT,
            "version": VERSION,
            "title": record.title,
            "created_s": record.created_s,
            "updated_s": record.updated_s,
            "settings": record.settings,
            "shown": places.get(shown),
            "messages": [self._out(self._messages.get(id), places, places.get(shown)) for id, shown in rows],
        }
        return msgspec.json.encode(document).decode()

    def _out(self, record: MessageRecord, places: dict[int, int], shown: int | None) -> dict[str, Any]:
        streams = record.state == "streaming"
        rounds = self._rounds_out(record.id)
        return {
            "role": record.role,
            "parent": None if record.parent is None else places.get(record.parent),
            "shown": shown,
            "text": self._replies.text_so_far(record) if streams else record.text,
            "state": "cut" if streams else record.state,
            "note": CUT_NOTE if streams else record.note,
            "created_s": record.created_s,
            "attachments": record.attachments,
            "statistics": record.statistics,
            "pair": record.pair,
            "law": record.law,
            "system": record.system,
            "prompt": record.prompt,
            "receipt": record.receipt if rounds else None,  # it is of the rounds
            "rounds": rounds,
        }

    def _rounds_out(self, message: int) -> list[dict[str, Any]]:
        """None where they are damaged."""
        try:
            told = self._replies.told(message)
        except StoreError:
            return []
        return [{**msgspec.to_builtins(one), "origins": _origins_of(one.round)} for one in told]

    def from_json(self, text: str) -> ConversationRecord:
        """A conversation beside the others. Raises StoreError: why not; nothing has changed."""
        document = read_document(text)
        if why := fault_of(document):
            raise refused(why)
        with self._database.change():
            conversation = self._database.run(
                "INSERT INTO conversation (title, pinned, created_s, updated_s, settings) VALUES (?, 0, ?, ?, ?)",
                *(document.title, document.created_s, document.updated_s, to_json(document.settings)),
            )
            ids: list[int] = []
            for message in document.messages:
                parent = None if message.parent is None else ids[message.parent]
                ids.append(self._in(conversation, parent, message))
            self._show(conversation, ids, document)
        return self._conversations.get(conversation)

    def _in(self, conversation: int, parent: int | None, message: MessageDocument) -> int:
        said = text_of(message.rounds)
        added = self._database.run(
            "INSERT INTO message (conversation, parent, role, state, created_s, note, tail, statistics, pair, law, "
            "text, attachments, system, prompt, receipt) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
            *(conversation, parent, message.role, message.state, message.created_s, message.note),
            message.text[len(said) :] if said else "",
            *(to_json(message.statistics), to_json(message.pair), to_json(message.law)),
            said or message.text,
            to_json(message.attachments or None),
            *(message.system, message.prompt or None, to_json(_elsewhere(message.receipt))),
        )
        if message.rounds:
            self._database.run("INSERT INTO spans VALUES (?, ?)", added, join(None, _packed(list(message.rounds))))
        self._index.put(added, searched(message.text, message.attachments), later=True)
        return added

    def _show(self, conversation: int, ids: list[int], document: Document) -> None:
        """The ways that the document shows; the newest version where it does not say."""
        shown: dict[int | None, int] = {m.parent: place for place, m in enumerate(document.messages)}
        asked = [(None, document.shown), *((place, m.shown) for place, m in enumerate(document.messages))]
        shown |= {parent: child for parent, child in asked if child is not None}
        for parent, child in shown.items():
            if parent is None:
                self._database.run("UPDATE conversation SET shown = ? WHERE id = ?", ids[child], conversation)
            else:
                self._database.run("UPDATE message SET shown = ? WHERE id = ?", ids[child], ids[parent])


_origins: dict[tuple[int, int, bool], tuple[Origin, ...]] = {}


def _origins_of(r: Round) -> tuple[Origin, ...]:
    """Computed once for all rounds that are alike: there are tens of thousands in a long conversation."""
    kind = (len(r.tokens), r.accepted, r.refused)
    if kind not in _origins:
        _origins[kind] = r.origins
    return _origins[kind]


def _elsewhere(receipt: KeptReceipt | None) -> KeptReceipt | None:
    """A claim of the file: nobody here has checked it."""
    return None if receipt is None else msgspec.structs.replace(receipt, elsewhere=True)


def _packed(told: list[Told]) -> list[bytes]:
    return [pack(told[at : at + _CHUNK]) for at in range(0, len(told), _CHUNK)]


def to_markdown(title: str, path: list[MessageRecord], statistics: bool) -> str:
    """The way shown, for people: headings say who speaks, attachments are fenced, notes and numbers in italics."""
    parts = [f"# {title or 'Conversation'}"]
    for record in path:
        parts.append("## You" if record.role == "user" else "## Reply")
        parts.append(record.content.strip() or "*(empty)*")
        if record.state in ("stopped", "cut", "failed"):
            parts.append(f"*{' '.join(f'{record.state.capitalize()}. {record.note}'.split())}*")
        if statistics and record.statistics is not None:
            parts.append(f"*{in_words(record.statistics)}*")
        if statistics and record.receipt is not None:
            parts.append(f"*Receipt: {receipt_in_words(record.receipt, record.stale)}*")
    return "\n\n".join(parts) + "\n"
