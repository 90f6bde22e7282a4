"""The host, its loaded pair and what is asked of it: answers find whoever asked, deaths and lateness become notices."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

from PySide6.QtCore import QObject, QTimer, Signal

from app.protocol import (
    Answers,
    Failed,
    Load,
    Loaded,
    Loading,
    Malformed,
    Pair,
    Ready,
    Requests,
    Unload,
)
from app.window.client import RESTARTED, Death, HostClient
from app.window.controller.values import Notice, Speculating, SpeculationState
from app.window.patience import milliseconds

Ear = Callable[[Answers], None]


@dataclass(frozen=True)
class Refusal:
    """A pair that could not be loaded, and why. It is not tried again by itself."""

    pair: Pair
    said: str


STARTING = Speculating("loading", said="The engine is starting")


class Engine(QObject):
    """speculation_changed(Speculating): of the loaded pair. up(): the host listens. loaded_changed(Loaded).
    load_failed(Pair, str). frame_ended(): every answer of a frame has been heard. died(str): what happened, after which
    nothing that was asked will be answered. race_over(): whoever waited for it may go on. notice(Notice)."""

    speculation_changed = Signal(object)
    up = Signal()
    loaded_changed = Signal(object)
    load_failed = Signal(object, str)
    frame_ended = Signal()
    died = Signal(str)
    race_over = Signal()
    notice = Signal(object)

    def __init__(self, client: HostClient, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self.client = client
        self.speculating = STARTING
        self.loaded: Loaded | None = None
        self.pair: Pair | None = None  # loaded, or about to be
        self.refusal: Refusal | None = None
        self.racing = False  # a race is measured, which anything else would slow down
        self._before: tuple[Pair | None, Loaded | None] = (None, None)  # the pair that is being loaded
        self._ids = itertools.count(1)
        self._last_id = 0
        self._ears: dict[int, Ear] = {}
        self._strange = False
        self._load_by = QTimer(self)
        self._load_by.setSingleShot(True)
        self._load_by.timeout.connect(self._be_long)
        client.answered.connect(self._hear)
        client.died.connect(self._die)
        client.troubled.connect(self._trouble)
        client.overdue.connect(self._be_overdue)

    @property
    def ready(self) -> bool:
        """Whether it can be asked."""
        return self.client.phase == "ready"

    def has(self, pair: Pair) -> bool:
        """Whether this pair is loaded, so that replies would be its."""
        return self.ready and self.loaded is not None and self.pair == pair

    def start(self) -> None:
        """Start the host, or another where the last was given up."""
        if self.client.phase in ("down", "left"):
            self.say(STARTING)
            self.client.start()

    def restart(self) -> None:
        """Another host at once, whatever this one is doing."""
        self.say(STARTING)
        self.client.restart()

    def ask(self, make: Callable[[int], Requests], ear: Ear) -> int:
        """Send what `make` makes of a fresh id; its answers go to `ear` until `forget`."""
        self._last_id = next(self._ids)
        self._ears[self._last_id] = ear
        self.client.send(make(self._last_id))
        return self._last_id

    def tell(self, request: Requests) -> None:
        """Send what has no answer of its own."""
        self.client.send(request)

    def forget(self, request: int) -> None:
        """Nobody listens to answers of this request any more."""
        self._ears.pop(request, None)

    def want(self, pair: Pair) -> None:
        """Have this pair loaded, unless it is or is about to be. Not while a reply goes on."""
        if not self.ready or self.pair == pair:
            return
        if self.loaded is not None:
            self._before = (self.pair, self.loaded)
        self.pair, self.loaded, self.refusal = pair, None, None
        self.say(Speculating("loading", said="Loading the models"))
        self._load_by.start(milliseconds(self.client.patience.load_s))
        self.ask(lambda request: Load(id=request, pair=pair), partial(self._hear_load, pair))

    def unload(self) -> None:
        """Let go of what is loaded, for its memory. Not while a reply goes on."""
        if not self.ready or self.loaded is None:
            return
        self.pair = self.loaded = None
        self._before = (None, None)
        request = self.ask(lambda number: Unload(id=number), lambda _: None)
        self.forget(request)
        self.say(Speculating("unloaded", said="The models are unloaded. Writing brings them back"))

    def say(self, speculating: Speculating) -> None:
        """The state of speculation is this from now on."""
        if speculating != self.speculating:
            self.speculating = speculating
            self.speculation_changed.emit(speculating)

    def say_loaded(self) -> None:
        """The state is what the loaded pair is capable of, again."""
        if self.loaded is not None:
            loaded = self.loaded
            self.say(Speculating(loaded.speculation, loaded.target, loaded.drafter, loaded.said))

    def say_of_reply(self, state: SpeculationState, said: str) -> None:
        """Something about the reply that goes on: it fell back, or waits for a measurement."""
        names = (self.loaded.target, self.loaded.drafter) if self.loaded else ("", "")
        self.say(Speculating(state, *names, f"{said[:1].upper()}{said[1:]}"))

    # --- hearing -------------------------------------------------------------------------------

    def _hear(self, answers: list[Answers]) -> None:
        for answer in answers:
            self._dispatch(answer)
        self.frame_ended.emit()

    def _dispatch(self, answer: Answers) -> None:
        if isinstance(answer, Ready):
            self.up.emit()
        elif isinstance(answer, Malformed):
            self._be_strange(f"The engine did not understand the window: {answer.said}.")
        elif ear := self._ears.get(answer.id):
            ear(answer)
        elif not 0 < answer.id <= self._last_id:
            self._be_strange("The engine answered something that was not asked; the answer is left out.")

    def _hear_load(self, pair: Pair, answer: Answers) -> None:
        if isinstance(answer, Loaded | Failed):
            self.forget(answer.id)
        if self.pair != pair:  # another has been wanted since
            return
        self._load_by.start(milliseconds(self.client.patience.load_s))
        if isinstance(answer, Loaded):
            self._load_by.stop()
            self.loaded = answer
            self.say_loaded()
            self.loaded_changed.emit(answer)
        elif isinstance(answer, Failed):
            self._load_by.stop()
            self._fail_to_load(pair, answer)
        elif isinstance(answer, Loading):
            self.say(Speculating("loading", said=f"{answer.said[:1].upper()}{answer.said[1:]}"))

    def _fail_to_load(self, pair: Pair, answer: Failed) -> None:
        """Nothing is loaded now, or what was before still is."""
        before, loaded = self._before
        self.pair, self.loaded = (before, loaded) if answer.kept is not None and answer.kept == before else (None, None)
        self.refusal = Refusal(pair, answer.said)
        self.say(Speculating("unsupported", said=answer.said))
        self.load_failed.emit(pair, answer.said)

    def _be_strange(self, said: str) -> None:
        """Once a host: what is wrong goes on being wrong."""
        if not self._strange:
            self._strange = True
            self.notice.emit(Notice("warning", said, (("Restart the Engine", self.restart),)))

    # --- when it goes wrong --------------------------------------------------------------------

    def _die(self, death: Death) -> None:
        self._ears.clear()
        self.pair = self.loaded = None
        self._before = (None, None)
        self._strange = False
        self._load_by.stop()
        end = "It is not started again by itself." if death.left else "It is being started again."
        down = Speculating("host down", said=f"The engine {death.said}. {end}")
        self.say(STARTING if death.said == RESTARTED else down)
        self.died.emit(death.said)
        if death.left:
            again = "" if death.refused else ", and again each time it was started"
            self.notice.emit(Notice("error", f"The engine {death.said}{again}.", (("Try Again", self.restart),)))

    def _trouble(self, said: str) -> None:
        self._be_strange(f"{said[:1].upper()}{said[1:]}.")

    def _be_long(self) -> None:
        text = f"Nothing has been heard of loading the models for {self.client.patience.load_s:.0f} seconds."
        self.notice.emit(Notice("warning", text, (("Restart the Engine", self.restart),)))

    def _be_overdue(self) -> None:
        self.say(Speculating("loading", said="The engine takes unusually long to start"))
        text = f"The engine has not answered for {self.client.patience.ready_s:.0f} seconds."
        self.notice.emit(Notice("warning", text, (("Restart the Engine", self.restart),)))
