"""Whether other programs are served, where, and with which models: those of the open conversation.

The engine's process serves them. The window tells it what it may do (Serve), and shows what it does (Serving).
"""

from pathlib import Path
from typing import Literal

import msgspec
from msgspec.structs import replace
from PySide6.QtCore import QObject, Signal

from app.api.key_file import ADDRESS, read_or_make_key
from app.protocol import Loaded, Serve, Serving
from app.window.chat import Controller
from app.window.chat.notices import Notice
from app.window.common.sentence import sentence
from engine.errors import UsageError

SILENT = "The engine has not answered another app for a while. It may be busy or stuck."
GAVE_UP = "The engine has stopped. Start it again to serve other apps."

ApiPhase = Literal["off", "starting", "on", "failed"]


class ApiState(msgspec.Struct, frozen=True):
    """What the user sees. key: for programs, "" while it is of no use. serving: how the engine serves them. loaded: the
    pair that answers, None while there is none. error: why programs are not served although they should be."""

    phase: ApiPhase = "off"
    key: str = ""
    serving: Serving = Serving()
    loaded: Loaded | None = None
    error: str = ""

    @property
    def address(self) -> str:
        """For programs, "" while they are not served."""
        return f"http://{ADDRESS}:{self.serving.port}/v1" if self.phase == "on" else ""


class ApiServer(QObject):
    """Serves programs for as long as it is told to. key_file: made when it is first needed."""

    changed = Signal()  # the state

    def __init__(self, controller: Controller, key_file: Path) -> None:
        super().__init__(controller)
        self._controller, self._host, self._key_file = controller, controller.host, key_file
        self._key = self._key_error = ""
        self._chosen = self._sent = Serve(id=0, port=None)
        host = controller.host
        for signal in (controller.conversation_opened, controller.settings_changed, host.load_failed, host.use_changed):
            signal.connect(self._update)
        host.became_ready.connect(self._begin)
        host.pair_loaded.connect(self._update)
        host.serving_changed.connect(self._show)
        host.status_changed.connect(self.changed)
        host.became_stuck.connect(self._report_silence)

    def serve(self, port: int | None) -> None:
        """Serves programs on this port, or no longer."""
        self._chosen = replace(self._chosen, port=port, key_file=str(self._key_file))
        if port is not None and self._host.loaded is None:
            self._controller.pair.load()
        self._update()
        self.changed.emit()

    def state(self) -> ApiState:
        """Returns what there is to see."""
        phase, serving = self._phase, self._host.serving
        error = GAVE_UP if self._host.gave_up else sentence(serving.error) or self._key_error
        return ApiState(phase, self._key if phase == "on" else "", serving, self._host.loaded, error)

    @property
    def _phase(self) -> ApiPhase:
        if self._chosen.port is None:
            return "off"
        if self._host.serving.error or self._host.gave_up:
            return "failed"
        return "on" if self._host.serving.port else "starting"

    def _begin(self) -> None:
        """Tells an engine that has started."""
        self._sent = Serve(id=0, port=None)
        self._update()

    def _update(self, *_: object) -> None:
        """Tells the engine what has changed, and has the models loaded that a program waits for."""
        pair = self._controller.conversation.settings.pair
        failed = self._host.failure_of(pair)
        refusal = failed.message if failed is not None else ""
        wanted = replace(self._chosen, pair=pair, paused=self._host.in_use, refusal=refusal)
        if wanted.port is None:  # nothing else matters then
            wanted = Serve(id=0, port=None)
        if self._host.ready and wanted != self._sent:
            self._sent = wanted
            self._host.send(wanted)
        if self._host.serving.waiting and not self._host.has(pair):
            self._controller.pair.load()

    def _show(self, serving: Serving) -> None:
        """Shows how programs are served, with the key that the engine has read or made."""
        self._update()
        if bool(serving.port) != bool(self._key):
            self._key = self._key_error = ""
            if serving.port:
                try:
                    self._key = read_or_make_key(self._key_file)
                except UsageError as problem:
                    self._key_error = sentence(str(problem))
        self.changed.emit()

    def _report_silence(self) -> None:
        if self._host.serving.tokens is not None:
            self._host.notice.emit(Notice("warning", SILENT, (self._host.restart_action,)))
