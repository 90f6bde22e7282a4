"""A conversation as a document: as Markdown for people, as JSON out and in, the whole tree with rounds and statistics.

    {"format": "redline conversation", "version": 1, "title", "created_s", "updated_s", "settings", "shown",
     "messages": [{"parent", "shown", "role", "text", "state", "note", "created_s", "attachments",
                   "statistics", "pair", "sampling", "system", "prompt", "receipt", "thought", "trim",
                   "rounds": [{"type": "Told", "id", "round", "drafted_texts", "origins"}]}]}

A message refers to others by their places in `messages`; its parent always comes before it, and versions stand in their
order. `shown` is the child (of the document: the root) on the current branch. `text` is the texts of the rounds and
whatever was held back at the end, without the `thought`, what the model thought before it answered. `receipt` is what a
check of the reply found (`engine.audit.receipt`); `redline verify --write` puts it there. `origins` (accepted,
corrected, bonus: one for each token) is for readers; it follows from the rest and is not read back. Unknown fields are
ignored.

What is read is checked beyond its types, so that a window that shows it may rely on all of it. The machines that
shared a target are written, and never read: a document from elsewhere must not choose whom this computer connects to.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Annotated, Any

import msgspec
from msgspec.structs import replace

from app.markdown_blocks import details_block
from app.protocol import Pair, RoundDone, SamplingSettings, Struct
from app.reply_statistics import thought_in_words
from app.store.database import Database, StoreError
from app.store.message_rows import BODY, clean_title, columns_of, to_json
from app.store.records import (
    CUT_NOTE,
    ENDED_EARLY,
    ChatSettings,
    ConversationRecord,
    MessageBody,
    MessageRecord,
    StoredReceipt,
    Time,
    trim_in_words,
)
from app.store.round_encoding import fault_of_round, in_range, pack, text_of
from engine.audit.receipt import MARGIN, Difference

_BATCH = 256  # rounds
_LONGEST_NAME = 1000  # characters of a token, or of a version
FORMAT = "redline conversation"
VERSION = 1
MOST_CHARACTERS = 256 * 1024 * 1024
MOST_MESSAGES = 100_000
UNREADABLE = (msgspec.DecodeError, UnicodeError, RecursionError)  # what msgspec raises for a document from elsewhere

Place = Annotated[int, msgspec.Meta(ge=0, lt=MOST_MESSAGES)]


def to_markdown(title: str, path: Sequence[MessageRecord]) -> str:
    """Returns a branch as Markdown: headings say who speaks, attachments are fenced, notes in italics."""
    parts = [f"# {title or 'Conversation'}"]
    for record in path:
        if record.trim is not None:
            parts.append("\n\n".join(["---", f"*{trim_in_words(record.trim)}*", record.trim.summary]).strip())
        parts.append("## You" if record.role == "user" else "## Reply")
        if record.thought.strip():
            parts.append(details_block(thought_in_words(record.statistics), record.thought.strip()))
        parts.append(record.content.strip() or "*(empty)*")
        if record.state in ENDED_EARLY:
            parts.append(f"*{' '.join(f'{ENDED_EARLY[record.state]}. {record.note}'.split())}*")
    return "\n\n".join(parts) + "\n"


# --- JSON out ---------------------------------------------------------------------------------


def to_document(
    conversation: ConversationRecord,
    messages: Sequence[MessageRecord],
    shown: Mapping[int | None, int | None],
    rounds: Mapping[int, Sequence[RoundDone]],
) -> str:
    """Returns the JSON of a conversation. shown: the child of each message on its branch, of None the root. rounds: of
    each message, but for those that are damaged."""
    places = {message.id: place for place, message in enumerate(messages)}
    document: dict[str, Any] = {
        "format": FORMAT,
        "version": VERSION,
        **{name: getattr(conversation, name) for name in ("title", "created_s", "updated_s", "settings")},
        "shown": places.get(shown[None] or 0),
        "messages": [],
    }
    for message in messages:
        place = {"parent": places.get(message.parent or 0), "shown": places.get(shown[message.id] or 0)}
        document["messages"].append({**place, **_exported(message, rounds.get(message.id, ()))})
    return msgspec.json.encode(document).decode()


def _exported(message: MessageRecord, rounds: Sequence[RoundDone]) -> dict[str, Any]:
    document = {
        **{name: getattr(message, name) for name in BODY},
        "rounds": [{**msgspec.to_builtins(one), "origins": one.round.origins} for one in rounds],
    }
    if message.state == "streaming":
        document |= {"state": "cut", "note": CUT_NOTE}
    if not rounds:
        document["receipt"] = None  # a receipt is about the rounds
    return document


# --- JSON in ----------------------------------------------------------------------------------


class DocumentHeader(Struct, frozen=True, kw_only=True):
    """What is read first: the rest may belong to another version."""

    format: str
    version: Annotated[int, msgspec.Meta(ge=1, lt=10**6)]


class MessageDocument(MessageBody, frozen=True, kw_only=True):
    """One message; places are those in the document."""

    parent: Place | None = None
    shown: Place | None = None
    rounds: tuple[RoundDone, ...] = ()


class Document(Struct, frozen=True, kw_only=True):
    """A conversation, messages in the order of their ids."""

    messages: tuple[MessageDocument, ...]
    title: str = ""
    created_s: Time = 0.0
    updated_s: Time = 0.0
    settings: ChatSettings = ChatSettings()
    shown: Place | None = None


def read_header(data: str | bytes) -> DocumentHeader | None:
    """Returns what a document of Redline says of itself; None where it is of another program."""
    try:
        return msgspec.json.decode(data, type=DocumentHeader)
    except UNREADABLE:
        return None


def read_document(text: str) -> Document:
    """Returns what `text` says, checked. Raises StoreError: what is wrong with it, in a line."""
    if len(text) > MOST_CHARACTERS:
        raise StoreError(f"this file is too large to be a conversation ({len(text):,} characters); choose another")
    head = read_header(text)
    if head is None or head.format != FORMAT:
        raise StoreError("this is not a conversation exported by Redline; choose another file")
    if head.version > VERSION:
        raise StoreError(f"this conversation was exported by a newer Redline (version {head.version}); update Redline")
    try:
        document = msgspec.json.decode(text, type=Document)
        fault = _fault_of(document)
    except UNREADABLE as error:
        fault = " ".join(str(error).split())
    if fault:
        raise StoreError(f"this conversation cannot be imported: {fault}; nothing was changed")
    return _without_hosts(document)


def _without_hosts(document: Document) -> Document:
    """Returns a document without hosts: only the user chooses which machines this computer connects to."""
    messages = tuple(
        message if message.pair is None else replace(message, pair=replace(message.pair, hosts=""))
        for message in document.messages
    )
    settings = replace(document.settings, pair=replace(document.settings.pair, hosts=""))
    return replace(document, settings=settings, messages=messages)


def insert(
    database: Database, document: Document, show: Callable[[int, int | None, int], None], deleted_s: float
) -> int:
    """Adds a document as a conversation that was deleted at `deleted_s`, within a change. show: makes a child, its last
    argument, the one shown below a message. Returns the id of the conversation."""
    values = {"title": document.title, "created_s": document.created_s, "updated_s": document.updated_s}
    more = {"pinned": 0, "settings": to_json(document.settings), "deleted_s": deleted_s}
    conversation = database.insert("conversation", {**values, **more})
    ids: list[int] = []
    for message in document.messages:
        parent = None if message.parent is None else ids[message.parent]
        ids.append(_insert_message(database, conversation, parent, message))
    # The branches that the document shows; the newest version where it does not say.
    shown: dict[int | None, int] = {message.parent: place for place, message in enumerate(document.messages)}
    stated = [(None, document.shown), *((place, message.shown) for place, message in enumerate(document.messages))]
    shown |= {parent: child for parent, child in stated if child is not None}
    for above, child in shown.items():
        show(conversation, None if above is None else ids[above], ids[child])
    return conversation


def _insert_message(database: Database, conversation: int, parent: int | None, message: MessageDocument) -> int:
    spoken = text_of(message.rounds)
    receipt = message.receipt and replace(message.receipt, elsewhere=True)  # nobody here checked it
    text = {"text": spoken or message.text, "tail": message.text[len(spoken) :] if spoken else ""}
    columns = {**columns_of(message), **text, "receipt": to_json(receipt)}
    added = database.insert("message", {"conversation": conversation, "parent": parent, **columns})
    for number, at in enumerate(range(0, len(message.rounds), _BATCH)):
        database.run("INSERT INTO rounds VALUES (?, ?, ?)", added, number, pack([*message.rounds[at : at + _BATCH]]))
    return added


# --- checks: each returns what is wrong, or "" ------------------------------------------------


def _fault_of(document: Document) -> str:
    messages = document.messages
    if len(messages) > MOST_MESSAGES:
        return f"it has {len(messages):,} messages, but at most {MOST_MESSAGES:,} can be read"
    if clean_title(document.title) != document.title:
        return "its title is not one short line"
    if document.shown is not None and not _is_child(messages, document.shown, None):
        return f"it shows message {document.shown}, which is not its first"
    if fault := _fault_of_pair(document.settings.pair) or fault_of_sampling(document.settings.sampling):
        return f"it {fault}"
    for place, message in enumerate(messages):
        if fault := _fault_of_place(messages, place) or _fault_of_making(message) or _fault_of_rounds(message):
            return f"message {place} {fault}"
    return ""


def _is_child(messages: Sequence[MessageDocument], place: int, parent: int | None) -> bool:
    return place < len(messages) and messages[place].parent == parent


def _fault_of_place(messages: Sequence[MessageDocument], place: int) -> str:
    message = messages[place]
    if message.parent is not None and message.parent >= place:
        return f"follows message {message.parent}, which does not come before it"
    if message.shown is not None and not _is_child(messages, message.shown, place):
        return f"shows message {message.shown}, which does not follow it"
    if message.state == "streaming":
        return "has not ended"
    if message.role == "assistant" and (message.parent is None or messages[message.parent].role == "assistant"):
        return "is a reply without a question"
    if message.role == "assistant" and message.trim is not None:
        return "is a reply with a trim, which only a question can have"
    return ""


def _fault_of_making(message: MessageDocument) -> str:
    fault = (message.pair and _fault_of_pair(message.pair)) or (
        message.sampling and fault_of_sampling(message.sampling)
    )
    if fault:
        return fault
    if message.statistics and not in_range(message.statistics):
        return "has impossible statistics"
    return "has an impossible receipt" if message.receipt and not _is_receipt(message, message.receipt) else ""


def _fault_of_pair(pair: Pair) -> str:
    return "" if pair.context != 0 and in_range(pair) else "has an impossible context"


def fault_of_sampling(sampling: SamplingSettings) -> str:
    """Checks sampling settings that come from elsewhere."""
    problems = sampling.problems(tree=True)
    return f"has impossible settings ({', '.join(problems)})" if problems else ""


def _is_receipt(message: MessageDocument, kept: StoredReceipt) -> bool:
    """Returns whether a check of this reply could have made this receipt, even if it is false."""
    receipt = kept.receipt
    tokens = sum(len(one.round.tokens) for one in message.rounds)
    positions = [one.position for one in receipt.differences]
    return (
        message.role == "assistant"
        and 0 < receipt.tokens <= tokens
        and in_range(kept)
        and len(kept.redline) < _LONGEST_NAME
        and positions == sorted(set(positions))
        and all(one.position <= receipt.tokens and _is_difference(one) for one in receipt.differences)
    )


def _is_difference(one: Difference) -> bool:
    gap, noise = one.gap_ulps, one.noise_ulps
    return (
        in_range(one)
        and one.plain_token != one.other_token
        and all(len(text) < _LONGEST_NAME for text in (one.plain_text, one.other_text))
        and all(size is None or math.isfinite(size) for size in (gap, noise))
        and (not one.near_tie or (gap is not None and noise is not None and abs(gap) <= MARGIN * noise))
    )


def _fault_of_rounds(message: MessageDocument) -> str:
    if message.rounds and message.role == "user":
        return "is a question and has rounds"
    for number, one in enumerate(message.rounds):
        if fault := fault_of_round(one):
            return f"has a round {number} {fault}"
    if message.rounds and message.thought != text_of(message.rounds, "thought"):
        return "has a thought that does not match its rounds"
    return "" if message.text.startswith(text_of(message.rounds)) else "does not begin with the texts of its rounds"
