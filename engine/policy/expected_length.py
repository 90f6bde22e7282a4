"""How many tokens a draft is expected to bring, estimated from what came of earlier drafts.

Estimates depend on rounds only, never on the clock, and forget: the present passage of the text counts most.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass, field
from functools import cache
from itertools import accumulate, pairwise
from operator import mul
from typing import Protocol

from engine.events import Round

PROBS = (0.02, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 0.95, 0.98)  # acceptance probabilities considered
RENEWAL = 0.01  # probability per token that the text changes and the acceptance probability is drawn anew
PRIOR_WEIGHT = 8.0  # trials that a usual acceptance rate counts for; texts differ from it by about 0.16
UNUSUAL = 0.25  # share of texts about which the usual rate says nothing
COUNTED, OFTEN = 300.0, 30  # drafts that count of earlier replies; times that a place must be reached to be judged
MUCH = 1e6  # drafts that count of a rate which is known from much text
PLACE_FACTORS = 0.6, 1.7  # bounds of how much better or worse than all together a place may be
TREE_WEIGHT, TREE_MEMORY = 4.0, 0.97  # accepted tokens that a tree's curve counts for; decay per token

# Nodes of the trees that are considered: with the target's own row they fill 2, 4, 8, 16 and 32 rows. One row more
# would be another step of Metal's kernels (engine/README.md).
TREE_SIZES = (1, 3, 7, 15, 31)

# Tokens beyond the first that a tree of so many nodes brings, as a share of what the largest does: the shape of the
# published curves (Medusa's figure 7, EAGLE-2's table 5), for trees that were never measured.
TREE_SHAPE = dict(zip(TREE_SIZES, (0.25, 0.49, 0.68, 0.84, 1.0), strict=True))


class ExpectedLength(Protocol):
    """The expected length of rounds with one drafter."""

    def expected(self, hint: float | None) -> Mapping[int, float]:
        """Returns the expected tokens of a round by draft length, the target's own token included."""

    def learn(self, round_: Round, hint: float | None) -> None:
        """Learns from a round with a draft."""

    def elapse(self, tokens: int) -> None:
        """Forgets a little: so many tokens were committed, drafted or not."""


@dataclass
class AcceptanceCounts:
    """How often each place of a chain was reached and accepted in the replies of one pair, the latest counting most.
    reached, accepted: (longest seen,)."""

    reached: list[float] = field(default_factory=list)
    accepted: list[float] = field(default_factory=list)

    @classmethod
    def of(cls, rates: Sequence[float]) -> AcceptanceCounts:
        """Returns counts that show these acceptance rates, as measured on much other text."""
        reached = list(accumulate(rates, mul, initial=MUCH))
        return cls(reached[:-1], reached[1:])

    def add(self, round_: Round) -> None:
        """Counts the places of a chain that were decided on: not what lies behind the end of the reply."""
        decided = min(round_.depth, len(round_.tokens))
        longer = max(0, decided - len(self.reached))
        self.reached, self.accepted = [*self.reached, *[0.0] * longer], [*self.accepted, *[0.0] * longer]
        for place in range(decided):
            self.reached[place] += 1
            self.accepted[place] += place < round_.accepted

    @property
    def is_sound(self) -> bool:
        """Whether these are counts: a file may hold anything."""
        pairs = zip(self.accepted, self.reached, strict=False)
        return len(self.accepted) == len(self.reached) and all(0 <= kept <= seen < math.inf for kept, seen in pairs)

    def fade(self) -> None:
        """Begins another reply: what is older than `COUNTED` rounds hardly counts."""
        share = COUNTED / max(COUNTED, *self.reached[:1], 1.0)
        self.reached = [share * count for count in self.reached]
        self.accepted = [share * count for count in self.accepted]

    @property
    def rates(self) -> tuple[float, ...]:
        """The acceptance rate of each place that was reached often enough to tell it from that of all together."""
        pairs = zip(self.accepted, self.reached, strict=True)
        return tuple(accepted / reached for accepted, reached in pairs if reached >= OFTEN)


