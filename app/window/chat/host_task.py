"""One long request to the host, such as a reply: sent once its models are loaded, watched for silence, and stopped."""

from __future__ import annotations

from collections.abc import Callable

from PySide6.QtCore import QObject, QTimer, Signal

from app.protocol import AnyAnswer, AnyRequest, Stop
from app.window.chat.host_connection import HostConnection
from app.window.chat.host_process import milliseconds


class HostTask(QObject):
    """answered(AnyAnswer). silent(): the host has not answered for long, or has not stopped in time.

    stopping: `stop` was called, and the host has not ended the request yet.
    """

    answered = Signal(object)
    silent = Signal()

    def __init__(self, host: HostConnection, parent: QObject) -> None:
        super().__init__(parent)
        self.stopping = False
        self._host = host
        self._make_request: Callable[[], AnyRequest | None] | None = None
        self._id = 0  # of the request; 0 until it is sent
        self._silence = QTimer(self, singleShot=True)
        self._silence.timeout.connect(self.silent)
        host.became_ready.connect(self._send)
        host.pair_loaded.connect(self._send)

    @property
    def sent(self) -> bool:
        """Whether the host has the request."""
        return self._id > 0

    def begin(self, make_request: Callable[[], AnyRequest | None]) -> None:
        """Starts the host if need be, and sends what `make_request` returns. It is called whenever the host is ready
        or has loaded a pair, until it returns a request; before, it may have another pair loaded and return None."""
        self._make_request = make_request
        self._host.start()
        self._send()

    def stop(self) -> bool:
        """Asks the host to stop; returns whether it has the request, and will therefore still answer."""
        if self.sent and not self.stopping:
            self.stopping = True
            self._host.send(Stop(id=self._id))
            self._silence.start(milliseconds(self._host.timeouts.stop_s))
        return self.sent

    def end(self) -> None:
        """Ignores further answers, and waits for none."""
        self._silence.stop()
        self._host.forget(self._id)
        self._id, self._make_request, self.stopping = 0, None, False

    def _send(self, _: object = None) -> None:
        if self._make_request is None or self.sent or not self._host.ready:
            return
        request = self._make_request()
        if request is not None:
            self._id = self._host.request(request, self._receive)
            self._restart_silence()

    def _receive(self, answer: AnyAnswer) -> None:
        self._restart_silence()
        self.answered.emit(answer)

    def _restart_silence(self) -> None:
        if not self.stopping:
            self._silence.start(milliseconds(self._host.timeouts.silent_s))
