"""How many rounds a known text takes, from the chance that each drafted token is kept.

Shapes: n tokens of the reply, drafts of at most `longest` tokens. A draft made before token i and kept for a tokens
ends its round at token i + a, which is the target's own, and the next one is made before token i + a + 1.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Counts = NDArray[np.int64]


@dataclass(frozen=True)
class Chances:
    """Of one reply.

    reach: (n, longest + 1), the chance that a draft made before token i is kept for at least so many tokens; 1 in
    column 0, 0 past the end of the reply. member: (n,) which of several drafters makes it.
    """

    reach: Floats
    member: Counts

    @property
    def longest(self) -> int:
        return int(self.reach.shape[1]) - 1


@dataclass(frozen=True)
class Course:
    """The rounds of one reply, on average.

    visits: (n,) the chance that a round begins before token i. drafted: (n,) tokens that it then drafts. reached,
    kept: by place in the draft, rounds that decided about it and rounds that kept it.
    """

    visits: Floats
    drafted: Counts
    reached: Floats
    kept: Floats

    @property
    def rounds(self) -> float:
        return float(self.visits.sum())


def reach_of(kept: Floats, longest: int) -> Floats:
    """`Chances.reach` from the chance (depths, n) that token i, drafted at that depth, is kept where those before it
    were. The last depth stands for all further ones."""
    depths, n = kept.shape
    reach = np.zeros((n, longest + 1))
    reach[:, 0] = 1.0
    for depth in range(min(longest, n)):
        there = kept[min(depth, depths - 1), depth:]
        reach[: n - depth, depth + 1] = reach[: n - depth, depth] * there
    return reach


def course(chances: Chances, length: int, limit: int | None = None) -> Course:
    """Rounds with drafts of `length` tokens, in a reply that could have had `limit`: no draft goes past that."""
    n = len(chances.reach)
    drafted = np.full(n, min(length, chances.longest), np.int64)
    if limit is not None:
        drafted = np.minimum(drafted, limit - 1 - np.arange(n))
    visits = np.zeros(n)
    visits[:1] = 1.0
    for place in range(n):
        if not visits[place]:
            continue
        reach = chances.reach[place, : drafted[place] + 1]
        ends = reach - np.append(reach[1:], 0.0)
        behind = visits[place + 1 : place + 1 + len(ends)]
        behind += visits[place] * ends[: len(behind)]
    depths = np.arange(chances.longest)
    decided = (depths < drafted[:, None]) & (np.arange(n)[:, None] + depths < n)
    reached = (visits[:, None] * chances.reach[:, :-1] * decided).sum(0)
    kept = (visits[:, None] * chances.reach[:, 1:] * decided).sum(0)
    return Course(visits, drafted, reached, kept)
