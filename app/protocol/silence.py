"""How long a host may say nothing before whoever waits for it takes it for stuck: one rule for all who wait.

A host carries out what it was sent in order. So what it is at is the oldest request that it has not ended, whoever
still waits for that one, and only an answer to it shows that the host goes on: a thread of its own answers Stop.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import takewhile

from app.protocol import AnyAnswer, LastAnswer
from app.protocol.messages import Failed, Load, Measuring, Request, RequestAnswer
from app.protocol.race_messages import RaceProgress

MEASURING_FACTOR = 8  # how much longer than usual a host may be silent while it measures what passes cost
STUCK = "the engine does not answer and may be stuck"


@dataclass(frozen=True)
class SilenceLimits:
    """How long a host may be silent, in seconds. load_s, silent_s: between two answers to a load and to anything
    else."""

    load_s: float = 120.0
    silent_s: float = 45.0

    def reply_s(self, measuring: bool) -> float:
        """Returns how long until the next answer to what is no load. measuring: as `measures` said of the last one."""
        return self.silent_s * (MEASURING_FACTOR if measuring else 1)


def measures(answer: AnyAnswer) -> bool:
    """Returns whether the host says nothing now until it has measured something: a race gets ready before run 1."""
    return isinstance(answer, Measuring) or (isinstance(answer, RaceProgress) and answer.run == 0)


class PendingRequests:
    """The requests that a host has, in order."""

    def __init__(self) -> None:
        self._loads: dict[int, bool] = {}  # by the id of a request: whether it is a Load
        self._measuring = False  # the oldest

    @property
    def loading(self) -> bool:
        """Whether the host is at a Load."""
        return next(iter(self._loads.values()), False)

    def is_load(self, number: int) -> bool:
        """Whether the request with this id is a Load."""
        return self._loads.get(number, False)

    def add(self, request: Request) -> bool:
        """Adds a request that was sent; returns whether the host is at it now."""
        self._loads[request.id] = isinstance(request, Load)
        return len(self._loads) == 1

    def hear(self, answer: AnyAnswer) -> bool:
        """Returns whether an answer shows that the host goes on."""
        if not isinstance(answer, RequestAnswer) or answer.id not in self._loads:
            return False
        if not isinstance(answer, Failed):  # what came before is over, though its last answer is lost
            for older in list(takewhile(lambda number: number != answer.id, self._loads)):
                del self._loads[older]
        is_oldest = answer.id == next(iter(self._loads))
        if is_oldest:
            self._measuring = measures(answer)
        if isinstance(answer, LastAnswer):
            del self._loads[answer.id]
        return is_oldest

    def allowed_s(self, limits: SilenceLimits) -> float | None:
        """Returns how long until the next answer; None where there is nothing to answer."""
        if not self._loads:
            return None
        return limits.load_s if self.loading else limits.reply_s(self._measuring)

    def clear(self) -> None:
        """There is another host."""
        self._loads.clear()
        self._measuring = False
