"""The store: every conversation in one SQLite file, under verbs that the window uses.

Use it from the thread that opened it; SQLite refuses any other. Every change is on disk when its verb returns, or its
future has a result. Errors, among them an unknown id, are StoreError, one line each, and change nothing.

While a reply streams, its rounds alone are written: a text that grows would be written whole each time. The end of the
reply writes its text, and the next start does where there was none.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

from msgspec.structs import replace
from platformdirs import user_data_path

from app.protocol import Pair, RoundDone, SamplingSettings
from app.store import json_export
from app.store.database import DamageError, Database, Row, StoreError, lacks_room
from app.store.foreign_exports import read_documents
from app.store.message_rows import (
    ANCESTORS,
    BRANCH,
    MESSAGE,
    MOVE_BRANCH,
    clean,
    clean_title,
    message_of,
    read_json,
    to_json,
)
from app.store.message_search import folded_texts, make_searchable, search
from app.store.records import (
    CUT_NOTE,
    EDITED,
    Attachment,
    ChatSettings,
    ContextTrim,
    ConversationRecord,
    Ending,
    MessageRecord,
    Role,
    SearchHit,
    Statistics,
    StoredReceipt,
)
from app.store.round_encoding import pack, text_of, unpack
from app.store.store_file import back_up, open_store_file, open_without_room, purge_backups
from engine.metrics import Metrics

EARLIEST_S = 1e9  # 2001: no correct clock shows an earlier time
APPENDS = 500  # after which the log is emptied into the file: about 4 MB
AT_ONCE = 500  # messages that are made searchable in one change
UNDO_S = 600.0  # a deletion this old cannot be undone any more: the next start purges it
_CONVERSATION = "SELECT id, title, pinned, created_s, updated_s, settings FROM conversation"


def store_path() -> Path:
    """Returns where conversations are stored by default: on macOS ~/Library/Application Support/Redline."""
    return user_data_path("Redline", appauthor=False) / "conversations.sqlite"


Latest = Callable[[MessageRecord], MessageRecord]
Held = Callable[[int], Sequence[RoundDone]]


def _as_stored(message: MessageRecord) -> MessageRecord:
    return message


@dataclass
class _Streaming:
    """What was written of a reply since it began or was continued, in parts."""

    answer: list[str] = field(default_factory=list)
    thought: list[str] = field(default_factory=list)


class OpenResult(NamedTuple):
    """notices: for the user, one line each: what was damaged, recovered, or can only be read."""

    store: Store
    notices: list[str]


class Store:
    """Every conversation, with its presets and the app's values. Made by `open`."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._streaming: dict[int, _Streaming] = {}  # the replies that this process writes
        self._appends = 0  # since the log was emptied
        self._closed = False

    @classmethod
    def open(cls, path: Path) -> OpenResult:
        """Opens the store at `path`, or makes it. Marks replies that were cut, and purges old deletions.

        Raises StoreError if it cannot be read at all, or belongs to another program or a newer Redline.
        """
        database, notices = open_store_file(path)
        try:
            return OpenResult(cls._begun(database), notices)
        except StoreError as error:
            if not lacks_room(error.__cause__):
                raise
        database, notices = open_without_room(path)
        return OpenResult(cls._begun(database), notices)

    @classmethod
    def _begun(cls, database: Database) -> Store:
        """Returns the store of a database, after what every start has to do; closes it where that fails."""
        store = cls(database)
        try:
            if database.owner:
                store._mark_cut_replies()
                store.purge(UNDO_S)
                store._back_up()
            if not database.writable:
                database.rows("PRAGMA query_only = ON")
        except BaseException:
            database.close()
            raise
        return store

    @property
    def file(self) -> Path:
        """Where it is."""
        return self._database.path

    def close(self) -> None:
        """Purges what was deleted, and closes the file. A second call does nothing."""
        if self._database.owner and self._database.writable and not self._closed:
            with suppress(StoreError):  # the next start purges what could not be purged now
                self.purge()
                self._back_up()
        self._closed = True
        self._database.close()

    def _back_up(self) -> None:
        kept = "SELECT 1 FROM conversation WHERE deleted_s IS NULL LIMIT 1"
        if self._database.writable and self._database.rows(kept):
            back_up(self._database.path, self._database.connection)

    def _mark_cut_replies(self) -> None:
        """Marks replies that are no longer streamed as cut, with the text and the numbers of all of their rounds, and
        makes all messages searchable."""
        rows = self._database.rows("SELECT id, statistics FROM message WHERE state = 'streaming'")
        with self._database.change():
            for message, numbers in rows:
                self._mark_cut_reply(message, read_json(numbers, Statistics))
        self._make_searchable()

    def _mark_cut_reply(self, message: int, before: Statistics | None) -> None:
        """Marks a reply as cut. before: its numbers when it was stopped and then continued, if it was."""
        rounds = self._rounds_on_disk(message)
        answer, thought = text_of(rounds), text_of(rounds, "thought")
        metrics = Metrics.of(one.round for one in rounds)
        metrics.prompt_tokens = before.prompt_tokens if before else 0
        numbers = Statistics.of(metrics, before.plain_s if before else None) if rounds else before
        self._database.run(
            "UPDATE message SET state = 'cut', note = ?, statistics = ?, "
            "text = iif(length(text) > length(?3), text, ?3), "
            "thought = iif(length(thought) > length(?4), thought, nullif(?4, '')) WHERE id = ?5",
            *(CUT_NOTE, to_json(numbers), answer, thought, message),
        )

    def _make_searchable(self) -> None:
        """Makes the messages searchable that are not yet. They are on disk: if this fails, the next search does it."""
        with suppress(StoreError):
            if texts := folded_texts(self._database):
                for start in range(0, len(texts), AT_ONCE):
                    with self._database.change():
                        make_searchable(self._database, texts[start : start + AT_ONCE])

    # --- conversations ------------------------------------------------------------------------

    def conversations(self) -> list[ConversationRecord]:
        """Returns the pinned ones first, then by their last change; deleted ones are left out."""
        order = "WHERE deleted_s IS NULL ORDER BY pinned DESC, updated_s DESC, id DESC"
        return [_conversation_of(row) for row in self._database.rows(f"{_CONVERSATION} {order}")]

    def conversation(self, conversation: int) -> ConversationRecord:
        """Returns one conversation, deleted or not."""
        row = self._database.row(f"{_CONVERSATION} WHERE id = ?", conversation)
        if row is None:
            raise StoreError(f"conversation {conversation} no longer exists; open the list of conversations again")
        return _conversation_of(row)

    def find(self, conversation: int) -> ConversationRecord | None:
        """Returns one conversation, None where it is deleted or gone."""
        row = self._database.row(f"{_CONVERSATION} WHERE id = ? AND deleted_s IS NULL", conversation)
        return None if row is None else _conversation_of(row)

    def create(self, settings: ChatSettings) -> ConversationRecord:
        """Adds an empty conversation."""
        now_s = time.time()
        with self._database.change():
            values = {"title": "", "pinned": 0, "created_s": now_s, "updated_s": now_s, "settings": to_json(settings)}
            created = self._database.insert("conversation", values)
        return self.conversation(created)

    def rename(self, conversation: int, title: str) -> None:
        """Changes the title, made one line of at most 200 characters."""
        self._set(conversation, "title", clean_title(title))

    def pin(self, conversation: int, pinned: bool) -> None:
        """Pins a conversation to the top, or unpins it."""
        self._set(conversation, "pinned", int(pinned))

    def change_settings(self, conversation: int, settings: ChatSettings) -> None:
        """Changes the settings of the replies to come."""
        self._set(conversation, "settings", to_json(settings))

    def delete(self, conversation: int) -> None:
        """Hides a conversation until `undelete` or `purge`."""
        self._set(conversation, "deleted_s", time.time())

    def undelete(self, conversation: int) -> None:
        """Brings a deleted conversation back. Raises StoreError if it was purged."""
        self._set(conversation, "deleted_s", None)

    def _set(self, conversation: int, column: str, value: object) -> None:
        self.conversation(conversation)
        with self._database.change():
            self._database.run(f"UPDATE conversation SET {column} = ? WHERE id = ?", value, conversation)

    def purge(self, older_than_s: float = 0.0) -> int:
        """Removes for good the conversations deleted at least `older_than_s` ago; returns how many. None of their text
        is left in any file of ours. `close` calls this, and so does the next start.

        A deletion from the future, or from before the conversation was last changed, got its time from a wrong
        clock: it counts as new.
        """
        now_s = time.time()
        wrong = "deleted_s > ? OR deleted_s < max(updated_s, ?)"
        if self._database.rows(f"SELECT id FROM conversation WHERE {wrong}", now_s, EARLIEST_S):
            with self._database.change():
                changed = f"UPDATE conversation SET deleted_s = ? WHERE {wrong}"
                self._database.run(changed, now_s, now_s, EARLIEST_S)
        rows = self._database.rows(
            "SELECT id FROM conversation WHERE deleted_s <= ? AND NOT EXISTS "
            "(SELECT 1 FROM message WHERE conversation = conversation.id AND state = 'streaming')",
            now_s - older_than_s,
        )
        if rows:
            with self._database.change():
                self._database.connection.executemany("DELETE FROM conversation WHERE id = ?", rows)
            self._database.erase_log()  # it still had the texts
            purge_backups(self._database.path, [conversation for (conversation,) in rows])
        return len(rows)

    def search(self, text: str, limit: int = 50) -> list[SearchHit]:
        """Returns titles first, then messages, newest first; every word of `text` is in each, or "words in quotes" in a
        row. Places in snippets are of Python's characters, not of Qt's UTF-16."""
        self._make_searchable()
        return search(self._database, text, limit)

    # --- messages -----------------------------------------------------------------------------

    def path(self, conversation: int) -> list[MessageRecord]:
        """Returns the current branch, from its root. A reply that streams has its text so far."""
        self.conversation(conversation)
        return [self.message(id) for (id,) in self._database.rows(BRANCH, conversation)]

    def message(self, message: int) -> MessageRecord:
        """Returns one message, on whichever branch."""
        record = _stored_message(self._database, message)
        return record if record.state != "streaming" else self._with_rounds(record)

    def _with_rounds(self, record: MessageRecord) -> MessageRecord:
        """Returns a reply that streams with its text so far."""
        written = self._streaming.get(record.id)
        if written is not None:
            answer, thought = "".join(written.answer), "".join(written.thought)
            return replace(record, text=record.text + answer, thought=record.thought + thought)
        rounds = self._rounds_on_disk(record.id)  # another process writes it
        answer, thought = text_of(rounds), text_of(rounds, "thought")
        return replace(record, text=max(record.text, answer, key=len), thought=max(record.thought, thought, key=len))

    def select(self, message: int) -> None:
        """Makes the branch that leads to this message the current one."""
        conversation = self.message(message).conversation
        with self._database.change():
            for child, parent in self._database.rows(ANCESTORS, message):
                self._show(conversation, parent, child)

    def _show(self, conversation: int, parent: int | None, child: int) -> None:
        if parent is None:
            self._database.run("UPDATE conversation SET shown = ? WHERE id = ?", child, conversation)
        else:
            self._database.run("UPDATE message SET shown = ?1 WHERE id = ?2 AND shown IS NOT ?1", child, parent)

    def _insert(self, conversation: int, parent: int | None, role: Role, **columns: object) -> int:
        """Adds a message as the newest version, and shows it."""
        self.conversation(conversation)
        above = None if parent is None else self.message(parent)
        if above and above.conversation != conversation:
            raise StoreError(f"message {parent} belongs to another conversation; open that one first")
        if role == "assistant" and (above is None or above.role == "assistant"):
            raise StoreError("a reply needs a question; ask one first")
        now_s = time.time()
        place = {"conversation": conversation, "parent": parent, "role": role, "created_s": now_s}
        added = self._database.insert("message", {**place, **columns})
        self._show(conversation, parent, added)
        self._database.run("UPDATE conversation SET updated_s = ? WHERE id = ?", now_s, conversation)
        return added

    def add_question(
        self,
        conversation: int,
        parent: int | None,
        text: str,
        attachments: Sequence[Attachment] = (),
        trim: ContextTrim | None = None,
    ) -> MessageRecord:
        """Adds a question after `parent`, or at the root; where that has one already, another version."""
        files = [Attachment(name=clean(one.name), text=clean(one.text)) for one in attachments]
        if trim is not None:
            trim = ContextTrim(kept=trim.kept, summary=clean(trim.summary))
        columns = {"text": clean(text), "attachments": to_json(files or None), "trim": to_json(trim)}
        with self._database.change():
            added = self._insert(conversation, parent, "user", state="complete", **columns)
        return self.message(added)

    def add_edited_reply(self, message: int, text: str) -> MessageRecord:
        """Adds a version of a reply with this text, which no model wrote, and shows it."""
        before = self.message(message)
        if before.role != "assistant":
            raise StoreError("only a reply can be edited like this; edit the question instead")
        columns = {"text": clean(text), "note": EDITED, "thought": before.thought or None}
        with self._database.change():
            added = self._insert(before.conversation, before.parent, "assistant", state="complete", **columns)
        self._make_searchable()
        return self.message(added)

    def delete_version(self, message: int) -> int:
        """Deletes one of several versions of a message and all that follows it, and shows the version before it or the
        one after it. They go into a conversation that is deleted, and with it for good; returns its id, for
        `restore_version`."""
        record = self.message(message)
        others = [version for version in record.siblings if version != message]
        if not others:
            raise StoreError("the only version of a message cannot be deleted; edit it, or delete the conversation")
        if record.state == "streaming":
            raise StoreError("a reply that is being written cannot be deleted; stop it first")
        original, now_s = self.conversation(record.conversation), time.time()
        times = {"created_s": now_s, "updated_s": now_s, "deleted_s": now_s}
        values = {"title": original.title, "pinned": 0, "settings": to_json(original.settings), "shown": message}
        with self._database.change():
            deleted = self._database.insert("conversation", values | times)
            self._database.run(MOVE_BRANCH, message, record.conversation, deleted)
            self._database.run("UPDATE message SET parent = NULL WHERE id = ?", message)
            self._show(record.conversation, record.parent, others[max(0, record.version - 2)])
        return deleted

    def restore_version(self, deleted: int, record: MessageRecord) -> None:
        """Undoes `delete_version`. deleted: what it returned. record: the version, as it was before."""
        if self._database.row("SELECT 1 FROM message WHERE id = ? AND conversation = ?", record.id, deleted) is None:
            raise StoreError("this version was deleted for good; the others are still there")
        with self._database.change():
            self._database.run(MOVE_BRANCH, record.id, deleted, record.conversation)
            self._database.run("UPDATE message SET parent = ? WHERE id = ?", record.parent, record.id)
            self._database.run("DELETE FROM conversation WHERE id = ?", deleted)
            self._show(record.conversation, record.parent, record.id)

    # --- replies: begin or continue one, append its rounds in batches, end it --------------------

    def begin_reply(
        self, conversation: int, parent: int, pair: Pair, sampling: SamplingSettings, system: str | None = None
    ) -> MessageRecord:
        """Adds an empty reply to the question `parent`, streaming; where that has one already, another version."""
        system = None if system is None else clean(system)
        columns = {"text": "", "pair": to_json(pair), "sampling": to_json(sampling), "system": system}
        with self._database.change():
            added = self._insert(conversation, parent, "assistant", state="streaming", **columns)
        self._streaming[added] = _Streaming()
        return self.message(added)

    def resume_reply(self, message: int) -> MessageRecord:
        """Continues a reply that has ended: its rounds stay, its note and its tail go."""
        before = self.message(message)
        if before.role != "assistant" or before.state == "streaming":
            raise StoreError("only a reply that has ended can be continued; stop it first")
        with self._database.change():
            self._database.run("UPDATE message SET state = 'streaming', note = '', tail = '' WHERE id = ?", message)
            self._database.run("DELETE FROM folded WHERE message = ?", message)
        self._streaming[message] = _Streaming()
        return self.message(message)

    def append(self, message: int, rounds: list[RoundDone]) -> None:
        """Writes rounds of a reply that streams here. Raises StoreError where that fails (the disk is full) and where
        another program is writing, which is not waited for."""
        written = self._written(message)
        data = pack(rounds)
        with self._database.change(wait=False):
            number = "coalesce(max(number) + 1, 0)"
            self._database.run(
                f"INSERT INTO rounds SELECT ?1, {number}, ?2 FROM rounds WHERE message = ?1", message, data
            )
        written.answer.append(text_of(rounds))
        written.thought.append(text_of(rounds, "thought"))
        self._appends += 1
        if self._appends >= APPENDS:
            self._appends = 0
            self._database.empty_log()

    def end_reply(self, message: int, ending: Ending) -> MessageRecord:
        """Ends a reply. Raises StoreError where that fails: it still streams, and can be ended again."""
        return self._end_reply(self._database, message, ending)

    def end_reply_beside(self, message: int, ending: Ending) -> Future[MessageRecord]:
        """Ends a long reply in a thread: writing 30 MB takes half a second, in which `append` fails."""

        def end() -> MessageRecord:
            with self._database.beside() as database:
                return self._end_reply(database, message, ending)

        thread = ThreadPoolExecutor(1, "end of a reply")
        done = thread.submit(end)
        thread.shutdown(wait=False)
        return done

    def _end_reply(self, database: Database, message: int, ending: Ending) -> MessageRecord:
        written = self._written(message)
        with database.change():
            database.run(
                "UPDATE message SET state = ?, note = ?, tail = ?, statistics = coalesce(?, statistics), "
                "sampling = coalesce(?, sampling), prompt = coalesce(prompt, ?), text = text || ?, "
                "thought = nullif(coalesce(thought, '') || ?, '') WHERE id = ?",
                *(ending.state, clean(ending.note), clean(ending.tail), to_json(ending.statistics)),
                *(to_json(ending.sampling), clean(ending.prompt) or None),
                *("".join(written.answer), "".join(written.thought), message),
            )
        del self._streaming[message]
        return _stored_message(database, message)

    def _written(self, message: int) -> _Streaming:
        if message not in self._streaming:
            raise StoreError(f"message {message} is not being written; begin or resume a reply first")
        return self._streaming[message]

    def _rounds_on_disk(self, message: int) -> list[RoundDone]:
        """Returns the rounds of a reply that streams, up to the first batch that is damaged."""
        rounds: list[RoundDone] = []
        with suppress(DamageError):
            for (data,) in self._database.rows("SELECT data FROM rounds WHERE message = ? ORDER BY number", message):
                rounds += unpack(data)
        return rounds

    def rounds(self, message: int) -> list[RoundDone]:
        """Returns the rounds of a reply so far; none of a question. Raises StoreError where they are damaged."""
        return list(self.iterate_rounds(message))

    def iterate_rounds(self, message: int) -> Iterator[RoundDone]:
        """Yields the rounds of a reply as they are when the first is asked for, each batch unpacked when it is reached.
        Raises StoreError where they are damaged, which is known for certain only at the end. The text of a reply that
        streams is not compared with them."""
        rows = self._database.rows("SELECT data FROM rounds WHERE message = ? ORDER BY number", message)
        row = self._database.row("SELECT CAST(text AS BLOB), state FROM message WHERE id = ?", message)
        (text, state), at = row or (b"", ""), 0
        try:
            for (data,) in rows:
                for one in unpack(data):
                    part = one.round.text_in("answer").encode()
                    if state != "streaming" and not text.startswith(part, at):
                        raise DamageError("some are missing")
                    at += len(part)
                    yield one
            if state != "streaming" and at not in (0, len(text)):
                raise DamageError("some are missing")
        except DamageError as error:
            raise StoreError(f"the rounds of this reply are damaged, but its text is intact; {error}") from error

    def save_receipt(self, message: int, receipt: StoredReceipt) -> MessageRecord:
        """Stores the receipt of a reply, in place of an older one."""
        if self.message(message).role != "assistant":
            raise StoreError("only a reply can be verified; choose one")
        with self._database.change():
            self._database.run("UPDATE message SET receipt = ? WHERE id = ?", to_json(receipt), message)
        return self.message(message)

    # --- presets, values, files ----------------------------------------------------------------

    def presets(self) -> dict[str, ChatSettings]:
        """Returns the presets in the order of their names; one that cannot be read is left out."""
        rows = self._database.rows("SELECT name, settings FROM preset ORDER BY name COLLATE NOCASE, name")
        read = {name: read_json(settings, ChatSettings) for name, settings in rows}
        return {name: settings for name, settings in read.items() if settings is not None}

    def save_preset(self, name: str, settings: ChatSettings) -> None:
        """Adds a preset, or replaces the one of this name. Raises StoreError for an empty name."""
        if not (name := clean_title(name)):
            raise StoreError("a preset needs a name; type one")
        with self._database.change():
            self._database.run("INSERT OR REPLACE INTO preset VALUES (?, ?)", name, to_json(settings))

    def delete_preset(self, name: str) -> None:
        """Deletes a preset; does nothing if there is none of this name."""
        with self._database.change():
            self._database.run("DELETE FROM preset WHERE name = ?", name)

    def value(self, key: str) -> str | None:
        """Returns what the app stored under `key`, None for nothing."""
        row = self._database.row("SELECT value FROM value WHERE key = ?", key)
        return None if row is None else str(row[0])

    def set_value(self, key: str, value: str) -> None:
        """Stores a string of the app under `key`."""
        with self._database.change():
            self._database.run("INSERT OR REPLACE INTO value VALUES (?, ?)", key, clean(value))

    def export_markdown(self, conversation: int, latest: Latest = _as_stored) -> str:
        """Returns the current branch for people. latest: as of `export_json`."""
        path = [latest(message) for message in self.path(conversation)]
        return json_export.to_markdown(self.conversation(conversation).title, path)

    def export_json(self, conversation: int, latest: Latest = _as_stored, held: Held = lambda _: ()) -> str:
        """Returns the whole tree with its rounds; see `app.store.json_export`. Damaged rounds are left out. latest:
        returns a message with all of its text so far, the part that the disk has refused included; held: the rounds
        of that part."""
        record = self.conversation(conversation)
        children = "SELECT NULL, shown FROM conversation WHERE id = ?1 UNION ALL SELECT id, shown FROM message"
        rounds: dict[int, list[RoundDone]] = {}
        rows = self._database.rows(f"{children} WHERE conversation = ?1", conversation)
        messages = [latest(self.message(id)) for id in sorted(id for id, _ in rows if id)]
        for message in messages:
            with suppress(StoreError):
                rounds[message.id] = [*self.rounds(message.id), *held(message.id)]
        return json_export.to_document(record, messages, dict(rows), rounds)

    def import_json(self, text: str) -> ConversationRecord:
        """Adds a conversation equal to the one that was exported. Raises StoreError: why not, in a line."""
        return self.import_all([text])[0]

    def import_all(
        self, texts: Sequence[str], progressed: Callable[[int, int], object] = lambda done, of: None
    ) -> list[ConversationRecord]:
        """Adds the conversations of exports by Redline or another program (`app.store.foreign_exports`), all or none.
        Returns them, the one that was changed last first. progressed: is told how many of how many there are. Raises
        StoreError: why not, in a line.

        Each is written by itself, so that nobody waits long who writes meanwhile, and counts as deleted until all are
        there: if this process is killed, the next start of the window purges them.
        """
        documents = [document for text in texts for document in read_documents(text)]
        documents.sort(key=lambda document: document.updated_s)
        added: list[int] = []
        for document in documents:
            with self._database.change():
                added.append(json_export.insert(self._database, document, self._show, time.time()))
            progressed(len(added), len(documents))
        self._make_searchable()
        with self._database.change():
            ids = [(conversation,) for conversation in added]
            self._database.connection.executemany("UPDATE conversation SET deleted_s = NULL WHERE id = ?", ids)
        return [self.conversation(conversation) for conversation in reversed(added)]


def _stored_message(database: Database, message: int) -> MessageRecord:
    row = database.row(MESSAGE, message)
    if row is None:
        raise StoreError(f"message {message} no longer exists; open its conversation again")
    return message_of(row)


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
