"""How far one chain goes, decided while it is drafted from how sure the drafter is.

A drafter's own probability says much about whether the target will accept a token; how much is learnt as it goes. The
decision may look at distributions only, never at a token drawn from one, or rejection sampling would no longer keep the
target's distribution: a token that was drawn and dropped because of what it is would be missing. That alone is not
enough: the distribution at a place depends on the tokens drawn before it, so the length of a draft tells of noise
behind a refused token. No later round may use that noise again, which `Sampler.draft` sees to.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field

WEIGHT = 16.0  # trials that the drafter's own word counts for
MEMORY = 0.99  # of a trial at each later one


class ConfidenceCalibration:
    """The probability that a drafted token is accepted, by the largest probability of its distribution.

    Starts from believing the drafter, and learns how often it is right for how often it says it is.
    """

    def __init__(self) -> None:
        self._accepted = self._promised = 0.0

    def prob(self, confidence: float) -> float:
        """Returns the acceptance probability of a token with this confidence, from 0 to 1."""
        return min(confidence * (WEIGHT + self._accepted) / (WEIGHT + self._promised), 0.98)

    def learn(self, confidence: float, accepted: bool) -> None:
        self._accepted = MEMORY * self._accepted + accepted
        self._promised = MEMORY * self._promised + confidence


@dataclass
class ConfidenceStop:
    """Decides where the draft of one round ends.

    prices: of a round by draft length, in plain steps, its drafting included. steps: of drafting alone. rate: tokens
    for a plain step that a further token must beat to be worth its price. probs: of acceptance at each place, before
    anything is known of this draft. declined: the acceptance probability of a token that was not worth verifying.
    """

    calibration: ConfidenceCalibration
    prices: Sequence[float]
    steps: Sequence[float]
    rate: float
    probs: Sequence[float]
    confidences: list[float] = field(default_factory=list)
    declined: float | None = None
    _reached: float = 1.0  # probability that all tokens so far are accepted

    def worth_verifying(self, confidence: float) -> bool:
        """Returns whether to verify the next token, whose distribution has been computed already."""
        place, prob = len(self.confidences), self.calibration.prob(confidence)
        if self._gain(prob, self.steps[place + 1] - self.steps[place]) < 0:
            self.declined = prob
            return False
        self.confidences.append(confidence)
        self._reached *= prob
        return True

    def worth_continuing(self) -> bool:
        """Returns whether to draft one more token, or several."""
        place = len(self.confidences)
        return place + 1 < len(self.prices) and self._gain(self.probs[place], 0.0) > 0

    def _gain(self, prob: float, paid: float) -> float:
        """Returns the most tokens that can be won by going on: the first further row may be dear and the next cheap.

        prob: of the next token. paid: the price of drafting it, where that is paid already.
        """
        place, reached, tokens, best = len(self.confidences), self._reached, 0.0, -math.inf
        for length in range(place, len(self.prices) - 1):
            reached *= prob if length == place else self.probs[length]
            tokens += reached
            best = max(best, tokens - self.rate * (self.prices[length + 1] - self.prices[place] - paid))
        return best

    def learn(self, tokens: int, accepted: int) -> None:
        """Learns from the round, which gave so many tokens, the first `accepted` of them drafted."""
        for place, confidence in enumerate(self.confidences[:tokens]):
            if place <= accepted:
                self.calibration.learn(confidence, place < accepted)


def always_continue(longest: int) -> ConfidenceStop:
    """Returns a stop that lets `longest` tokens pass."""
    free = [0.0] * (longest + 1)
    return ConfidenceStop(ConfidenceCalibration(), free, free, 0.0, [1.0] * longest)
