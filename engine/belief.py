"""What is believed of one drafter's chance to be right: weights over a few chances that it may have now.

The chance is taken to stay for a while and then to be drawn anew, about every hundred tokens (a hidden Markov chain,
Baum 1966, of which only the filter is needed). So a few rounds of evidence move it far, a changing text is followed,
and what was learnt long ago slowly counts for nothing. All places of a draft tell about the one chance; that a place
is better or worse than it is learnt apart, as a factor.

Before anything is known, and ever anew, the chance is drawn from all of `CHANCES` alike; where the drafter's usual
one was measured when it was made, from around that, so that a reply need not begin with finding out.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from itertools import pairwise
from operator import mul

CHANCES = (0.02, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 0.95, 0.98)
USUAL_WEIGHT = 8.0  # trials that a usual chance is worth: texts differ from it by about 0.16 either way
UNUSUAL = 0.1  # of texts, about which it says nothing
FACTORS = 0.5, 2.0  # that the usual chance of a place may be of what it would be if all places were alike
RENEWAL = 0.01  # that the chance is drawn anew at a token
PLACE_WEIGHT, PLACE_MEMORY = 12.0, 0.99  # trials that a factor of 1 is worth; what a trial counts a round later


class Belief:
    """About a drafter of chains up to `longest` tokens. usual: its chances on other text, as `chances` gives them, as
    far as they are known."""

    def __init__(self, longest: int, usual: Sequence[float] = ()) -> None:
        self._fresh = _fresh(usual[0] if usual else None)
        self._weights = list(self._fresh)
        self._foreseen = [PLACE_WEIGHT] * longest
        self._raw: list[float] | None = None
        self._kept = [PLACE_WEIGHT * factor for factor in self._factors(usual[:longest])]

    def chances(self) -> list[float]:
        """Of each place, given that the places before it were kept: (longest,)."""
        found = zip(self._alike(), self._kept, self._foreseen, strict=True)
        return [min(chance * kept / foreseen, 1.0) for chance, kept, foreseen in found]

    def learn(self, judged: int, accepted: int) -> None:
        """`judged` places were decided about, the first `accepted` of them were kept."""
        for i, foreseen in enumerate(self._alike()[:judged]):
            self._count(i, float(i < accepted), foreseen)
        self._weigh([p**accepted * (1 - p if judged > accepted else 1) for p in CHANCES])

    def suppose(self, chance: float) -> None:
        """The first place was not tried, as it would have been kept with this chance only."""
        self._count(0, chance, self._alike()[0])
        self._weigh([chance * p + (1 - chance) * (1 - p) for p in CHANCES])

    def elapse(self, tokens: int) -> None:
        """So many tokens went by."""
        self._weights, self._raw = self._later(tokens), None

    def later(self, tokens: int) -> Belief:
        """What this will have become when so many more tokens have gone by and nothing more is known."""
        if not tokens:
            return self
        other = Belief(len(self._kept))
        other._fresh, other._weights = self._fresh, self._later(tokens)
        other._kept, other._foreseen = self._kept, self._foreseen
        return other

    def ignorance(self, savings: Sequence[Sequence[float]]) -> float:
        """What it would be worth to be told the chance: the mean of the best by each chance, less the best by the mean
        (the expected value of perfect information, Raiffa and Schlaifer 1961).

        savings: by what could be done, by chance.
        """
        told = _dot(self._weights, [max(column) for column in zip(*savings, strict=True)])
        return told - max(_dot(self._weights, row) for row in savings)

    def _later(self, tokens: int) -> list[float]:
        stays = (1 - RENEWAL) ** tokens
        return [stays * weight + (1 - stays) * fresh for weight, fresh in zip(self._weights, self._fresh, strict=True)]

    def _alike(self) -> list[float]:
        """What the chances would be if all places were alike: a deep one is reached where the chance is good."""
        if self._raw is None:
            reaches = [1.0, *(_dot(self._weights, _powers(i + 1)) for i in range(len(self._foreseen)))]
            self._raw = [after / before for before, after in pairwise(reaches)]
        return self._raw

    def _count(self, place: int, hit: float, foreseen: float) -> None:
        kept, expected = self._kept[place], self._foreseen[place]
        self._kept[place] = PLACE_WEIGHT + PLACE_MEMORY * (kept - PLACE_WEIGHT) + hit
        self._foreseen[place] = PLACE_WEIGHT + PLACE_MEMORY * (expected - PLACE_WEIGHT) + foreseen

    def _factors(self, usual: Sequence[float]) -> list[float]:
        """Of each place; 1 where nothing is known of it."""
        least, most = FACTORS
        known = zip(usual, self._alike(), strict=False) if usual else ()
        found = [min(max(chance / alike, least), most) for chance, alike in known]
        return found + [1.0] * (len(self._foreseen) - len(found))

    def _weigh(self, likelihoods: Sequence[float]) -> None:
        weighed = list(map(mul, self._weights, likelihoods))
        self._weights, self._raw = [weight / sum(weighed) for weight in weighed], None


def tokens_of(longest: int) -> list[list[float]]:
    """Tokens of a round by draft length, 0 included, and by each of `CHANCES`: (longest + 1, chances)."""
    rows = [[1.0] * len(CHANCES)]
    for i in range(longest):
        rows.append([tokens + power for tokens, power in zip(rows[-1], _powers(i + 1), strict=True)])
    return rows


@cache
def _fresh(usual: float | None) -> tuple[float, ...]:
    """Weights of `CHANCES` before anything is known: all alike, or mostly by a beta law of `USUAL_WEIGHT` trials."""
    alike = 1 / len(CHANCES)
    if usual is None:
        return (alike,) * len(CHANCES)
    kept = USUAL_WEIGHT * usual
    weights = [p**kept * (1 - p) ** (USUAL_WEIGHT - kept) for p in CHANCES]
    return tuple(UNUSUAL * alike + (1 - UNUSUAL) * weight / sum(weights) for weight in weights)


def _dot(weights: Sequence[float], values: Sequence[float]) -> float:
    return sum(map(mul, weights, values), 0.0)


@cache
def _powers(exponent: int) -> tuple[float, ...]:
    return tuple(chance**exponent for chance in CHANCES)
