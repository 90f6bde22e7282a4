"""How much of the context the next message would take: asked of the engine when the typing pauses, one at a time."""

from __future__ import annotations

from collections.abc import Callable

from PySide6.QtCore import QObject, QTimer, Signal

from app.protocol import Answers, Count, Counted, Failed, Message
from app.window.controller.engine import Engine

PAUSE_MS = 150


class Counter(QObject):
    """counted(int, int): tokens, and the most there may be. `turns` gives what to count, or None while the engine could
    not answer for the right models; then the last number stands."""

    counted = Signal(int, int)

    def __init__(self, engine: Engine, turns: Callable[[], tuple[Message, ...] | None], parent: QObject) -> None:
        super().__init__(parent)
        self._engine = engine
        self._turns = turns
        self._request = 0
        self._stale = False  # what was asked about has changed since
        self._pause = QTimer(self)
        self._pause.setSingleShot(True)
        self._pause.timeout.connect(self._ask)
        engine.died.connect(self.forget)

    def refresh(self) -> None:
        """What is to be counted has changed, or may change further."""
        self._pause.start(PAUSE_MS)

    def forget(self, *_: object) -> None:
        """An answer on its way is of something else by now."""
        self._engine.forget(self._request)
        self._request, self._stale = 0, False

    def _ask(self) -> None:
        if self._request:
            self._stale = True
            return
        messages = self._turns()
        if messages is None or not self._engine.ready:
            return
        if not messages:
            self.counted.emit(0, self._engine.loaded.context if self._engine.loaded else 0)
            return
        self._request = self._engine.ask(lambda request: Count(id=request, messages=messages), self._hear)

    def _hear(self, answer: Answers) -> None:
        if not isinstance(answer, Counted | Failed):
            return
        stale = self._stale
        self.forget()
        if isinstance(answer, Counted):
            self.counted.emit(answer.tokens, answer.context)
        if stale:
            self._ask()
