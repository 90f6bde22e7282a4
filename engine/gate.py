"""How far one chain goes, decided while it is drafted from how sure the drafter is.

A drafter's own probability says much about whether the target will keep a token; how much is learnt as it goes. The
decision may look at laws only, never at a token drawn from one, or rejection sampling would no longer keep the
target's law: a token that was drawn and dropped because of what it is would be missing. That alone is not enough: the
law at a place depends on the tokens drawn before it, so the length of a draft tells of noise behind a refused token. No
later round may use that noise again, which `Chooser.draft` sees to.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field

BINS = 10
WEIGHT = 6.0  # trials that the prior of a bin is worth
MEMORY = 0.995  # a token


class Reliability:
    """The chance that a drafted token is kept, by the largest probability of the law it was drawn from.

    Starts from believing the drafter; a bin's neighbours count a little, so that rare ones are not guesses.
    """

    def __init__(self) -> None:
        self._hits = [0.0] * BINS
        self._trials = [0.0] * BINS

    def chance(self, confidence: float) -> float:
        """confidence: from 0 to 1."""
        bin_ = _bin(confidence)
        hits, trials = WEIGHT * min(max(confidence, 0.02), 0.98), WEIGHT
        for i, weight in ((bin_ - 1, 0.25), (bin_, 1.0), (bin_ + 1, 0.25)):
            if 0 <= i < BINS:
                hits, trials = hits + weight * self._hits[i], trials + weight * self._trials[i]
        return hits / trials

    def learn(self, confidence: float, kept: bool) -> None:
        bin_ = _bin(confidence)
        self._hits[bin_] = MEMORY * self._hits[bin_] + kept
        self._trials[bin_] = MEMORY * self._trials[bin_] + 1


@dataclass
class Gate:
    """Of one round. prices: of a round by draft length, in plain passes, its drafting included; steps: of drafting
    alone. rate: tokens a plain pass that the reply makes otherwise, which a token must beat to be worth its price.
    chances: of each place, before anything is known of it."""

    reliability: Reliability
    prices: Sequence[float]
    steps: Sequence[float]
    rate: float
    chances: Sequence[float]
    confidences: list[float] = field(default_factory=list)
    refused: float | None = None  # chance of the token that was not worth verifying
    _reach: float = 1.0

    def takes(self, confidence: float) -> bool:
        """Whether the next token, whose law has been computed already, is worth verifying, with what may follow it."""
        place, chance = len(self.confidences), self.reliability.chance(confidence)
        if self._gain(chance, self.steps[place + 1] - self.steps[place]) < 0:
            self.refused = chance
            return False
        self.confidences.append(confidence)
        self._reach *= chance
        return True

    def goes_on(self) -> bool:
        """Whether one more token, or several, are worth drafting and verifying."""
        place = len(self.confidences)
        return place + 1 < len(self.prices) and self._gain(self.chances[place], 0.0) > 0

    def _gain(self, chance: float, sunk: float) -> float:
        """Most that can be won from here on, in tokens: the first further row may be dear and the next ones cheap.

        chance: of the next token. sunk: the price of drafting it, where that is paid already.
        """
        place, reach, tokens, best = len(self.confidences), self._reach, 0.0, -math.inf
        for length in range(place, len(self.prices) - 1):
            reach *= chance if length == place else self.chances[length]
            tokens += reach
            best = max(best, tokens - self.rate * (self.prices[length + 1] - self.prices[place] - sunk))
        return best

    def learn(self, tokens: int, accepted: int) -> None:
        """The round gave so many tokens, the first `accepted` of them from the draft."""
        for i, confidence in enumerate(self.confidences[:tokens]):
            if i <= accepted:
                self.reliability.learn(confidence, i < accepted)


def open_gate(longest: int) -> Gate:
    """One that lets `longest` tokens pass."""
    return Gate(Reliability(), [0.0] * (longest + 1), [0.0] * (longest + 1), 0.0, [1.0] * longest)


def _bin(confidence: float) -> int:
    return min(int(max(confidence, 0.0) * BINS), BINS - 1)
