"""Writes replies while they stream, in a thread with a connection of its own: a stalled window does not delay what goes
to the disk, and a slow disk does not stall the window.

    append, end        hand rounds or the end of a reply over, and return at once
    wake               is called in the thread once something was written, or could not be
    take_reports       returns what that was

1. Rounds are reported once they are on disk, in the order in which they were handed over. A caller that shows only
   what was reported never shows what a kill can take.
2. Where the disk refuses, they are reported with the reason instead, and held: by the store, which shows them as part
   of their reply, and here, where writing is tried again every RETRY_S until it succeeds.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field

from app.protocol import RoundDone
from app.store.conversation_store import Store
from app.store.database import StoreError
from app.store.records import Ending, MessageRecord

WRITE_S = 0.1  # from one transaction to the next, unless that would take more than SHARE of the time
RETRY_S = 1.0  # after a failure
SHARE = 0.25
LARGEST_LOG_BYTES = 4 << 20  # above which the log is emptied into the file


@dataclass(frozen=True)
class Report:
    """What became of part of a reply. rounds: how many more were written, or are held. ended: whether its end was
    handed over by then; record: the message as the store has it, None where its end is not written. failure: why not
    all is written, "" if it is."""

    message: int
    rounds: int
    ended: bool = False
    record: MessageRecord | None = None
    failure: str = ""


@dataclass
class _Part:
    """The part of a reply that has been handed over but not written yet."""

    rounds: list[RoundDone] = field(default_factory=list)
    ending: Ending | None = None


class Clock:
    """What the writer takes the time from, and waits by."""

    def now_s(self) -> float:
        return time.monotonic()

    def wait(self, changed: threading.Condition, timeout_s: float | None) -> None:
        """Waits, holding `changed`, until it is notified, at most for `timeout_s`."""
        changed.wait(timeout_s)


class ReplyWriter:
    """Appends to replies of `store`, and ends them. wake: called in the thread of the writer."""

    def __init__(self, store: Store, wake: Callable[[], None], clock: Clock | None = None) -> None:
        self._main, self._wake, self._clock = store, wake, clock or Clock()
        self._thread: threading.Thread | None = None
        self._store: Store | None = None  # of the thread
        self._changed = threading.Condition()  # which guards all that follows
        self._waiting: dict[int, _Part] = {}  # handed over and not looked at yet
        self._held: dict[int, Ending | None] = {}  # replies that the disk refused a part of, and their ends
        self._failure = ""  # why
        self._reports: list[Report] = []
        self._writing = self._closed = False
        self._next_s = self._retry_s = 0.0  # the earliest times of the next write and the next retry

    # --- for the thread that owns the store ----------------------------------------------------

    def append(self, message: int, rounds: list[RoundDone]) -> None:
        """Queues rounds of a streaming reply for writing."""
        with self._changed:
            self._part(message).rounds.extend(rounds)

    def end(self, message: int, ending: Ending) -> None:
        """Queues the end of a reply for writing, after its rounds and without delay."""
        with self._changed:
            self._part(message).ending = ending

    def retry(self) -> None:
        """Tries again at once what the disk refused."""
        with self._changed:
            self._next_s = self._retry_s = 0.0
            self._changed.notify_all()

    def wait(self, timeout_s: float) -> bool:
        """Waits until everything is written or refused, at most for `timeout_s`. Returns whether it is written."""
        with self._changed:
            self._changed.wait_for(lambda: not (self._waiting or self._writing or self._due()), timeout_s)
            return not (self._waiting or self._writing or self._held)

    def take_reports(self) -> list[Report]:
        """Returns what has happened since the last call."""
        with self._changed:
            reports, self._reports = self._reports, []
        return reports

    def close(self, timeout_s: float) -> bool:
        """Writes what is left, tries again what the disk refused, and ends the thread. Returns whether everything is
        written within `timeout_s`. Nothing may be handed over afterwards."""
        with self._changed:
            self._closed = True
            self._next_s = self._retry_s = 0.0
            self._changed.notify_all()
        if self._thread is not None:
            self._thread.join(timeout_s)
        return self.wait(0.0)

    def _part(self, message: int) -> _Part:
        """Returns the part of a reply that is waiting, and wakes the thread."""
        if self._thread is None:
            self._thread = threading.Thread(target=self._run, name="reply writer", daemon=True)
            self._thread.start()
        self._changed.notify_all()
        return self._waiting.setdefault(message, _Part())

    def _due(self) -> bool:
        """Whether it is time to try again what the disk refused."""
        return bool(self._held) and self._clock.now_s() >= self._retry_s

    # --- in the thread of the writer -----------------------------------------------------------

    def _run(self) -> None:
        while parts := self._next():
            began_s = self._clock.now_s()
            trying = began_s >= self._retry_s
            reports = [self._write(message, part, trying) for message, part in parts.items()]
            self._tell(parts, reports, began_s, trying)
            if self._store is not None:
                self._store.empty_log(LARGEST_LOG_BYTES)
        if self._store is not None:
            self._store.close()

    def _next(self) -> dict[int, _Part]:
        """Waits for something to write, and returns it; nothing once no more will come."""
        with self._changed:
            while not (self._closed or self._due() or self._ready()):
                times = [self._next_s] * bool(self._waiting) + [self._retry_s] * bool(self._held)
                self._clock.wait(self._changed, max(0.0, min(times) - self._clock.now_s()) if times else None)
            parts, self._waiting = self._waiting, {}
            if self._due():
                for message, ending in self._held.items():
                    part = parts.setdefault(message, _Part())
                    part.ending = part.ending or ending
            self._writing = bool(parts)
            return parts

    def _ready(self) -> bool:
        """Whether anything that is waiting may be written now."""
        over = any(part.ending is not None for part in self._waiting.values())
        return over or (bool(self._waiting) and self._clock.now_s() >= self._next_s)

    def _write(self, message: int, part: _Part, trying: bool) -> Report:
        """Writes a part with all that is held of its reply if `trying`; holds it too otherwise, or if the disk
        refuses."""
        record, failure = None, self._failure
        try:
            if trying:
                store = self._store = self._store or self._main.beside()
                failure = ""
                store.append(message, part.rounds)
                record = store.end_reply(message, part.ending) if part.ending is not None else None
            else:
                self._main.hold(message, part.rounds)
        except (StoreError, OverflowError) as error:
            failure = str(error)
            if self._store is None:
                self._main.hold(message, part.rounds)
        return Report(message, len(part.rounds), part.ending is not None, record, failure)

    def _tell(self, parts: dict[int, _Part], reports: list[Report], began_s: float, trying: bool) -> None:
        """Reports what was written or held, and says when to go on."""
        now_s = self._clock.now_s()
        with self._changed:
            for report in reports:
                if report.failure:
                    self._held[report.message] = parts[report.message].ending or self._held.get(report.message)
                    self._failure = report.failure
                else:
                    self._held.pop(report.message, None)
            if trying:
                failed = any(report.failure for report in reports)
                self._retry_s = now_s + RETRY_S if failed else 0.0
            self._next_s = began_s + max(WRITE_S, (now_s - began_s) / SHARE)
            self._reports += reports
            self._writing = False
            self._changed.notify_all()
        self._wake()
