"""Replies that are being written: heard when they are told, shown when their tokens are due, at most once a frame."""

from __future__ import annotations

from collections.abc import Callable

from PySide6.QtCore import QObject, Qt, QTimer

from app.protocol import Told
from app.records import MessageRecord
from app.window.transcript.announce import Announcer
from app.window.transcript.entry import Entry
from app.window.transcript.flow import Flow
from app.window.transcript.pace import Pace

FRAME_MS = 16
_SHARE = 3  # of the time, at most one part in so many is spent on drawing what streams


class Streams(QObject):
    """still: tokens are shown as soon as they are heard."""

    def __init__(self, flow: Flow, announcer: Announcer, clock: Callable[[], float], parent: QObject) -> None:
        super().__init__(parent)
        self.announcer = announcer
        self.still = False
        self._flow, self._clock = flow, clock
        self._live: dict[int, tuple[Entry, Pace]] = {}
        self._free_s = 0.0  # not before is anything drawn again
        self._frame = QTimer(self, interval=FRAME_MS, timerType=Qt.TimerType.PreciseTimer)
        self._frame.timeout.connect(self.show_due)

    def begin(self, entry: Entry) -> None:
        """A reply that rounds are to be expected of."""
        if entry.record.id not in self._live:
            self._live[entry.record.id] = (entry, Pace())
            self.announcer.begin()

    def keep(self, entries: list[Entry]) -> None:
        """These are on the way shown; others are not heard any more."""
        before = self._live
        self._live = {}
        for entry in entries:
            known = before.get(entry.record.id)
            self._live[entry.record.id] = known if known and known[0] is entry else (entry, Pace())

    def hear(self, message: int, told: list[Told]) -> None:
        """Rounds of a reply; those of one that is not shown are left to be asked for."""
        if message not in self._live:
            return
        entry, pace = self._live[message]
        pace.still = self.still
        now_s = self._clock()
        for one in told:
            count = entry.telling.hear(one)
            pace.add(count, entry.telling.duration_s(), now_s)
        if not self._frame.isActive():
            self._frame.start()

    def show_due(self) -> None:
        """What is to be seen by now."""
        now_s = self._clock()
        if now_s < self._free_s:
            return
        shown = False
        for entry, pace in self._live.values():
            count = pace.take(now_s)
            if count:
                self.announcer.hear(entry.telling.show(count), now_s)
                self._flow.touch(entry)
                shown = True
        if shown:
            self._draw()
        if not any(len(pace) for _, pace in self._live.values()):
            self._frame.stop()

    def end(self, entry: Entry, record: MessageRecord) -> None:
        """Show all that waits; the reply is `record`."""
        self._live.pop(record.id, None)
        entry.end(record)
        self._flow.touch(entry)

    def _draw(self) -> None:
        """A document that takes long to draw is drawn less often, so that the window has time for all else."""
        began_s = self._clock()
        for entry, _ in self._live.values():
            tile = self._flow.tiles.get(entry)
            if tile is not None:
                tile.refresh_text()
        self._flow.arrange()
        ended_s = self._clock()
        self._free_s = ended_s + _SHARE * (ended_s - began_s) - FRAME_MS / 1000