class AcceptanceEstimate:
    """An estimate of the acceptance probability at each place of a chain.

    The filter of a hidden Markov model (Baum 1966): one probability holds for all places and is redrawn every hundred
    tokens or so. earlier: of other text; where the estimate begins, and how much better or worse each place is than
    all together.
    """

    def __init__(self, longest: int, earlier: AcceptanceCounts | None = None) -> None:
        earlier = earlier or AcceptanceCounts()
        self._prior = self._weights = _prior(sum(earlier.accepted), sum(earlier.reached))
        self._factors = [1.0] * longest
        rates = earlier.rates
        if rates and rates[0] > 0:  # else no other place is ever reached
            ratios = [rate / common for rate, common in zip(rates, self.probs(), strict=False)]
            together = sum(map(mul, ratios, earlier.reached)) / sum(earlier.reached[: len(ratios)])
            least, most = PLACE_FACTORS
            self._factors[: len(ratios)] = [min(max(ratio / together, least), most) for ratio in ratios]

    def probs(self) -> list[float]:
        """Returns the probability at each place, given that the places before it were accepted: (longest,)."""
        powers = [sum(map(mul, self._weights, _powers(n))) for n in range(len(self._factors) + 1)]
        common = (longer / shorter for shorter, longer in pairwise(powers))
        return [min(prob * factor, 1.0) for prob, factor in zip(common, self._factors, strict=True)]

    def learn(self, accepted: float, refused: float) -> None:
        """Learns that so many places were accepted and refused."""
        weights = [weight * p**accepted * (1 - p) ** refused for weight, p in zip(self._weights, PROBS, strict=True)]
        self._weights = tuple(weight / sum(weights) for weight in weights)

    def elapse(self, tokens: int) -> None:
        """Moves back towards the prior, as so many tokens were committed."""
        stays = (1 - RENEWAL) ** tokens
        both = zip(self._weights, self._prior, strict=True)
        self._weights = tuple(stays * weight + (1 - stays) * prior for weight, prior in both)


class ChainExpectedLength:
    """The expected length of rounds with chains of up to `longest` tokens, with one estimate for each hint. earlier: as
    in `AcceptanceEstimate`, as it is now."""

    def __init__(self, longest: int = 8, earlier: AcceptanceCounts | None = None) -> None:
        self.longest, self._earlier = longest, deepcopy(earlier)
        self._estimates: dict[float | None, AcceptanceEstimate] = {}

    def probs(self, hint: float | None = None) -> list[float]:
        """Returns the acceptance probability at each place, given that the places before it were accepted."""
        return self._of(hint).probs()

    def expected(self, hint: float | None) -> Mapping[int, float]:
        reached = accumulate(self.probs(hint), mul)
        return dict(enumerate(accumulate(reached, initial=1.0)))

    def learn(self, round_: Round, hint: float | None) -> None:
        # A round that the end of the reply cut short may have refused nothing.
        refused = min(len(round_.drafted), len(round_.tokens)) > round_.accepted
        self._of(hint).learn(round_.accepted, float(refused))

    def elapse(self, tokens: int) -> None:
        for estimate in self._estimates.values():
            estimate.elapse(tokens)

    def _of(self, hint: float | None) -> AcceptanceEstimate:
        if hint not in self._estimates:
            self._estimates[hint] = AcceptanceEstimate(self.longest, self._earlier)
        return self._estimates[hint]


class TreeExpectedLength:
    """The expected length of rounds with trees, by how much they beat or miss a curve.

    curve: mean acceptance length by number of nodes as measured when the drafter was made, {} where it was not;
    what it says beyond one token is scaled by what is seen. Of its numbers of nodes those of TREE_SIZES count, if it
    has any of them.
    """

    def __init__(self, curve: Mapping[int, float]) -> None:
        sizes = [nodes for nodes in TREE_SIZES if nodes in curve] or sorted(curve)
        self._gain = {nodes: curve[nodes] - 1 for nodes in sizes} or TREE_SHAPE
        self._accepted = self._predicted = TREE_WEIGHT

    def expected(self, hint: float | None) -> Mapping[int, float]:
        scale = self._accepted / self._predicted
        return {nodes: 1 + scale * gain for nodes, gain in self._gain.items()}

    def learn(self, round_: Round, hint: float | None) -> None:
        known = [nodes for nodes in self._gain if nodes <= len(round_.drafted)]
        self._accepted += round_.accepted
        self._predicted += self._gain[max(known, default=min(self._gain))]

    def elapse(self, tokens: int) -> None:
        fades = TREE_MEMORY**tokens
        self._accepted, self._predicted = fades * self._accepted, fades * self._predicted


def _prior(accepted: float, trials: float) -> tuple[float, ...]:
    """Returns the weights of `PROBS` at the beginning of a text: all alike where there were no trials on other text, or
    mostly by a beta distribution around their rate, which is the wider, the fewer there were."""
    alike = 1 / len(PROBS)
    if not trials:
        return (alike,) * len(PROBS)
    counted = PRIOR_WEIGHT / (PRIOR_WEIGHT + trials)  # of each trial
    weights = [p ** (counted * accepted) * (1 - p) ** (counted * (trials - accepted)) for p in PROBS]
    return tuple(UNUSUAL * alike + (1 - UNUSUAL) * weight / sum(weights) for weight in weights)


@cache
def _powers(exponent: int) -> tuple[float, ...]:
    return tuple(prob**exponent for prob in PROBS)
