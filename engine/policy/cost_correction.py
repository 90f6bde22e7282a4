"""A correction of the measured costs by how long rounds take: one factor between a half and two.

Only what a drafted round costs in plain rounds matters to the policy, so drafted rounds are compared with plain ones: a
machine that becomes slower for everything changes nothing for long.

A policy that looks at the clock drafts different lengths each time, so a reply that must be repeatable goes without.
And the correction remembers how drafts came out, so replies that share one must each draw their own noise: draft
lengths that depend on noise that is used again would change the distribution.
"""

from __future__ import annotations

import math

MOST = math.log(2)  # of the correction, either way
WEIGHT = 1 / 5  # of a round in the averages
FADE = 1 / 500  # of the correction at each plain round, or drafting would never be tried again
REFUTED, ROUNDS = math.log(1.3), 32  # one this large after this many drafted rounds says that the costs are wrong


class CostCorrection:
    """The factor for one target and its drafters, kept over replies."""

    def __init__(self) -> None:
        self._plain = self._drafted = 0.0  # logarithms of measured over predicted time, averaged
        self._rounds = 0  # drafted ones that were timed

    @property
    def factor(self) -> float:
        """What the predicted time of a drafted round is to be multiplied by."""
        return math.exp(min(max(self._drafted - self._plain, -MOST), MOST))

    @property
    def refutes(self) -> bool:
        """Whether enough drafted rounds took so much longer or shorter than the costs say that the costs should be
        measured again: the machine was busy when they were measured, or has changed."""
        return self._rounds >= ROUNDS and abs(math.log(self.factor)) > REFUTED

    def observe(self, drafted: bool, measured_s: float, predicted_s: float) -> None:
        """Learns how long a round took."""
        if not (0 < measured_s < math.inf and 0 < predicted_s < math.inf):
            return
        ratio = math.log(measured_s / predicted_s)
        if drafted:
            self._rounds += 1
            self._drafted += WEIGHT * _clamp(ratio - self._drafted)
        else:
            self._plain += WEIGHT * _clamp(ratio - self._plain)
            self._drafted += FADE * (self._plain - self._drafted)


def _clamp(surprise: float) -> float:
    """Limits what one late round can say."""
    return min(max(surprise, -MOST), MOST)
