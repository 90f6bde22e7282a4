"""The expected number of rounds along a known text, from the probability that each drafted token is accepted.

Shapes: n tokens of the reply, drafts of at most `longest` tokens. A draft that starts before token i and has a
tokens accepted ends its round at token i + a, which is the target's own; the next one starts before token i + a + 1.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Counts = NDArray[np.int64]


@dataclass(frozen=True)
class ChainAcceptance:
    """How far drafted chains are accepted along one reply.

    survival: (n, longest + 1), the probability that at least so many tokens of a draft before token i are accepted; 1
    in column 0, 0 past the end of the reply. member: (n,) which of several drafters proposes the draft. most: (n,) the
    tokens that it has at most; None where that is `longest` everywhere.
    """

    survival: Floats
    member: Counts
    most: Counts | None = None

    @property
    def longest(self) -> int:
        return int(self.survival.shape[1]) - 1


@dataclass(frozen=True)
class ExpectedRounds:
    """The rounds of one reply, on average.

    starts: (n,) the probability that a round starts before token i. drafted: (n,) tokens drafted in that round.
    reached, kept: by position in the draft, the rounds that verified it and the rounds that accepted it.
    """

    starts: Floats
    drafted: Counts
    reached: Floats
    kept: Floats

    @property
    def rounds(self) -> float:
        return float(self.starts.sum())


def survival_probs(accepted: Floats, longest: int) -> Floats:
    """Returns `ChainAcceptance.survival`. accepted: (depths, n), the probability that token i, drafted at that depth,
    is accepted if those before it were. The last depth stands for all deeper ones."""
    depths, n = accepted.shape
    survival = np.zeros((n, longest + 1))
    survival[:, 0] = 1.0
    for depth in range(min(longest, n)):
        at_depth = accepted[min(depth, depths - 1), depth:]
        survival[: n - depth, depth + 1] = survival[: n - depth, depth] * at_depth
    return survival


def expected_rounds(acceptance: ChainAcceptance, length: int, limit: int | None = None) -> ExpectedRounds:
    """Returns the rounds with drafts of `length` tokens. limit: the most tokens the reply could have had; no draft
    goes past it."""
    n = len(acceptance.survival)
    drafted = np.full(n, min(length, acceptance.longest), np.int64)
    if acceptance.most is not None:
        drafted = np.minimum(drafted, acceptance.most)
    if limit is not None:
        drafted = np.minimum(drafted, limit - 1 - np.arange(n))
    starts = np.zeros(n)
    starts[:1] = 1.0
    for place in range(n):
        if not starts[place]:
            continue
        survival = acceptance.survival[place, : drafted[place] + 1]
        ends = survival - np.append(survival[1:], 0.0)
        following = starts[place + 1 : place + 1 + len(ends)]
        following += starts[place] * ends[: len(following)]
    depths = np.arange(acceptance.longest)
    verified = (depths < drafted[:, None]) & (np.arange(n)[:, None] + depths < n)
    reached = (starts[:, None] * acceptance.survival[:, :-1] * verified).sum(0)
    kept = (starts[:, None] * acceptance.survival[:, 1:] * verified).sum(0)
    return ExpectedRounds(starts, drafted, reached, kept)
