"""The store: every conversation in one SQLite file, under verbs that the window uses.

Use it from the thread that opened it, the window's own; SQLite refuses any other. Every change is on disk when its verb
returns. Errors are StoreError, one line each, and leave what was there unchanged.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

import msgspec
from platformdirs import user_data_path

from app.protocol import Law, Pair, Told
from app.records import (
    Attachment,
    ChatSettings,
    ConversationRecord,
    Ending,
    Hit,
    KeptReceipt,
    MessageRecord,
)
from app.store.conversations import UNDO_S, Conversations, Kept
from app.store.errors import StoreError
from app.store.exchange import Exchange, to_markdown
from app.store.index import Index
from app.store.messages import Messages
from app.store.opening import Ready, open_database
from app.store.replies import Replies
from app.store.search import Search

TIDY_AT_START_S = 0.02


def store_path() -> Path:
    """Where conversations are kept unless told otherwise: on macOS ~/Library/Application Support/Redline."""
    return user_data_path("Redline", appauthor=False) / "conversations.sqlite"


class Opened(NamedTuple):
    """notices: for the user, one line each: what was damaged, saved, or can only be read."""

    store: Store
    notices: list[str]


class Store:
    """Made by `open`. Methods that take an id raise StoreError where there is none such."""

    def __init__(self, ready: Ready) -> None:
        self._database = ready.database
        self._writable = ready.writable
        self._index = Index(ready.database, ready.writable)
        self._search = Search(ready.database, self._index)
        self._conversations = Conversations(ready.database, self._index)
        self._kept = Kept(ready.database)
        self._messages = Messages(ready.database, self._index)
        self._replies = Replies(ready.database, self._messages, self._index)
        self._exchange = Exchange(ready.database, self._conversations, self._messages, self._replies, self._index)
        self._owner = ready.owner
        self._closed = False

    @classmethod
    def open(cls, path: Path) -> Opened:
        """The store at `path`, made if there is none. Replies that were cut are marked, old deletions purged.

        Raises StoreError: it cannot be read at all, belongs to another program or to a newer Redline.
        """
        ready = open_database(path)
        try:
            store = cls(ready)
            if ready.owner:
                store._replies.settle_cut()
                store._conversations.purge(UNDO_S)
                store.tidy(TIDY_AT_START_S)
            if not ready.writable:
                ready.database.rows("PRAGMA query_only = ON")
        except BaseException:
            ready.database.close()
            raise
        return Opened(store, ready.notices)

    @property
    def writable(self) -> bool:
        """Whether anything can be kept."""
        return self._writable

    def close(self) -> None:
        """Deletions cannot be undone any more. The store is of no use after this; closing twice is nothing."""
        if self._owner and self._writable and not self._closed:
            with suppress(StoreError):  # the next start purges what could not be purged now
                self.purge()
        self._closed = True
        self._database.close()

    # --- conversations ------------------------------------------------------------------------

    def conversations(self) -> list[ConversationRecord]:
        """Pinned ones first, then by their last change."""
        return self._conversations.all()

    def conversation(self, conversation: int) -> ConversationRecord:
        return self._conversations.get(conversation)

    def create(self, settings: ChatSettings) -> ConversationRecord:
        return self._conversations.create(settings)

    def rename(self, conversation: int, title: str) -> None:
        """The title becomes one line of at most 200 characters."""
        self._conversations.rename(conversation, title)

    def pin(self, conversation: int, pinned: bool) -> None:
        self._conversations.pin(conversation, pinned)

    def change_settings(self, conversation: int, settings: ChatSettings) -> None:
        self._conversations.change_settings(conversation, settings)

    def delete(self, conversation: int) -> None:
        """Out of sight, until `undelete` or `purge`."""
        self._conversations.delete(conversation)

    def undelete(self, conversation: int) -> None:
        """Raises StoreError: it was purged."""
        self._conversations.undelete(conversation)

    def purge(self) -> int:
        """Remove all that was deleted, for good; how many conversations. Takes 0.3 s where there are 10,000 messages:
        `close` does it, and the next start."""
        return self._conversations.purge()

    def search(self, text: str, limit: int = 50) -> list[Hit]:
        """Titles first, then messages, newest first; every word of `text` is in each, or "words in quotes" in a row.
        Places in snippets are of Python's characters, not of Qt's UTF-16."""
        return self._search.search(text, limit)

    # --- messages -----------------------------------------------------------------------------

    def path(self, conversation: int) -> list[MessageRecord]:
        """What is on screen. The text of a reply that streams is there as far as it has been told."""
        return [self._so_far(record) for record in self._messages.path(conversation)]

    def message(self, message: int) -> MessageRecord:
        return self._so_far(self._messages.get(message))

    def _so_far(self, record: MessageRecord) -> MessageRecord:
        if record.state != "streaming":
            return record
        return msgspec.structs.replace(record, text=self._replies.text_so_far(record))

    def add_question(
        self, conversation: int, parent: int | None, text: str, attachments: Sequence[Attachment] = ()
    ) -> MessageRecord:
        """Behind `parent`, None for the first; where that has a child already this is another version, and shown."""
        return self._messages.add_question(conversation, parent, text, attachments)

    def begin_reply(
        self, conversation: int, parent: int, pair: Pair, law: Law, system: str | None = None
    ) -> MessageRecord:
        """An empty reply to the question `parent`, streaming; where that has one already this is another version."""
        return self._replies.begin(conversation, parent, pair, law, system)

    def resume_reply(self, message: int) -> MessageRecord:
        """A reply that ended streams again: its rounds stay, its note and its tail go."""
        return self._replies.resume(message)

    def append(self, message: int, told: list[Told]) -> None:
        """Rounds of a reply that was begun here. Raises StoreError: they are kept, and go with the next append."""
        self._replies.append(message, told)

    def end_reply(self, message: int, ending: Ending) -> MessageRecord:
        """Raises StoreError: the reply still streams, and can be ended again."""
        return self._replies.end(message, ending)

    def keep_receipt(self, message: int, receipt: KeptReceipt) -> MessageRecord:
        """With a reply, in place of an older one."""
        return self._replies.keep_receipt(message, receipt)

    def told(self, message: int) -> list[Told]:
        """All rounds of a reply; none of a question. Raises StoreError: they are damaged."""
        return self._replies.told(message)

    def select(self, message: int) -> None:
        """Show this version, with the way that leads to it and the one that was shown behind it."""
        self._messages.select(message)

    # --- presets, values, exchange ------------------------------------------------------------

    def presets(self) -> dict[str, ChatSettings]:
        return self._kept.presets()

    def save_preset(self, name: str, settings: ChatSettings) -> None:
        self._kept.save_preset(name, settings)

    def delete_preset(self, name: str) -> None:
        self._kept.delete_preset(name)

    def value(self, key: str) -> str | None:
        """What the app keeps under `key`."""
        return self._kept.value(key)

    def set_value(self, key: str, value: str) -> None:
        self._kept.set_value(key, value)

    def export_markdown(self, conversation: int, statistics: bool = False) -> str:
        """The way shown. statistics: a line under each reply."""
        return to_markdown(self.conversation(conversation).title, self.path(conversation), statistics)

    def export_json(self, conversation: int) -> str:
        """The whole tree with its rounds; see `app.store.document`."""
        return self._exchange.to_json(conversation)

    def import_json(self, text: str) -> ConversationRecord:
        """A new conversation, equal to the one that was exported. Raises StoreError: why not, in a line."""
        return self._exchange.from_json(text)

    def tidy(self, seconds: float = 0.01) -> bool:
        """Index what waits to be, for about so long; whether there is more. For idle moments: search finds what waits
        too, only slower."""
        return self._index.tidy(seconds)
