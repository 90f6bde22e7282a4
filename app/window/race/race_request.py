"""One race with the engine's host: the target is loaded, the race requested, its runs collected, or it is stopped."""

import time
from collections.abc import Callable
from dataclasses import replace

from PySide6.QtCore import QObject, Signal

from app.protocol import AnyAnswer, Failed, Pair, Race, SamplingSettings
from app.protocol.race_messages import RaceProgress, Side
from app.race.race_document import RaceDocumentBuilder
from app.window.chat.host_connection import HostConnection, HostTask

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
        self._task = HostTask(host, silence="")
        host.load_failed.connect(self._on_load_failed)
        host.became_stuck.connect(self._report_silence)  # also while the target is being loaded
        host.died.connect(self._on_died)

    @property
    def busy(self) -> bool:
        """Whether a race is under way."""
        return self.builder is not None

    def begin(
        self,
        prompt: str,
        sampling: SamplingSettings,
        sides: tuple[Side, ...],
        runs: int,
        pair: Pair,
        order_seed: int = 0,
    ) -> None:
        """Starts a race. pair: whose target is used; its drafter is loaded as well if another target was loaded."""
        assert self.builder is None
        sampling = replace(sampling, seed=sampling.seed or 0)
        race = Race(id=0, prompt=prompt, sampling=sampling, sides=sides, runs=runs, order_seed=order_seed)
        self.builder = RaceDocumentBuilder(race, self._now())
        self._pair = pair
        self._host.racing = True
        self._task.begin(self._make_request, self._receive)
        if self._host.stuck:
            self._report_silence()

    def stop(self, why: str = STOPPED) -> None:
        """Ends the race at once; the engine stops at its next round."""
        self._task.stop()
        self._end(why)

    def _make_request(self) -> Race | None:
        """Returns the race once its target is loaded, None before."""
        there = self._host.pair
        wanted = self._pair
        if there is None or (there.target, there.context, there.hosts) != (wanted.target, wanted.context, wanted.hosts):
            self._host.load(wanted)
        return self.builder.race if self.builder is not None and self._host.loaded is not None else None

    def _on_load_failed(self, _: Pair, reason: str) -> None:
        if self.busy and not self._task.sent:
            self._end(reason)

    def _receive(self, answer: AnyAnswer) -> None:
        if self.builder is None:
            return
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
        if self._task.sent:
            self._host.show_pair_status()
        self._task.end()
        self.builder = None
        self._host.racing = False
        self._host.race_ended.emit()
        document = builder.document()
        if document is None and not why:
            why = "The engine sent an incomplete race. Try again."
        self.ended.emit(document, why)

    def _on_died(self, reason: str) -> None:
        """Ends the race if the engine died while measuring it, or if no other engine is started."""
        if self.busy and (self._task.sent or self._host.gave_up):
            self._end(f"The engine {reason} during the race.")

    def _report_silence(self) -> None:
        if self.busy:
            self.silent.emit()
