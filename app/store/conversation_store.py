"""The store: every conversation in one SQLite file, under verbs that the window uses.

Use it from the thread that opened it; SQLite refuses any other. Every change is on disk when its verb returns. Errors
are StoreError, one line each, and leave what was there unchanged; an id that does not exist is one.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from msgspec.structs import replace
from platformdirs import user_data_path

from app.protocol import Pair, RoundDone, SamplingSettings
from app.store import json_export
from app.store.backup import back_up, is_due, purge_backups
from app.store.database import Row, StoreError
from app.store.import_checks import fault_of
from app.store.markdown_export import to_markdown
from app.store.message_tree import MessageTree, clean, clean_title, read_json, searchable, to_json
from app.store.records import (
    Attachment,
    ChatSettings,
    ConversationRecord,
    Ending,
    MessageRecord,
    SearchHit,
    StoredReceipt,
)
from app.store.reply_log import CUT_NOTE, ReplyLog
from app.store.search_index import SearchIndex
from app.store.store_file import SMALL_BYTES, StoreFile, open_store_file

UNDO_S = 600.0  # a deletion this old cannot be undone any more: the next start purges it
TIDY_AT_START_S = 0.02
_CONVERSATION = "SELECT id, title, pinned, created_s, updated_s, settings FROM conversation"


def store_path() -> Path:
    """Returns where conversations are stored by default: on macOS ~/Library/Application Support/Redline."""
    return user_data_path("Redline", appauthor=False) / "conversations.sqlite"


class OpenResult(NamedTuple):
    """notices: for the user, one line each: what was damaged, recovered, or can only be read."""

    store: Store
    notices: list[str]


class Store:
    """Every conversation, with its presets and the app's values. Made by `open`."""

    def __init__(self, file: StoreFile) -> None:
        self._file = file
        self._database = file.database
        self._index = SearchIndex(file.database, file.writable)
        self._tree = MessageTree(file.database)
        self._log = ReplyLog(file.database)
        self._closed = False

    @classmethod
    def open(cls, path: Path) -> OpenResult:
        """Opens the store at `path`, or makes it. Replies that were cut are marked, old deletions purged.

        Raises StoreError where it cannot be read at all, or belongs to another program or a newer Redline.
        """
        file = open_store_file(path)
        try:
            store = cls(file)
            if file.owner:
                store._settle_cut_replies()
                store._purge(UNDO_S)
                store.tidy(TIDY_AT_START_S)
            if file.owner and file.writable and path.stat().st_size <= SMALL_BYTES:  # a larger one when it is closed
                store._back_up()
            if not file.writable:
                file.database.rows("PRAGMA query_only = ON")
        except BaseException:
            file.database.close()
            raise
        return OpenResult(store, file.notices)

    @property
    def writable(self) -> bool:
        """Whether anything can be stored."""
        return self._file.writable

    def close(self) -> None:
        """Ends what could be undone, and closes the file. A second time does nothing."""
        if self._file.owner and self.writable and not self._closed:
            with suppress(StoreError):  # the next start purges what could not be purged now
                self.purge()
                self._back_up()
        self._closed = True
        self._index.close()
        self._database.close()

    def _back_up(self) -> None:
        if is_due(self._database.path) and self.conversations():
            back_up(self._database.connection, self._database.path)

    # --- conversations ------------------------------------------------------------------------

    def conversations(self) -> list[ConversationRecord]:
        """Returns the pinned ones first, then by their last change; deleted ones are left out."""
        order = "ORDER BY pinned DESC, updated_s DESC, id DESC"
        return [
            _conversation_of(row) for row in self._database.rows(f"{_CONVERSATION} WHERE deleted_s IS NULL {order}")
        ]

    def conversation(self, conversation: int) -> ConversationRecord:
        """Returns one conversation, deleted or not."""
        self._database.require("conversation", conversation)
        return _conversation_of(self._database.rows(f"{_CONVERSATION} WHERE id = ?", conversation)[0])

    def create(self, settings: ChatSettings) -> ConversationRecord:
        """Adds an empty conversation."""
        now_s = time.time()
        with self._database.change():
            created = self._database.run(
                "INSERT INTO conversation (title, pinned, created_s, updated_s, settings) VALUES ('', 0, ?, ?, ?)",
                *(now_s, now_s, to_json(settings)),
            )
        return self.conversation(created)

    def rename(self, conversation: int, title: str) -> None:
        """The title becomes one line of at most 200 characters."""
        self._set(conversation, "title", clean_title(title))

    def pin(self, conversation: int, pinned: bool) -> None:
        """Pins a conversation to the top, or lets it go."""
        self._set(conversation, "pinned", int(pinned))

    def change_settings(self, conversation: int, settings: ChatSettings) -> None:
        """Settings of the replies to come."""
        self._set(conversation, "settings", to_json(settings))

    def delete(self, conversation: int) -> None:
        """Hides a conversation until `undelete` or `purge`."""
        self._set(conversation, "deleted_s", time.time())

    def undelete(self, conversation: int) -> None:
        """Brings it back. Raises StoreError where it was purged."""
        self._set(conversation, "deleted_s", None)

    def _set(self, conversation: int, column: str, value: object) -> None:
        self._database.require("conversation", conversation)
        with self._database.change():
            self._database.run(f"UPDATE conversation SET {column} = ? WHERE id = ?", value, conversation)

    def purge(self) -> int:
        """Removes all that was deleted, for good; returns how many conversations. No text of them is left in any file
        of ours. Takes 0.3 s where there are 10,000 messages; `close` does it, and the next start."""
        return self._purge(0.0)

    def _purge(self, older_than_s: float) -> int:
        rows = self._database.rows(
            "SELECT id FROM conversation WHERE deleted_s <= ? AND NOT EXISTS "
            "(SELECT 1 FROM message WHERE conversation = conversation.id AND state = 'streaming')",
            time.time() - older_than_s,
        )
        for (conversation,) in rows:
            messages = self._database.rows("SELECT id FROM message WHERE conversation = ?", conversation)
            with self._database.change():
                self._database.run("DELETE FROM conversation WHERE id = ?", conversation)
            self._index.drop([message for (message,) in messages])
        if rows:
            self._index.forget()
            self._database.rows("PRAGMA wal_checkpoint (TRUNCATE)")  # the log still had the texts
            purge_backups(self._database.path, [conversation for (conversation,) in rows])
        return len(rows)

    def search(self, text: str, limit: int = 50) -> list[SearchHit]:
        """Returns titles first, then messages, newest first; every word of `text` is in each, or "words in quotes" in a
        row. Places in snippets are of Python's characters, not of Qt's UTF-16."""
        return self._index.search(text, limit)

    def tidy(self, seconds: float = 0.01) -> bool:
        """Indexes what waits for it, for about so long; returns whether there is more. For idle moments: search finds
        the rest too, only slower."""
        return self._index.tidy(seconds)

    # --- messages -----------------------------------------------------------------------------

    def path(self, conversation: int) -> list[MessageRecord]:
        """Returns the current branch. A reply that streams has its text so far."""
        return [self._with_text(record) for record in self._tree.path(conversation)]

    def message(self, message: int) -> MessageRecord:
        """Returns one message, on whichever branch."""
        return self._with_text(self._tree.get(message))

    def _with_text(self, record: MessageRecord) -> MessageRecord:
        return replace(record, text=self._log.text_of(record)) if record.state == "streaming" else record

    def select(self, message: int) -> None:
        """Shows this version, with the branch that leads to it and the one that was shown behind it."""
        self._tree.select(message)

    def add_question(
        self, conversation: int, parent: int | None, text: str, attachments: Sequence[Attachment] = ()
    ) -> MessageRecord:
        """Adds a question behind `parent`, None for the first; where that has a child already, another version."""
        files = [Attachment(name=clean(file.name), text=clean(file.text)) for file in attachments]
        with self._database.change():
            added = self._tree.insert(conversation, parent, "user", "complete", text)
            self._database.run("UPDATE message SET attachments = ? WHERE id = ?", to_json(files or None), added)
        self._index.put(added, searchable(clean(text), files))
        return self._tree.get(added)

    # --- replies: begin or resume one, append its rounds in batches, end it ---------------------

    def begin_reply(
        self, conversation: int, parent: int, pair: Pair, sampling: SamplingSettings, system: str | None = None
    ) -> MessageRecord:
        """Adds an empty reply to the question `parent`, streaming; where that has one already, another version."""
        with self._database.change():
            added = self._tree.insert(conversation, parent, "assistant", "streaming", "")
            self._database.run(
                "UPDATE message SET pair = ?, law = ?, system = ? WHERE id = ?",
                *(to_json(pair), to_json(sampling), None if system is None else clean(system), added),
            )
        self._log.start(added)
        return self._tree.get(added)

    def resume_reply(self, message: int) -> MessageRecord:
        """Continues a reply that has ended: its rounds stay, its note and its tail go."""
        before = self._tree.get(message)
        if before.role != "assistant" or before.state == "streaming":
            raise StoreError("only a reply that has ended can be continued; stop it first")
        with self._database.change():
            self._database.run("UPDATE message SET state = 'streaming', note = '', tail = '' WHERE id = ?", message)
        self._index.drop([message])
        self._log.start(message)
        return self._tree.get(message)

    def append(self, message: int, rounds: list[RoundDone]) -> None:
        """Writes rounds of a reply that streams here. Raises StoreError where that fails: the rounds are kept, and go
        with the next append, which may be of none, or with the end. They are never handed over twice."""
        self._log.append(message, rounds)

    def end_reply(self, message: int, ending: Ending) -> MessageRecord:
        """Ends a reply. Raises StoreError where that fails: it still streams, and can be ended again."""
        with self._database.change():
            self._log.write_rest(message)
            text = self._log.settle(message, ending.state, ending.note, ending.tail)
            self._database.run(
                "UPDATE message SET statistics = coalesce(?, statistics), law = coalesce(?, law), "
                "prompt = coalesce(prompt, ?) WHERE id = ?",
                *(to_json(ending.statistics), to_json(ending.sampling), clean(ending.prompt) or None, message),
            )
        self._log.stop(message)
        self._index.put(message, text)
        return self._tree.get(message)

    def _settle_cut_replies(self) -> None:
        """Marks replies that nobody streams any more as cut."""
        for (message,) in self._database.rows("SELECT id FROM message WHERE state = 'streaming'"):
            with self._database.change():
                text = self._log.settle(message, "cut", CUT_NOTE)
            self._index.put(message, text)

    def rounds(self, message: int) -> list[RoundDone]:
        """Returns the rounds of a reply so far; none of a question. Raises StoreError where they are damaged."""
        return self._log.rounds(message)

    def save_receipt(self, message: int, receipt: StoredReceipt) -> MessageRecord:
        """Stores the receipt of a reply, in place of an older one."""
        if self._tree.get(message).role != "assistant":
            raise StoreError("only a reply can be verified; choose one")
        with self._database.change():
            self._database.run("UPDATE message SET receipt = ? WHERE id = ?", to_json(receipt), message)
        return self._tree.get(message)

    # --- presets, values, files ----------------------------------------------------------------

    def presets(self) -> dict[str, ChatSettings]:
        """Returns them in the order of their names; one that cannot be read is left out."""
        rows = self._database.rows("SELECT name, settings FROM preset ORDER BY name COLLATE NOCASE, name")
        read = {name: read_json(settings, ChatSettings) for name, settings in rows}
        return {name: settings for name, settings in read.items() if settings is not None}

    def save_preset(self, name: str, settings: ChatSettings) -> None:
        """Replaces a preset of this name. Raises StoreError where there is no name."""
        if not (name := clean_title(name)):
            raise StoreError("a preset needs a name; type one")
        with self._database.change():
            self._database.run("INSERT OR REPLACE INTO preset VALUES (?, ?)", name, to_json(settings))

    def delete_preset(self, name: str) -> None:
        """Does nothing where there is none of this name."""
        with self._database.change():
            self._database.run("DELETE FROM preset WHERE name = ?", name)

    def value(self, key: str) -> str | None:
        """Returns what the app stored under `key`."""
        row = self._database.row("SELECT value FROM value WHERE key = ?", key)
        return None if row is None else str(row[0])

    def set_value(self, key: str, value: str) -> None:
        """Stores a string of the app's."""
        with self._database.change():
            self._database.run("INSERT OR REPLACE INTO value VALUES (?, ?)", key, clean(value))

    def export_markdown(self, conversation: int, statistics: bool = False) -> str:
        """Returns the current branch for people. statistics: a line under each reply."""
        return to_markdown(self.conversation(conversation).title, self.path(conversation), statistics)

    def export_json(self, conversation: int) -> str:
        """Returns the whole tree with its rounds; see `app.store.json_export`."""
        record = self.conversation(conversation)
        rows = self._database.rows("SELECT id, shown FROM message WHERE conversation = ? ORDER BY id", conversation)
        ((shown,),) = self._database.rows("SELECT shown FROM conversation WHERE id = ?", conversation)
        exported: list[json_export.ExportedMessage] = []
        for id, child in rows:
            try:
                rounds = self._log.rounds(id)
            except StoreError:
                rounds = []
            exported.append(json_export.ExportedMessage(self.message(id), child, rounds))
        return json_export.to_document(record, exported, shown)

    def import_json(self, text: str) -> ConversationRecord:
        """Adds a conversation equal to the one that was exported. Raises StoreError: why not, in a line."""
        document = json_export.read_document(text)
        if fault := fault_of(document):
            raise json_export.refused(fault)
        with self._database.change():
            conversation, messages = json_export.insert(self._database, self._tree, document)
        self._index.put_later(messages)
        return self.conversation(conversation)


def _conversation_of(row: Row) -> ConversationRecord:
    id, title, pinned, created_s, updated_s, settings = row
    return ConversationRecord(
        id=id,
        title=title,
        pinned=bool(pinned),
        created_s=created_s,
        updated_s=updated_s,
        settings=read_json(settings, ChatSettings) or ChatSettings(),
    )
