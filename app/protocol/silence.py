"""How long a host may say nothing before whoever waits for it takes it for stuck: one rule for all who wait.

A host carries out what it was sent in order. So what it is at is the oldest request that it has not ended, whoever
still waits for that one, and only an answer to it shows that the host goes on: a thread of its own answers Stop. While
it works at one without a result it says Working, from between the layers of a pass. A load says nothing of that kind.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import takewhile

from app.protocol import AnyAnswer, LastAnswer
from app.protocol.messages import Failed, Load, Request, RequestAnswer

LATE_S = 1.0  # for a timer: this process has not run meanwhile, nor read what the host said
WORKING_S = 10.0  # between two answers to a request that a host works at
STUCK = "the engine is not responding and may be stuck"


@dataclass(frozen=True)
class SilenceLimits:
    """How long a host may be silent, in seconds. load_s, silent_s: between two answers to a load and to anything
    else."""

    load_s: float = 120.0
    silent_s: float = 45.0


class PendingRequests:
    """The requests that a host has, in order."""

    def __init__(self) -> None:
        self._is_load: dict[int, bool] = {}  # by the id of each request, the oldest first

    @property
    def loading(self) -> bool:
        """Whether the host is at a Load."""
        return next(iter(self._is_load.values()), False)

    def is_load(self, number: int) -> bool:
        """Whether the request with this id is a Load."""
        return self._is_load.get(number, False)

    def add(self, request: Request) -> bool:
        """Adds a request that was sent; returns whether the host is at it now."""
        self._is_load[request.id] = isinstance(request, Load)
        return len(self._is_load) == 1

    def hear(self, answer: AnyAnswer) -> bool:
        """Returns whether an answer shows that the host goes on."""
        if not isinstance(answer, RequestAnswer) or answer.id not in self._is_load:
            return False
        if not isinstance(answer, Failed):  # what came before is over, though its last answer is lost
            for older in list(takewhile(lambda number: number != answer.id, self._is_load)):
                del self._is_load[older]
        is_oldest = answer.id == next(iter(self._is_load))
        if isinstance(answer, LastAnswer):
            del self._is_load[answer.id]
        return is_oldest

    def allowed_s(self, limits: SilenceLimits) -> float | None:
        """Returns how long until the next answer; None where there is nothing to answer."""
        if not self._is_load:
            return None
        return limits.load_s if self.loading else limits.silent_s

    def clear(self) -> None:
        """There is another host."""
        self._is_load.clear()
