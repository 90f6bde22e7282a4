"""How far the costs that were measured beforehand have moved since, told by how long rounds take.

Only what a drafted round costs in plain passes matters to the policy, so a run of drafted rounds is compared with the
plain rounds right before and right behind it: a machine that becomes slower for everything, or is busy for a while,
changes nothing. What other work makes late now and then is kept out by medians, over the rounds of a run and over the
last runs; the fewer there were, the less they say; what is believed moves by at most STEP a round and by at most MOST
in all, little is taken for nothing, and all of it fades, or what was never tried again would be believed for ever.

A policy that looks at the clock drafts other lengths each time, so a reply that is to be repeatable goes without.
And it remembers how drafts came out, so replies that share one must have noise of their own: draft lengths that
depend on noise that is drawn again would bend the law.
"""

from __future__ import annotations

import math
from collections import defaultdict, deque
from statistics import fmean, median

RUNS = 15  # of each draft length that are remembered
DOUBT = 2.0  # runs that say nothing has moved, of each draft length
STEP, STRIDE = 0.05, 0.2  # in logs: what a round may change, what a run may
NOTICEABLE = 0.1  # what is less may be noise, and is taken for none
MOST = math.log(2.5)
FADES = 0.5 ** (1 / 512)  # of what is believed, each round
SOON, LATER, SELDOM = 4, 32, 128  # drafted rounds between plain ones: at first, later, and where drafting gains much
STRETCH = 3  # plain rounds right before a run that it is compared with

_Kind = tuple[int, int]  # whose draft, of how many tokens


class Drift:
    """Of one target with its drafters, over replies. Factors are of prices in plain passes."""

    def __init__(self) -> None:
        self._before: deque[float] = deque(maxlen=STRETCH)  # plain rounds before the run
        self._run: defaultdict[_Kind, list[float]] = defaultdict(list)
        self._runs: defaultdict[_Kind, deque[float]] = defaultdict(lambda: deque(maxlen=RUNS))
        self._logs: dict[_Kind, float] = {}
        self._drafted, self._waits = 0, SOON

    def saw(self, member: int, drafted: int, seconds: float, expected_s: float) -> None:
        """A round took so many seconds, where the costs measured beforehand come to `expected_s`."""
        if not (0 < seconds < math.inf and 0 < expected_s < math.inf):
            return
        for kind in self._logs:
            self._logs[kind] *= FADES
        taken = math.log(seconds / expected_s)
        if drafted:
            self._run[member, drafted].append(taken)
            self._drafted += 1
        else:
            self._saw_plain(taken)

    def factor(self, member: int, drafted: int) -> float:
        """What the price of such a round is to be multiplied by; of a length that was never seen, as of the nearest of
        that drafter."""
        return math.exp(self._log((member, drafted))) if drafted else 1.0

    def wants_plain(self, clear: bool) -> bool:
        """Whether it is time for a plain round to compare with. clear: whether drafting gains much."""
        return self._drafted >= (SELDOM if clear and self._waits == LATER else self._waits)

    def _saw_plain(self, taken: float) -> None:
        if self._run:
            if self._before:
                level = fmean((median(self._before), taken))
                for kind, run in self._run.items():
                    self._learn(kind, median(run) - level, len(run))
                self._waits = min(2 * self._waits, LATER)
            self._run.clear()
            self._before.clear()
            self._drafted = 0
        self._before.append(taken)

    def _learn(self, kind: _Kind, moved: float, rounds: int) -> None:
        runs, known = self._runs[kind], self._log(kind)
        runs.append(moved)
        found = median(runs) * (1 - DOUBT / (len(runs) + DOUBT))
        step = min(STEP * rounds, STRIDE)
        now = known + min(max((found if abs(found) > NOTICEABLE else 0.0) - known, -step), step)
        self._logs[kind] = min(max(now, -MOST), MOST)

    def _log(self, kind: _Kind) -> float:
        if kind in self._logs:
            return self._logs[kind]
        mine = [(abs(length - kind[1]), length, moved) for (who, length), moved in self._logs.items() if who == kind[0]]
        return min(mine)[2] if mine else 0.0
