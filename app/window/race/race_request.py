"""One race with the engine's host: the target is loaded, the race requested, its runs collected, or it is stopped."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace

from PySide6.QtCore import QObject, QTimer, Signal

from app.protocol import AnyAnswer, Failed, Pair, Race, SamplingSettings, Stop
from app.protocol.race_messages import RaceProgress, Side
from app.race.race_document import RaceDocumentBuilder
from app.window.chat.host_connection import HostConnection
from app.window.chat.host_process import milliseconds

STOPPED = "The race was stopped."


class RaceRequest(QObject):
    """Requests races, one at a time. now: returns Unix seconds, for the document. progressed(RaceProgress). silent():
    the engine has not answered for long. ended(RaceDocument | None, str): what there is of the race, None if no pair of
    runs is complete; why it is incomplete, or ""."""

    progressed = Signal(object)
    silent = Signal()
    ended = Signal(object, str)

    def __init__(
        self, host: HostConnection, now: Callable[[], float] = time.time, parent: QObject | None = None
    ) -> None:
        super().__init__(parent)
        self._host, self._now = host, now
        self.builder: RaceDocumentBuilder | None = None  # while a race is under way
        self._pair = Pair()
        self._request = 0  # 0 while it has not been sent
        self._watch = QTimer(self, singleShot=True)
        self._watch.timeout.connect(self.silent)
        host.became_ready.connect(self._continue)
        host.pair_loaded.connect(self._continue)
        host.load_failed.connect(self._on_load_failed)
        host.died.connect(self._on_died)
        host.frame_ended.connect(self._note_progress)

    @property
    def busy(self) -> bool:
        """Whether a race is under way."""
        return self.builder is not None

    def begin(self, prompt: str, sampling: SamplingSettings, sides: tuple[Side, ...], runs: int, pair: Pair) -> None:
        """Starts a race. pair: whose target is used; its drafter is loaded as well if another target was loaded."""
        assert self.builder is None
        race = Race(id=0, prompt=prompt, sampling=replace(sampling, seed=sampling.seed or 0), sides=sides, runs=runs)
        self.builder = RaceDocumentBuilder(race, self._now())
        self._pair, self._request = pair, 0
        self._host.racing = True
        self._host.start()
        self._continue()

    def stop(self, why: str = STOPPED) -> None:
        """Ends the race at once; the engine stops at its next round."""
        if self._request:
            self._host.send(Stop(id=self._request))
        self._end(why)

    def _continue(self) -> None:
        """Sends the race once its target is loaded."""
        if self.builder is None or self._request or not self._host.ready:
            return
        there = self._host.pair
        wanted = self._pair
        if there is None or (there.target, there.context, there.hosts) != (wanted.target, wanted.context, wanted.hosts):
            self._host.load(wanted)
        if self._host.loaded is not None:
            self._request = self._host.request(self.builder.race, self._receive)
        self._restart_watch()

    def _on_load_failed(self, _: Pair, reason: str) -> None:
        if self.busy and not self._request:
            self._end(reason)

    def _receive(self, answer: AnyAnswer) -> None:
        if self.builder is None:
            return
        self._restart_watch()
        self.builder.hear(answer)
        if isinstance(answer, Failed):
            self._end(answer.message)
        elif isinstance(answer, RaceProgress):
            self._host.show_reply_status("loading", f"a race is being measured: {answer.message}")
            self.progressed.emit(answer)
        elif self.builder.done is not None:
            self._end(STOPPED if self.builder.done.stopped else "")

    def _end(self, why: str) -> None:
        builder = self.builder
        if builder is None:
            return
        self._watch.stop()
        if self._request:
            self._host.forget(self._request)
            self._host.show_pair_status()
        self.builder, self._request = None, 0
        self._host.racing = False
        self._host.race_ended.emit()
        document = builder.document()
        if document is None and not why:
            why = "The engine sent an incomplete race. Try again."
        self.ended.emit(document, why)

    def _on_died(self, reason: str) -> None:
        """Ends the race if the engine died while measuring it, or if no other engine is started."""
        if self.busy and (self._request or self._host.gave_up):
            self._request = 0  # no answer will come
            self._end(f"The engine {reason} during the race.")

    def _note_progress(self) -> None:
        """The engine is not silent while it answers what was asked before."""
        if self._watch.isActive():
            self._restart_watch()

    def _restart_watch(self) -> None:
        timeouts = self._host.timeouts
        self._watch.start(milliseconds(timeouts.silent_s if self._request else timeouts.load_s))
