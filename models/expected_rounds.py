"""The expected number of rounds along a known text, from the probability that each drafted token is accepted.

Shapes: n tokens of the reply, drafts of at most `longest` tokens. A draft that starts before token i and has a
tokens accepted ends its round at token i + a, which is the target's own; the next one starts before token i + a + 1.
`survival` (n, longest + 1) is the probability that at least so many tokens of a draft before token i are accepted: 1 in
column 0, 0 past the end of the reply.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Counts = NDArray[np.int64]


@dataclass(frozen=True)
class ExpectedRounds:
    """The rounds of one reply, on average.

    starts: (n,) the probability that a round starts before token i. reached, kept: by position in the draft, the rounds
    that verified it and the rounds that accepted it.
    """

    starts: Floats
    reached: Floats
    kept: Floats

    @property
    def rounds(self) -> float:
        return float(self.starts.sum())


def survival_probs(accepted: Floats, longest: int) -> Floats:
    """Returns `survival`. accepted: (depths, n), the probability that token i, drafted at that depth, is accepted if
    those before it were. The last depth stands for all deeper ones."""
    depths, n = accepted.shape
    survival = np.zeros((n, longest + 1))
    survival[:, 0] = 1.0
    for depth in range(min(longest, n)):
        at_depth = accepted[min(depth, depths - 1), depth:]
        survival[: n - depth, depth + 1] = survival[: n - depth, depth] * at_depth
    return survival


def expected_rounds(survival: Floats, lengths: Counts) -> ExpectedRounds:
    """Returns the rounds with drafts of `lengths` (n,) tokens; of a tree, as many as it has levels. Nothing after so
    many survives."""
    n, longest = survival.shape[0], survival.shape[1] - 1
    ends = survival - np.pad(survival[:, 1:], ((0, 0), (0, 1)))
    starts = np.zeros(n + longest + 1)
    starts[:1] = 1.0
    for place in range(n):
        starts[place + 1 : place + longest + 2] += starts[place] * ends[place]
    starts = starts[:n]
    verified = starts[:, None] * (np.arange(longest) < np.minimum(lengths, n - np.arange(n))[:, None])
    reached, kept = (survival[:, :-1] * verified).sum(0), (survival[:, 1:] * verified).sum(0)
    return ExpectedRounds(starts, reached, kept)
