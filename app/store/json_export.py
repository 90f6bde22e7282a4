"""A conversation as a JSON document, out and in: the whole tree, with rounds and statistics.

    {"format": "redline conversation", "version": 1, "title", "created_s", "updated_s", "settings", "shown",
     "messages": [{"parent", "shown", "role", "text", "state", "note", "created_s", "attachments",
                   "statistics", "pair", "law", "system", "prompt", "receipt",
                   "rounds": [{"type": "Told", "id", "round", "drafted_texts", "origins"}]}]}

A message refers to others by their places in `messages`; its parent always comes before it, and versions stand in their
order. `shown` is the child (of the document: the root) on the current branch. `text` is the texts of the rounds and
whatever was held back at the end. `receipt` is what a check of the reply found (`engine.audit.receipt`);
`redline verify --write` puts it there. `origins` (accepted, corrected, bonus: one for each token) is for readers; it
follows from the rest and is not read back. Unknown fields are ignored.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any, Literal, NamedTuple

import msgspec

from app.protocol import Pair, RoundDone, SamplingSettings, Struct
from app.store.database import Database, StoreError
from app.store.message_tree import MessageTree, to_json
from app.store.records import (
    Attachment,
    ChatSettings,
    ConversationRecord,
    MessageRecord,
    Role,
    Statistics,
    StoredReceipt,
)
from app.store.reply_log import CUT_NOTE
from app.store.round_codec import join_chunks, pack, text_of
from engine.events import Origin, Round

_CHUNK = 256  # rounds
FORMAT = "redline conversation"
VERSION = 1
MOST_CHARACTERS = 256 * 1024 * 1024
MOST_MESSAGES = 100_000

Time = Annotated[float, msgspec.Meta(ge=0, lt=253402300800)]  # to the year 9999
Place = Annotated[int, msgspec.Meta(ge=0, lt=MOST_MESSAGES)]
Ended = Literal["complete", "stopped", "cut", "failed"]


class DocumentHeader(Struct, frozen=True, kw_only=True):
    """What is read first: the rest may be of another version."""

    format: str
    version: Annotated[int, msgspec.Meta(ge=1, lt=10**6)]


class MessageDocument(Struct, frozen=True, kw_only=True):
    """One message; places are those in the document."""

    role: Role
    text: str
    parent: Place | None = None
    shown: Place | None = None
    state: Ended = "complete"
    note: str = ""
    created_s: Time = 0.0
    attachments: tuple[Attachment, ...] = ()
    statistics: Statistics | None = None
    pair: Pair | None = None
    sampling: SamplingSettings | None = msgspec.field(name="law", default=None)
    system: str | None = None
    prompt: str = ""
    receipt: StoredReceipt | None = None
    rounds: tuple[RoundDone, ...] = ()


class Document(Struct, frozen=True, kw_only=True):
    """A conversation, messages in the order of their ids."""

    messages: tuple[MessageDocument, ...]
    title: str = ""
    created_s: Time = 0.0
    updated_s: Time = 0.0
    settings: ChatSettings = ChatSettings()
    shown: Place | None = None


def read_document(text: str) -> Document:
    """Returns what `text` says, its types checked; `import_checks.fault_of` checks the rest. Raises StoreError."""
    if len(text) > MOST_CHARACTERS:
        raise StoreError(f"this file is too large to be a conversation ({len(text):,} characters); choose another")
    try:
        head = msgspec.json.decode(text, type=DocumentHeader)
    except (msgspec.DecodeError, UnicodeEncodeError, RecursionError):
        head = None
    if head is None or head.format != FORMAT:
        raise StoreError("this is not a conversation exported by Redline; choose another file")
    if head.version > VERSION:
        raise StoreError(f"this conversation was exported by a newer Redline (version {head.version}); update Redline")
    try:
        return msgspec.json.decode(text, type=Document)
    except (msgspec.DecodeError, UnicodeEncodeError, RecursionError) as error:
        raise refused(str(error)) from error


def refused(why: str) -> StoreError:
    """Returns the error for a document of ours that is not sound."""
    return StoreError(f"this conversation cannot be imported: {' '.join(why.split())}; nothing was changed")


class ExportedMessage(NamedTuple):
    """A message to export. shown: the id of its child on its branch. rounds: none where they are damaged."""

    record: MessageRecord
    shown: int | None
    rounds: list[RoundDone]


def to_document(conversation: ConversationRecord, messages: Sequence[ExportedMessage], shown: int | None) -> str:
    """Returns the JSON of a conversation whose current branch begins at the message `shown`."""
    places = {message.record.id: place for place, message in enumerate(messages)}
    document = {
        "format": FORMAT,
        "version": VERSION,
        "title": conversation.title,
        "created_s": conversation.created_s,
        "updated_s": conversation.updated_s,
        "settings": conversation.settings,
        "shown": places.get(shown) if shown else None,
        "messages": [_exported(message, places) for message in messages],
    }
    return msgspec.json.encode(document).decode()


def _exported(message: ExportedMessage, places: dict[int, int]) -> dict[str, Any]:
    record = message.record
    streams = record.state == "streaming"
    fields = ("role", "text", "created_s", "attachments", "statistics", "pair", "system", "prompt")
    return {
        **{name: getattr(record, name) for name in fields},
        "law": record.sampling,
        "parent": None if record.parent is None else places.get(record.parent),
        "shown": None if message.shown is None else places.get(message.shown),
        "state": "cut" if streams else record.state,
        "note": CUT_NOTE if streams else record.note,
        "receipt": record.receipt if message.rounds else None,  # it is of the rounds
        "rounds": [{**msgspec.to_builtins(one), "origins": _origins_of(one.round)} for one in message.rounds],
    }


_origins: dict[tuple[int, int, bool], tuple[Origin, ...]] = {}


def _origins_of(round_: Round) -> tuple[Origin, ...]:
    """Computed once for all rounds that are alike: there are tens of thousands in a long conversation."""
    kind = (len(round_.tokens), round_.accepted, round_.refused)
    if kind not in _origins:
        _origins[kind] = round_.origins
    return _origins[kind]


def insert(database: Database, tree: MessageTree, document: Document) -> tuple[int, list[int]]:
    """Adds a checked document; within a change. Returns the ids of its conversation and messages."""
    conversation = database.run(
        "INSERT INTO conversation (title, pinned, created_s, updated_s, settings) VALUES (?, 0, ?, ?, ?)",
        *(document.title, document.created_s, document.updated_s, to_json(document.settings)),
    )
    ids: list[int] = []
    for message in document.messages:
        parent = None if message.parent is None else ids[message.parent]
        ids.append(_insert_message(database, conversation, parent, message))
    # The branches that the document shows; the newest version where it does not say.
    shown: dict[int | None, int] = {message.parent: place for place, message in enumerate(document.messages)}
    stated = [(None, document.shown), *((place, message.shown) for place, message in enumerate(document.messages))]
    shown |= {parent: child for parent, child in stated if child is not None}
    for above, child in shown.items():
        tree.show(conversation, None if above is None else ids[above], ids[child])
    return conversation, ids


def _insert_message(database: Database, conversation: int, parent: int | None, message: MessageDocument) -> int:
    spoken = text_of(message.rounds)
    receipt = message.receipt and msgspec.structs.replace(message.receipt, elsewhere=True)  # nobody here checked it
    values = {
        "conversation": conversation,
        "parent": parent,
        "role": message.role,
        "state": message.state,
        "created_s": message.created_s,
        "note": message.note,
        "tail": message.text[len(spoken) :] if spoken else "",
        "text": spoken or message.text,
        "system": message.system,
        "prompt": message.prompt or None,
        "attachments": to_json(message.attachments or None),
        "statistics": to_json(message.statistics),
        "pair": to_json(message.pair),
        "law": to_json(message.sampling),
        "receipt": to_json(receipt),
    }
    places = ", ".join("?" * len(values))
    added = database.run(f"INSERT INTO message ({', '.join(values)}) VALUES ({places})", *values.values())
    if message.rounds:
        chunks = [pack(list(message.rounds[at : at + _CHUNK])) for at in range(0, len(message.rounds), _CHUNK)]
        database.run("INSERT INTO spans VALUES (?, ?)", added, join_chunks(None, chunks))
    return added
