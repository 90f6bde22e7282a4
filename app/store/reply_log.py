"""Replies on disk while they stream: rounds are appended in chunks as they come, and become one blob at the end.

What cannot be written (the disk is full) stays in memory and goes with the next append, so that one that succeeds
catches up. This is the one buffer of unwritten rounds; whoever streams a reply hands its rounds over and keeps none.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from app.protocol import RoundDone
from app.store.database import DamageError, Database, StoreError
from app.store.message_tree import attachments_of, clean, searchable
from app.store.records import MessageRecord, State
from app.store.round_codec import join_chunks, pack, split_chunks, text_of, unpack

CUT_NOTE = "Redline was closed or stopped working while this reply was being written."


@dataclass
class _Stream:
    """A reply that this process streams. number: of its next chunk. unwritten: its rounds that are not on disk yet."""

    number: int = 0
    unwritten: list[RoundDone] = field(default_factory=list)


class ReplyLog:
    """The rounds of replies, those that stream and those that have ended."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._streams: dict[int, _Stream] = {}

    def start(self, message: int) -> None:
        """Expects rounds of this reply from now on."""
        self._streams[message] = _Stream()

    def append(self, message: int, rounds: list[RoundDone]) -> None:
        """Writes rounds. Raises StoreError: they are kept, and go with the next append or the end."""
        stream = self._stream_of(message)
        stream.unwritten.extend(rounds)
        if stream.unwritten:
            with self._database.change():
                self._write(message, stream)
            stream.number += 1
            stream.unwritten.clear()

    def write_rest(self, message: int) -> None:
        """Writes what could not be written before; within the change that ends the reply."""
        stream = self._stream_of(message)
        if stream.unwritten:
            self._write(message, stream)

    def stop(self, message: int) -> None:
        """Forgets a reply that has ended on disk."""
        del self._streams[message]

    def settle(self, message: int, state: State, note: str, tail: str = "") -> str:
        """Makes one blob of the chunks; within a change. Returns what the message is found by from now on."""
        chunks = self._database.rows("SELECT text, data FROM chunk WHERE message = ? ORDER BY number", message)
        self._database.run(
            "UPDATE message SET state = ?, note = ?, tail = ?, text = text || ? WHERE id = ?",
            *(state, clean(note), clean(tail), "".join(text for text, _ in chunks), message),
        )
        if chunks:
            blob = self._joined(message, [data for _, data in chunks])
            self._database.run("INSERT OR REPLACE INTO spans VALUES (?, ?)", message, blob)
            self._database.run("DELETE FROM chunk WHERE message = ?", message)
        ((text, attachments),) = self._database.rows(
            "SELECT text || tail, attachments FROM message WHERE id = ?", message
        )
        return searchable(text, attachments_of(attachments))

    def text_of(self, record: MessageRecord) -> str:
        """Returns the text so far of a reply that streams, here or in another process."""
        rows = self._database.rows("SELECT text FROM chunk WHERE message = ? ORDER BY number", record.id)
        return record.text + "".join(text for (text,) in rows) + text_of(self._unwritten(record.id))

    def rounds(self, message: int) -> list[RoundDone]:
        """Returns the rounds of a reply so far. Raises StoreError where they are damaged; its text is not in them."""
        blob = self._database.row("SELECT data FROM spans WHERE message = ?", message)
        rows = self._database.rows("SELECT data FROM chunk WHERE message = ? ORDER BY number", message)
        try:
            chunks = [*split_chunks(blob[0] if blob else None), *(data for (data,) in rows)]
            return [*(one for chunk in chunks for one in unpack(chunk)), *self._unwritten(message)]
        except DamageError as error:
            raise StoreError(f"the rounds of this reply are damaged, its text is whole; {error}") from error

    def _unwritten(self, message: int) -> list[RoundDone]:
        return self._streams[message].unwritten if message in self._streams else []

    def _write(self, message: int, stream: _Stream) -> None:
        values = (message, stream.number, clean(text_of(stream.unwritten)), pack(stream.unwritten))
        self._database.run("INSERT OR REPLACE INTO chunk VALUES (?, ?, ?, ?)", *values)

    def _joined(self, message: int, chunks: list[bytes]) -> bytes:
        """Returns the blob with these chunks behind those of before the reply was continued. Where the old ones are
        damaged, they stay alone: rounds that do not begin where the text begins would describe the wrong tokens."""
        before = self._database.row("SELECT data FROM spans WHERE message = ?", message)
        blob: bytes | None = before[0] if before else None
        try:
            return join_chunks(blob, chunks)
        except DamageError:
            return blob or b""

    def _stream_of(self, message: int) -> _Stream:
        stream = self._streams.get(message)
        if stream is None:
            raise StoreError(f"message {message} is not being written; begin or resume a reply first")
        return stream
