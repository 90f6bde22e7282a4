"""When each token of a reply is to be seen: spread over its round, so that a burst does not look like pasting."""

from __future__ import annotations

from collections import deque

LONGEST_LAG_S = 0.15  # what is shown is never further behind what was heard


class Pace:
    """A queue of moments, one a token, in order. Seconds on any one clock that only goes forward.

    still: tokens are shown as soon as they are heard, for whoever asked for reduced motion.
    """

    def __init__(self, still: bool = False) -> None:
        self.still = still
        self._due: deque[float] = deque()
        self._next_s = 0.0

    def __len__(self) -> int:
        """Tokens that wait."""
        return len(self._due)

    def add(self, count: int, duration_s: float, now_s: float) -> None:
        """`count` tokens came in a round that took `duration_s`."""
        latest_s = now_s + (0.0 if self.still else LONGEST_LAG_S)
        begin_s = min(max(self._next_s, now_s), latest_s)
        step_s = min(max(duration_s, 0.0), LONGEST_LAG_S) / max(count, 1)
        self._due.extend(min(begin_s + i * step_s, latest_s) for i in range(count))
        self._next_s = min(begin_s + count * step_s, latest_s)

    def take(self, now_s: float) -> int:
        """How many more tokens are to be seen by now."""
        count = 0
        while self._due and self._due[0] <= now_s:
            self._due.popleft()
            count += 1
        return count
