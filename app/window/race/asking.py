"""One race with the engine's host: its target had ready, asked, gathered run by run, stopped, or lost with the host."""

from __future__ import annotations

import time
from collections.abc import Callable

from msgspec.structs import replace as changed
from PySide6.QtCore import QObject, QTimer, Signal

from app.protocol import Answers, Failed, Law, Loaded, Pair, Race, Stop
from app.protocol.racing import Racing, Side
from app.race.gathering import Gathering
from app.window.controller.engine import Engine
from app.window.patience import milliseconds

STOPPED = "The race was stopped."


class RaceAsker(QObject):
    """progressed(Racing), silent(): nothing has been heard for long. ended(RaceDocument | None, str): what there is of
    the race, nothing where no pair of runs is whole; why it is not all, or ""."""

    progressed = Signal(object)
    silent = Signal()
    ended = Signal(object, str)

    def __init__(self, engine: Engine, now: Callable[[], float] = time.time, parent: QObject | None = None) -> None:
        """now: Unix seconds, for the document."""
        super().__init__(parent)
        self._engine, self._now = engine, now
        self._gathering: Gathering | None = None
        self._pair = Pair()
        self._request = 0  # 0 while it has not been asked for
        self._watch = QTimer(self, singleShot=True)
        self._watch.timeout.connect(self.silent)
        engine.up.connect(self._go_on)
        engine.loaded_changed.connect(self._be_loaded)
        engine.load_failed.connect(self._fail_to_load)
        engine.died.connect(self._die)

    @property
    def busy(self) -> bool:
        return self._gathering is not None

    def begin(self, prompt: str, law: Law, sides: tuple[Side, ...], runs: int, pair: Pair) -> None:
        """pair: whose target is raced; its drafter is loaded too where another target was."""
        assert self._gathering is None
        race = Race(id=0, prompt=prompt, law=changed(law, seed=law.seed or 0), sides=sides, runs=runs)
        self._gathering = Gathering(race, self._now())
        self._pair, self._request = pair, 0
        self._engine.racing = True
        self._engine.start()
        self._go_on()

    def stop(self, why: str = STOPPED) -> None:
        """At once, for whoever waits; the engine follows at the next round."""
        if self._request:
            self._engine.tell(Stop(id=self._request))
        self._end(why)

    # --- asking --------------------------------------------------------------------------------

    def _go_on(self) -> None:
        """Ask for the race, or for a target first."""
        gathering = self._gathering
        if gathering is None or self._request or not self._engine.ready:
            return
        there = self._engine.pair
        if there is None or (there.target, there.context) != (self._pair.target, self._pair.context):
            self._engine.want(self._pair)
        if self._engine.loaded is None:
            self._look_again()
            return
        race = gathering.race
        self._request = self._engine.ask(lambda request: changed(race, id=request), self._hear)
        self._look_again()

    def _be_loaded(self, _: Loaded) -> None:
        self._go_on()

    def _fail_to_load(self, _: Pair, said: str) -> None:
        if self.busy and not self._request:
            self._end(said)

    # --- hearing -------------------------------------------------------------------------------

    def _hear(self, answer: Answers) -> None:
        gathering = self._gathering
        if gathering is None:
            return
        self._look_again()
        if isinstance(answer, Failed):
            self._end(answer.said)
            return
        gathering.hear(answer)
        if isinstance(answer, Racing):
            self._engine.say_of_reply("loading", f"a race is being measured: {answer.said}")
            self.progressed.emit(answer)
        if gathering.over:
            self._end(STOPPED if gathering.stopped else "")

    def _end(self, why: str) -> None:
        gathering = self._gathering
        if gathering is None:
            return
        self._watch.stop()
        if self._request:
            self._engine.forget(self._request)
            self._engine.say_loaded()
        self._gathering, self._request = None, 0
        self._engine.racing = False
        self._engine.race_over.emit()
        document = gathering.document()
        if document is None and not why:
            why = "The engine's answers did not fit together: race again."
        self.ended.emit(document, why)

    def _die(self, said: str) -> None:
        """The engine went, and the race with it, if it had begun or no other engine will come."""
        if self.busy and (self._request or self._engine.client.phase == "left"):
            self._request = 0  # nobody answers it
            self._end(f"The engine {said} in the middle of the race.")

    def _look_again(self) -> None:
        self._watch.start(milliseconds(self._engine.client.patience.silent_s))
