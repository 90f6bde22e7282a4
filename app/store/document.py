"""A conversation as a JSON document: the whole tree, with rounds and statistics.

    {"format": "redline conversation", "version": 1, "title", "created_s", "updated_s", "settings", "shown",
     "messages": [{"parent", "shown", "role", "text", "state", "note", "created_s", "attachments",
                   "statistics", "pair", "law", "system", "prompt", "receipt",
                   "rounds": [{"type": "Told", "id", "round", "drafted_texts", "origins"}]}]}

A message refers to others by their places in `messages`, its parent always comes before it, and versions stand in their
order. `shown` is the child (of the document: the root) on the way shown. `text` is the texts of the rounds and whatever
was held back at the end. `receipt` is what a check of the reply said (`engine.receipt`, `app.records.KeptReceipt`);
`redline verify --write` puts it there. `origins` (accepted, corrected, bonus: one for each token) is for readers; it
follows from the rest and is not read back. Unknown fields are ignored.
"""

from __future__ import annotations

from typing import Annotated, Literal

import msgspec

from app.protocol import Law, Pair, Struct, Told
from app.records import Attachment, ChatSettings, KeptReceipt, Role, Statistics
from app.store.errors import StoreError

FORMAT = "redline conversation"
VERSION = 1
MOST_CHARACTERS = 256 * 1024 * 1024
MOST_MESSAGES = 100_000

Time = Annotated[float, msgspec.Meta(ge=0, lt=253402300800)]  # to the year 9999
Place = Annotated[int, msgspec.Meta(ge=0, lt=MOST_MESSAGES)]
Ended = Literal["complete", "stopped", "cut", "failed"]


class Head(Struct, frozen=True, kw_only=True):
    """Read first: the rest may be of another version."""

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
    law: Law | None = None
    system: str | None = None
    prompt: str = ""
    receipt: KeptReceipt | None = None
    rounds: tuple[Told, ...] = ()


class Document(Struct, frozen=True, kw_only=True):
    """A conversation, messages in the order of their ids."""

    messages: tuple[MessageDocument, ...]
    title: str = ""
    created_s: Time = 0.0
    updated_s: Time = 0.0
    settings: ChatSettings = ChatSettings()
    shown: Place | None = None


def read_document(text: str) -> Document:
    """What the types tell of it; `faults.fault_of` tells the rest. Raises StoreError: what is wrong, in a line."""
    if len(text) > MOST_CHARACTERS:
        raise StoreError(f"this file is too large to be a conversation ({len(text):,} characters); choose another")
    try:
        head = msgspec.json.decode(text, type=Head)
    except (msgspec.DecodeError, UnicodeEncodeError, RecursionError) as error:
        raise StoreError("this is no conversation exported by Redline; choose another file") from error
    if head.format != FORMAT:
        raise StoreError("this is no conversation exported by Redline; choose another file")
    if head.version > VERSION:
        raise StoreError(f"this conversation was exported by a newer Redline (version {head.version}); update Redline")
    try:
        document = msgspec.json.decode(text, type=Document)
    except (msgspec.DecodeError, UnicodeEncodeError, RecursionError) as error:
        raise refused(str(error)) from error
    return document


def refused(why: str) -> StoreError:
    """Of a document that is one, but not sound."""
    return StoreError(f"this conversation cannot be imported: {' '.join(why.split())}; nothing was changed")
