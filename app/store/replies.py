"""Replies while they stream and after: rounds go to disk as they come, a chunk at a time; at the end they are one blob.

What cannot be written (the disk is full) is kept and goes with the next chunk; so an append that succeeds catches up.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from app.protocol import Law, Pair, Told
from app.records import Ending, KeptReceipt, MessageRecord, State
from app.store.database import Database
from app.store.errors import DamagedError, StoreError
from app.store.index import Index, searched
from app.store.messages import Messages
from app.store.rows import attachments_of, clean, to_json
from app.store.spans import join, pack, split, text_of, unpack

CUT_NOTE = "Redline was closed or stopped working while this reply was being written."


@dataclass
class _Live:
    """A reply that this process streams. number: of its next chunk. unwritten: rounds that are not on disk yet."""

    number: int = 0
    unwritten: list[Told] = field(default_factory=list)


class Replies:
    def __init__(self, database: Database, messages: Messages, index: Index) -> None:
        self._database = database
        self._messages = messages
        self._index = index
        self._live: dict[int, _Live] = {}

    def begin(self, conversation: int, parent: int, pair: Pair, law: Law, system: str | None) -> MessageRecord:
        begun = self._messages.add_reply(conversation, parent, pair, law, system)
        self._live[begun.id] = _Live()
        return begun

    def resume(self, message: int) -> MessageRecord:
        """Go on with a reply that ended: its rounds stay, its note and what it held back at its end go."""
        before = self._messages.get(message)
        if before.role != "assistant" or before.state == "streaming":
            raise StoreError("only a reply that has ended can be gone on with; stop it first")
        with self._database.change():
            self._database.run("UPDATE message SET state = 'streaming', note = '', tail = '' WHERE id = ?", message)
        self._live[message] = _Live()
        return self._messages.get(message)

    def append(self, message: int, told: list[Told]) -> None:
        """Raises StoreError: nothing was written, and `told` goes with the next append or the end."""
        live = self._of(message)
        live.unwritten.extend(told)
        if live.unwritten:
            with self._database.change():
                self._write(message, live)
            live.number += 1
            live.unwritten.clear()

    def end(self, message: int, ending: Ending) -> MessageRecord:
        """Raises StoreError: the reply still streams, and can be ended again."""
        live = self._of(message)
        with self._database.change():
            if live.unwritten:
                self._write(message, live)
            self.settle(message, ending.state, ending.note, ending.tail)
            self._database.run(
                "UPDATE message SET statistics = coalesce(?, statistics), law = coalesce(?, law), "
                "prompt = coalesce(prompt, ?) WHERE id = ?",
                *(to_json(ending.statistics), to_json(ending.law), clean(ending.prompt) or None, message),
            )
        del self._live[message]
        return self._messages.get(message)

    def keep_receipt(self, message: int, receipt: KeptReceipt) -> MessageRecord:
        """In place of an older one."""
        if self._messages.get(message).role != "assistant":
            raise StoreError("only a reply can be verified; choose one")
        with self._database.change():
            self._database.run("UPDATE message SET receipt = ? WHERE id = ?", to_json(receipt), message)
        return self._messages.get(message)

    def settle(self, message: int, state: State, note: str, tail: str = "") -> None:
        """Make one of the chunks, and the message found. Within a change."""
        chunks = self._database.rows("SELECT text, data FROM chunk WHERE message = ? ORDER BY number", message)
        self._database.run(
            "UPDATE message SET state = ?, note = ?, tail = ?, text = text || ? WHERE id = ?",
            *(state, clean(note), clean(tail), "".join(text for text, _ in chunks), message),
        )
        if chunks:
            joined = self._joined(message, [data for _, data in chunks])
            self._database.run("INSERT OR REPLACE INTO spans VALUES (?, ?)", message, joined)
            self._database.run("DELETE FROM chunk WHERE message = ?", message)
        rows = self._database.rows("SELECT text || tail, attachments FROM message WHERE id = ?", message)
        self._index.put(message, searched(rows[0][0], attachments_of(rows[0][1])))

    def settle_cut(self) -> None:
        """Replies that nobody streams any more are marked as cut."""
        rows = self._database.rows("SELECT id FROM message WHERE state = 'streaming'")
        if rows:
            with self._database.change():
                for (message,) in rows:
                    self.settle(message, "cut", CUT_NOTE)

    def text_so_far(self, record: MessageRecord) -> str:
        """Of a reply that streams, here or in another process."""
        rows = self._database.rows("SELECT text FROM chunk WHERE message = ? ORDER BY number", record.id)
        live = self._live.get(record.id, _Live())
        return record.text + "".join(text for (text,) in rows) + text_of(live.unwritten)

    def told(self, message: int) -> list[Told]:
        """All rounds of a reply, as far as it is. Raises StoreError: they are damaged; its text is not in them."""
        joined = self._database.row("SELECT data FROM spans WHERE message = ?", message)
        rows = self._database.rows("SELECT data FROM chunk WHERE message = ? ORDER BY number", message)
        live = self._live.get(message, _Live())
        try:
            chunks = [*split(joined[0] if joined else None), *(data for (data,) in rows)]
            return [*(one for chunk in chunks for one in unpack(chunk)), *live.unwritten]
        except DamagedError as error:
            raise StoreError(f"the rounds of this reply are damaged, its text is whole; {error}") from error

    def _write(self, message: int, live: _Live) -> None:
        text = clean(text_of(live.unwritten))
        self._database.run(
            "INSERT OR REPLACE INTO chunk VALUES (?, ?, ?, ?)", message, live.number, text, pack(live.unwritten)
        )

    def _joined(self, message: int, chunks: list[bytes]) -> bytes:
        """Behind the rounds that a reply had before it was gone on with. Where those are damaged it stays at them:
        rounds that do not begin at the text's beginning would say of every token that it is another."""
        before = self._database.row("SELECT data FROM spans WHERE message = ?", message)
        joined: bytes | None = before[0] if before else None
        try:
            return join(joined, chunks)
        except DamagedError:
            return joined or b""

    def _of(self, message: int) -> _Live:
        live = self._live.get(message)
        if live is None:
            raise StoreError(f"message {message} is not being written; begin or resume a reply first")
        return live
