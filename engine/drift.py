"""How far the costs that were measured beforehand have moved since, told by how long rounds take.

Only what a drafted round costs in plain passes matters to the policy, so rounds are compared with the plain rounds of
the same while: a machine that is slower for everything changes nothing. Medians of the last rounds of a kind, as other
work on the machine makes single ones late; the fewer there were, the less they say; what is believed moves by at most
STEP a round and by at most MOST in all, and little is taken for nothing.

A policy that looks at the clock drafts other lengths each time, so a reply that is to be repeatable goes without.
"""

from __future__ import annotations

import math
from collections import defaultdict, deque
from statistics import median

LAST = 31  # rounds of each kind
OLDEST = 512  # rounds ago that still count
FEWEST = 3  # plain rounds to compare with
DOUBT = 4.0  # rounds that say nothing has moved, of each draft length
STEP = 0.05
NOTICEABLE = 0.12  # what is less may be noise, and is taken for none
MOST = math.log(2.5)
SOON, LATER, SELDOM = 4, 32, 128  # drafted rounds between plain ones to compare with
PLAIN = (-1, 0)

_Kind = tuple[int, int]  # whose draft, of how many tokens; PLAIN


class Drift:
    """Of one target with its drafters, over replies. Factors are of prices in plain passes."""

    def __init__(self) -> None:
        self._seen: defaultdict[_Kind, deque[tuple[int, float]]] = defaultdict(lambda: deque(maxlen=LAST))
        self._counts: defaultdict[_Kind, int] = defaultdict(int)
        self._logs: dict[_Kind, float] = {}
        self._now = self._plain_at = 0

    def saw(self, member: int, drafted: int, seconds: float, expected_s: float) -> None:
        """A round took so many seconds, where the costs measured beforehand come to `expected_s`."""
        if not (seconds > 0 and expected_s > 0):
            return
        kind = (member, drafted) if drafted else PLAIN
        self._now += 1
        self._seen[kind].append((self._now, math.log(seconds / expected_s)))
        self._counts[kind] += 1
        if not drafted:
            self._plain_at = self._now
            return
        plain = self._of(PLAIN)
        if len(plain) >= FEWEST:
            known = self._log(kind)
            found = (median(self._of(kind)) - median(plain)) * (1 - DOUBT / (self._counts[kind] + DOUBT))
            found = found if abs(found) > NOTICEABLE else 0.0
            moved = known + min(max(found - known, -STEP), STEP)
            self._logs[kind] = min(max(moved, -MOST), MOST)

    def factor(self, member: int, drafted: int) -> float:
        """What the price of such a round is to be multiplied by; of a length that was never seen, as of the nearest of
        that drafter."""
        return math.exp(self._log((member, drafted))) if drafted else 1.0

    def wants_plain(self, clear: bool) -> bool:
        """Whether it is time for a plain round to compare with. clear: whether drafting gains much."""
        usual = SELDOM if clear else LATER
        return self._now - self._plain_at >= (SOON if len(self._of(PLAIN)) < FEWEST else usual)

    def _log(self, kind: _Kind) -> float:
        if kind in self._logs:
            return self._logs[kind]
        mine = [(abs(length - kind[1]), length, moved) for (who, length), moved in self._logs.items() if who == kind[0]]
        return min(mine)[2] if mine else 0.0

    def _of(self, kind: _Kind) -> list[float]:
        return [ratio for at, ratio in self._seen[kind] if at > self._now - OLDEST]
