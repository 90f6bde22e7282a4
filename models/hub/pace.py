"""How fast it comes and how long it will take."""

from collections import deque
from collections.abc import Callable

WINDOW_S = 5.0
_SHORTEST_S = 1.0  # before it, the first answers' delay is most of what is measured


class Pace:
    """Speed over the last WINDOW_S seconds, so that a pause or a burst is forgotten soon. clock: seconds."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._begun_s = clock()
        self._came: deque[tuple[float, int]] = deque()
        self._bytes = 0

    def add(self, count: int) -> None:
        """`count` bytes came over the network."""
        self._came.append((self._clock(), count))
        self._bytes += count

    def bytes_per_s(self) -> float | None:
        """None until there is enough to tell."""
        now_s = self._clock()
        while self._came and self._came[0][0] < now_s - WINDOW_S:
            self._bytes -= self._came.popleft()[1]
        span_s = min(now_s - self._begun_s, WINDOW_S)
        return self._bytes / span_s if span_s >= _SHORTEST_S else None

    def eta_s(self, left_bytes: int) -> float | None:
        """Seconds until `left_bytes` are here at this speed; None where it is not known or nothing comes."""
        speed = self.bytes_per_s()
        return left_bytes / speed if speed else None
