"""Replies to disk as they stream, four times a second, and later where the disk refuses: nothing told is let go of
before it is written."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from PySide6.QtCore import QObject, QTimer, Signal

from app.protocol import Told
from app.records import Ending, MessageRecord
from app.window.controller.values import Notice
from app.window.patience import milliseconds
from engine.errors import RedlineError

if TYPE_CHECKING:
    from app.store import Store

EVERY_S = 0.25
AGAIN_S = 1.0  # after a failure


@dataclass
class Unwritten:
    """What the disk does not have of one message yet. told: rounds that the store has not been given. owed: it has been
    given rounds that it could not write, and keeps them. over: the message as it stays, once it has ended."""

    told: list[Told] = field(default_factory=list)
    owed: bool = False
    over: MessageRecord | None = None
    tail: str = ""


class Keeper(QObject):
    """Writes in the order in which things were told. notice(Notice): on the first failure of a row, and on the success
    that ends it."""

    notice = Signal(object)

    def __init__(self, store: Store, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self._store = store
        self._unwritten: dict[int, Unwritten] = {}
        self._failing = False
        self._timer = QTimer(self)
        self._timer.setSingleShot(True)
        self._timer.timeout.connect(self.write)

    def add(self, message: int, told: list[Told]) -> None:
        """Rounds to be written soon."""
        self._of(message).told.extend(told)
        if not self._timer.isActive():
            self._timer.start(milliseconds(AGAIN_S if self._failing else EVERY_S))

    def end(self, record: MessageRecord, tail: str) -> MessageRecord:
        """The message is over, and ends in a text that belongs to no token: write the rest now. Returns it as the store
        has it, or as it was given where the store fails."""
        unwritten = self._of(record.id)
        unwritten.over, unwritten.tail = record, tail
        return self.write().get(record.id, record)

    def close(self) -> None:
        """Write what can be written, and nothing any more."""
        self.write()
        self._timer.stop()

    def told_of(self, message: int) -> list[Told]:
        """What the store does not know of a message."""
        unwritten = self._unwritten.get(message)
        return list(unwritten.told) if unwritten else []

    def over(self, message: int) -> MessageRecord | None:
        """A message that has ended without the disk knowing."""
        unwritten = self._unwritten.get(message)
        return unwritten.over if unwritten else None

    def write(self) -> dict[int, MessageRecord]:
        """Write all there is; returns the messages whose end was written."""
        ended: dict[int, MessageRecord] = {}
        self._timer.stop()
        failure = ""
        for message in list(self._unwritten):
            try:
                if record := self._write_one(message):
                    ended[message] = record
            except RedlineError as error:
                failure = str(error)
        if failure:
            self._fail(failure)
        else:
            self._succeed()
        return ended

    def _write_one(self, message: int) -> MessageRecord | None:
        unwritten = self._unwritten[message]
        if unwritten.told or unwritten.owed:
            told, unwritten.told, unwritten.owed = unwritten.told, [], True
            self._store.append(message, told)
            unwritten.owed = False
        record = unwritten.over
        if record is not None:
            ending = Ending(record.state, record.statistics, record.note, record.law, unwritten.tail, record.prompt)
            record = self._store.end_reply(message, ending)
        del self._unwritten[message]
        return record

    def _of(self, message: int) -> Unwritten:
        return self._unwritten.setdefault(message, Unwritten())

    def _fail(self, said: str) -> None:
        self._timer.start(milliseconds(AGAIN_S))
        if not self._failing:
            self._failing = True
            text = f"The conversation cannot be written: {said}. It goes on here, and is written as soon as that works."
            self.notice.emit(Notice("error", text, (("Try Now", self.write),)))

    def _succeed(self) -> None:
        if self._failing:
            self._failing = False
            self.notice.emit(Notice("info", "The conversation is written, with all that had waited."))
