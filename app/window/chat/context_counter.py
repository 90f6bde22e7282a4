"""Counts how much of the context the next message would take: requested when typing pauses, one count at a time."""

from __future__ import annotations

from collections.abc import Callable

from PySide6.QtCore import QObject, QTimer, Signal

from app.protocol import AnyAnswer, Count, Counted, Failed, Message
from app.window.chat.host_connection import HostConnection

PAUSE_MS = 150


class ContextCounter(QObject):
    """counted(int, int): tokens, and the most there may be.

    messages: returns what to count, or None while the right model is not there to count it; then the last number stays.
    """

    counted = Signal(int, int)

    def __init__(
        self, host: HostConnection, messages: Callable[[], tuple[Message, ...] | None], parent: QObject
    ) -> None:
        super().__init__(parent)
        self._host = host
        self._messages = messages
        self._request = 0
        self._outdated = False  # the messages have changed since the request
        self._pause = QTimer(self, singleShot=True, interval=PAUSE_MS)
        self._pause.timeout.connect(self.count)
        host.died.connect(self.cancel)

    def schedule(self) -> None:
        """Counts once the messages have stopped changing."""
        self._pause.start()

    def cancel(self, *_: object) -> None:
        """Drops the pending count, which is of something else by now."""
        self._host.forget(self._request)
        self._request, self._outdated = 0, False

    def count(self) -> None:
        """Counts now, or after the pending count."""
        if self._request:
            self._outdated = True
            return
        messages = self._messages()
        if messages is None or not self._host.ready:
            return
        if not messages:
            self.counted.emit(0, self._host.loaded.context if self._host.loaded else 0)
            return
        self._request = self._host.request(Count(id=0, messages=messages), self._receive)

    def _receive(self, answer: AnyAnswer) -> None:
        if not isinstance(answer, Counted | Failed):
            return
        outdated = self._outdated
        self.cancel()
        if isinstance(answer, Counted):
            self.counted.emit(answer.tokens, answer.context)
        if outdated:
            self.count()
