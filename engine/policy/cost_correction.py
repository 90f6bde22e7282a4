"""A correction of the measured costs by how long rounds take: one factor between a half and two.

Only what a drafted round costs in plain rounds matters to the policy, so drafted rounds are compared with plain ones: a
machine that becomes slower for everything changes nothing for long.

A policy that looks at the clock drafts other lengths each time, so a reply that must be repeatable goes without. And
the correction remembers how drafts came out, so replies that share one must have noise of their own: draft lengths
that depend on noise that is drawn again would change the distribution.
"""

from __future__ import annotations

import math

MOST = math.log(2)  # of the correction, either way
WEIGHT = 1 / 5  # of a round in the averages
FADE = 1 / 500  # of the correction at each plain round, or drafting would never be tried again


class CostCorrection:
    """The factor for one target and its drafters, kept over replies."""

    def __init__(self) -> None:
        self._plain = self._drafted = 0.0  # logarithms of measured over predicted time, averaged

    @property
    def factor(self) -> float:
        """What the predicted time of a drafted round is to be multiplied by."""
        return math.exp(min(max(self._drafted - self._plain, -MOST), MOST))

    def observe(self, drafted: bool, measured_s: float, predicted_s: float) -> None:
        """Learns how long a round took."""
        if not (0 < measured_s < math.inf and 0 < predicted_s < math.inf):
            return
        ratio = math.log(measured_s / predicted_s)
        if drafted:
            self._drafted += WEIGHT * _clamp(ratio - self._drafted)
        else:
            self._plain += WEIGHT * _clamp(ratio - self._plain)
            self._drafted += FADE * (self._plain - self._drafted)


def _clamp(surprise: float) -> float:
    """Limits what one late round can say."""
    return min(max(surprise, -MOST), MOST)
