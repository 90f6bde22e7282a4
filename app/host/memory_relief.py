"""Gives memory back while the system is short of it. Costs time later, and changes no text: what is dropped is read or
computed again."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Protocol

from app import protocol
from app.inference.machine import memory_is_short

LOOK_S = 5.0  # between two looks at the system


class _Worker(Protocol):
    def give_back_memory(self) -> None: ...


class MemoryRelief:
    """Looks at the system between answers, at most every LOOK_S. Never waits for the device. Calls `tell` the first
    time that memory was short."""

    def __init__(self, tell: Callable[[protocol.AnyAnswer], None]) -> None:
        self._tell = tell
        self._next_s = 0.0  # when to look again
        self._reported = False

    def look(self, worker: _Worker) -> None:
        """Has `worker` give memory back if the system asks for that. Must not be called within a pass. Raises what
        `tell` raises."""
        now_s = time.monotonic()
        if now_s < self._next_s:
            return
        self._next_s = now_s + LOOK_S
        if memory_is_short():
            worker.give_back_memory()
            if not self._reported:
                self._reported = True
                self._tell(protocol.MemoryShort())
