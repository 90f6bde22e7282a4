"""Saves replies as they stream, four times a second. Where the disk refuses, it tries again: nothing is dropped before
it is saved."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from PySide6.QtCore import QObject, QTimer, Signal

from app.protocol import RoundDone
from app.store.records import Ending, MessageRecord
from app.window.chat.host_process import milliseconds
from app.window.chat.notices import Notice
from engine.errors import RedlineError

if TYPE_CHECKING:
    from app.store import Store

EVERY_S = 0.25
RETRY_S = 1.0  # after a failure


@dataclass
class Unsaved:
    """What the store was not given of one message yet, or could not write, in which case it keeps the rounds itself.
    final: the message, once it has ended; tail: see `Ending`."""

    rounds: list[RoundDone] = field(default_factory=list)
    final: MessageRecord | None = None
    tail: str = ""


class ReplyWriter(QObject):
    """Writes rounds and endings in the order they came. notice(Notice): on the first failure in a row, and on the
    success that ends it."""

    notice = Signal(object)

    def __init__(self, store: Store, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self._store = store
        self._unsaved: dict[int, Unsaved] = {}
        self._failing = False
        self._timer = QTimer(self, singleShot=True)
        self._timer.timeout.connect(self.write)

    def add(self, message: int, rounds: list[RoundDone]) -> None:
        """Has these rounds saved soon."""
        self._of(message).rounds.extend(rounds)
        if not self._timer.isActive():
            self._timer.start(milliseconds(RETRY_S if self._failing else EVERY_S))

    def end(self, record: MessageRecord, tail: str) -> MessageRecord:
        """Saves the rest of a message now. Returns the record from the store, or `record` where the store fails."""
        unsaved = self._of(record.id)
        unsaved.final, unsaved.tail = record, tail
        return self.write().get(record.id, record)

    def close(self) -> None:
        """Saves what can be saved, and stops."""
        self.write()
        self._timer.stop()

    def unsaved_rounds(self, message: int) -> list[RoundDone]:
        """Returns the rounds of a message that the store does not know."""
        unsaved = self._unsaved.get(message)
        return list(unsaved.rounds) if unsaved else []

    def unsaved_ending(self, message: int) -> MessageRecord | None:
        """Returns a message that has ended, where that is not saved yet."""
        unsaved = self._unsaved.get(message)
        return unsaved.final if unsaved else None

    def write(self) -> dict[int, MessageRecord]:
        """Writes everything that is unsaved; returns the messages whose end was written."""
        ended: dict[int, MessageRecord] = {}
        self._timer.stop()
        failure = ""
        for message in list(self._unsaved):
            try:
                if record := self._write_message(message):
                    ended[message] = record
            except RedlineError as error:
                failure = str(error)
        if failure:
            self._report_failure(failure)
        elif self._failing:
            self._failing = False
            self.notice.emit(Notice("info", "The conversation is saved again, with everything that was pending."))
        return ended

    def _write_message(self, message: int) -> MessageRecord | None:
        unsaved = self._unsaved[message]
        rounds, unsaved.rounds = unsaved.rounds, []
        self._store.append(message, rounds)  # and what it could not write before
        record = unsaved.final
        if record is not None:
            ending = Ending(record.state, record.statistics, record.note, record.sampling, unsaved.tail, record.prompt)
            record = self._store.end_reply(message, ending)
        del self._unsaved[message]
        return record

    def _of(self, message: int) -> Unsaved:
        return self._unsaved.setdefault(message, Unsaved())

    def _report_failure(self, why: str) -> None:
        self._timer.start(milliseconds(RETRY_S))
        if not self._failing:
            self._failing = True
            text = f"The conversation could not be saved: {why}. You can keep chatting; Redline tries again."
            self.notice.emit(Notice("error", text, (("Try Now", self.write),)))
