"""The watchdog of the engine: how long it may be silent before it counts as stuck.

A host carries out its requests in order, but for replies, which it writes at once, and counts, which it answers
meanwhile too. It is working on the oldest one that has not ended, even if nobody waits for that one any more. An answer
to it, to a reply that is written with it, or to a count shows progress; that a request has failed may not, as Stop is
answered by another thread, and so are programs.
While a request has no result yet, and whenever it works for a program, the host sends a heartbeat, Working, from
between the layers of a pass, but not during a load.
"""

from dataclasses import dataclass
from itertools import takewhile

from app.protocol import AnyAnswer, LastAnswer, Waiting
from app.protocol.messages import Count, Failed, Load, Reply, Request, RequestAnswer, Working

LATE_S = 1.0  # a timer this late: this process did not run meanwhile, nor read what the host sent
HEARTBEAT_S = 10.0  # between two answers to a request that a host is working on
STUCK = "the engine is not responding and may be stuck"


@dataclass(frozen=True)
class WatchdogLimits:
    """How long the engine may make no progress, in seconds. load_s, silent_s: with a load and with anything else."""

    load_s: float = 120.0
    silent_s: float = 45.0

    def allowed_s(self, loading: bool) -> float:
        """Returns the limit. loading: whether the engine is carrying out a Load."""
        return self.load_s if loading else self.silent_s


class PendingRequests:
    """The requests that a host has, in order. serves: whether it is working for another program as well."""

    def __init__(self) -> None:
        self.serves = False
        self._kinds: dict[int, type[Request]] = {}  # by the id of each request, the oldest first

    @property
    def loading(self) -> bool:
        """Whether the host is carrying out a Load."""
        return next(iter(self._kinds.values()), None) is Load

    def add(self, request: Request) -> bool:
        """Adds a request that was sent; returns whether the host is working on it now."""
        self._kinds[request.id] = type(request)
        return len(self._kinds) == 1

    def note(self, answer: AnyAnswer) -> bool:
        """Notes an answer; returns whether it shows progress."""
        if isinstance(answer, Working) and not answer.id:  # for a program, before all that is pending here
            return True
        if not isinstance(answer, RequestAnswer) or answer.id not in self._kinds:
            return False
        kind, failed = self._kinds[answer.id], isinstance(answer, Failed)
        # Where it has begun, earlier ones that do not run beside it are over: their ends were lost.
        if not (failed or kind is Count or isinstance(answer, Waiting)):
            for older in list(takewhile(lambda number: number != answer.id, self._kinds)):
                if not (kind is Reply and self._kinds[older] is Reply):
                    del self._kinds[older]
        shows_progress = not failed or answer.id == next(iter(self._kinds))
        if isinstance(answer, LastAnswer):
            del self._kinds[answer.id]
        return shows_progress

    def allowed_s(self, limits: WatchdogLimits) -> float | None:
        """Returns how long the next answer may take; None where nothing is to be answered."""
        if not self._kinds and not self.serves:
            return None
        return limits.allowed_s(self.loading)

    def clear(self) -> None:
        """Forgets all requests, as the host is being replaced."""
        self._kinds.clear()
        self.serves = False
