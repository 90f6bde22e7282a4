"""Whether other programs are served, where, and with which models: those of the open conversation."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec.structs import replace
from PySide6.QtCore import QObject, Signal

from app.api.key_file import ADDRESS, read_or_make_key
from app.protocol import Loaded, Stop
from app.protocol.api_messages import ApiLine
from app.window.api.api_process import ApiPhase, ApiProcess
from app.window.api.api_requests import ApiRequests
from app.window.common.sentence import sentence
from engine.errors import UsageError

if TYPE_CHECKING:
    from app.window.chat import Controller


@dataclass(frozen=True)
class ApiState:
    """What the user sees. address, key: for programs, "" while they are of no use. model: that answers, "" while none
    is loaded. waiting: requests that wait. running_tokens: of the reply that runs, None while none does. error: why
    programs are not served although they should be. loaded: the pair that answers, None while there is none."""

    phase: ApiPhase = "off"
    address: str = ""
    key: str = ""
    model: str = ""
    waiting: int = 0
    running_tokens: int | None = None
    error: str = ""
    loaded: Loaded | None = None


class ApiServer(QObject):
    """Serves programs for as long as it is told to. key_file: made when it is first needed."""

    changed = Signal()  # more than what runs now

    def __init__(self, controller: Controller, key_file: Path, command: Sequence[str] = ()) -> None:
        super().__init__(controller)
        self._controller, self._key_file = controller, key_file
        self._key = self._key_error = ""
        self.requests = ApiRequests(controller)
        self.process = ApiProcess(key_file, command, self)
        self.process.received.connect(self._receive)
        self.process.began.connect(self._begin)
        self.process.ended.connect(self.requests.drop_all)
        self.process.changed.connect(self._read_key)
        self.requests.answered.connect(self.process.write)
        for signal in (controller.host.pair_loaded, controller.conversation_opened, controller.settings_changed):
            signal.connect(self._tell_model)

    def serve(self, port: int | None) -> None:
        """Serves programs on this port, or no longer."""
        self.process.serve(port)

    def state(self) -> ApiState:
        """Returns what there is to see."""
        process, loaded = self.process, self._controller.host.loaded
        return ApiState(
            phase=process.phase,
            address=f"http://{ADDRESS}:{process.port}/v1" if process.phase == "on" else "",
            key=self._key,
            model=loaded.target if loaded is not None else "",
            waiting=self.requests.waiting,
            running_tokens=self.requests.running_tokens,
            error=process.error or self._key_error,
            loaded=loaded,
        )

    def quit(self) -> None:
        """Ends serving, as the window closes."""
        self.requests.drop_all()
        self.process.quit()

    def _read_key(self) -> None:
        """Reads the key again, which the API has read or made."""
        self._key = self._key_error = ""
        if self.process.phase == "on":
            try:
                self._key = read_or_make_key(self._key_file)
            except UsageError as problem:
                self._key_error = sentence(str(problem))
        self.changed.emit()

    def _begin(self) -> None:
        """The API listens once it knows a model."""
        if self._controller.host.loaded is None:
            self._controller.pair.load()
        self._tell_model()

    def _tell_model(self, _: object = None) -> None:
        """Tells the API which model answers from now on; one that is loaded for something else does not."""
        loaded = self._controller.host.loaded
        if loaded is not None and loaded.pair == self._controller.conversation.settings.pair:
            self.process.write(replace(loaded, id=0))

    def _receive(self, line: ApiLine, size_bytes: int) -> None:
        if isinstance(line, Stop):
            self.requests.stop(line.id)
        else:
            self.requests.put(line, size_bytes)  # type: ignore[arg-type]  # Listening is not passed on
