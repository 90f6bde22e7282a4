"""What a drafter may be expected to bring, learnt from what came of its drafts.

A chain is judged by a chance that may change (`engine.belief`). A tree is judged by
one number, by how much it beats or misses the curve it was made with. Both forget, so that the present passage counts
most; both depend on rounds only, never on the clock.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Protocol

from engine.belief import Belief, tokens_of
from engine.events import Round

MEMORY = 0.93  # a round, of a tree; and of every STRIDE tokens that go by without one
STRIDE = 4

# Tokens beyond the first that a tree of so many nodes brings, as a share of what the largest does: the shape of the
# published curves (Medusa's figure 7, EAGLE-2's table 5), for trees of which nothing is known.
SHAPE = {2: 0.4, 4: 0.55, 8: 0.7, 16: 0.85, 32: 1.0}


class Outlook(Protocol):
    """Of one drafter."""

    def expected(self, hint: float | None, later: int = 0) -> Mapping[int, float]:
        """Tokens of a round, its own one included, by draft length; what the drafter hints at may matter.

        later: when so many plain tokens will have gone by.
        """

    def ignorance(self, hint: float | None, prices: Mapping[int, float], later: int = 0) -> float:
        """Passes a token that could be saved by knowing for sure what drafting brings; infinite where that cannot be
        told. prices: of a round in plain passes, by draft length, of plain ones (0) too."""

    def learn(self, round_: Round, hint: float | None) -> None:
        """What came of a draft."""

    def suppose(self, chance: float) -> None:
        """A first token with this chance was not even offered."""

    def elapse(self, tokens: int) -> None:
        """So many tokens were committed, drafted or not."""


class ChainOutlook:
    """Of a drafter of chains up to `longest` tokens; every hint is learnt about apart.

    usual: the chance of each place, as `chances` gives it, as measured on other text when the drafter was made; of as
    many as are known.
    """

    def __init__(self, longest: int = 8, usual: Sequence[float] = ()) -> None:
        self.longest = longest
        self._usual = usual
        self._beliefs: dict[float | None, Belief] = {}
        self._tokens = tokens_of(longest)

    def chances(self, hint: float | None = None) -> list[float]:
        """Of each place, given that the places before it were kept."""
        return self._of(hint).chances()

    def expected(self, hint: float | None, later: int = 0) -> Mapping[int, float]:
        belief = self._of(hint).later(later)
        tokens, reach, found = 1.0, 1.0, {}
        for i, chance in enumerate(belief.chances()):
            reach *= chance
            tokens += reach
            found[i + 1] = tokens
        return found

    def ignorance(self, hint: float | None, prices: Mapping[int, float], later: int = 0) -> float:
        savings = [[1 - price / tokens for tokens in self._tokens[length]] for length, price in prices.items()]
        return self._of(hint).later(later).ignorance(savings)

    def learn(self, round_: Round, hint: float | None) -> None:
        # A refusal is judged too; fewer places are where the reply's end cut the round.
        self._of(hint).learn(min(len(round_.drafted), len(round_.tokens)), round_.accepted)

    def suppose(self, chance: float) -> None:
        self._of(None).suppose(chance)

    def elapse(self, tokens: int) -> None:
        for belief in self._beliefs.values():
            belief.elapse(tokens)

    def _of(self, hint: float | None) -> Belief:
        if hint not in self._beliefs:
            self._beliefs[hint] = Belief(self.longest, self._usual)
        return self._beliefs[hint]


class TreeOutlook:
    """Of a drafter of trees.

    curve: mean acceptance length by number of nodes, as measured when the drafter was made; {} where nothing is known.
    Only how far it is from 1 is scaled by what is seen.
    """

    WEIGHT = 4.0

    def __init__(self, curve: Mapping[int, float], hope: float = 1.0) -> None:
        self._gain = {nodes: tau - 1 for nodes, tau in curve.items()} or {n: hope * share for n, share in SHAPE.items()}
        self._kept = self._foreseen = self.WEIGHT

    def expected(self, hint: float | None, later: int = 0) -> Mapping[int, float]:
        scale = self._kept / self._foreseen
        return {nodes: 1 + scale * gain for nodes, gain in self._gain.items()}

    def learn(self, round_: Round, hint: float | None) -> None:
        nodes = len(round_.drafted)
        known = [n for n in self._gain if n <= nodes]
        foreseen = self._gain[max(known)] if known else min(self._gain.values())
        self._kept = MEMORY * self._kept + round_.accepted
        self._foreseen = MEMORY * self._foreseen + foreseen

    def suppose(self, chance: float) -> None:
        self._kept, self._foreseen = MEMORY * self._kept + chance, MEMORY * self._foreseen + min(self._gain.values())

    def elapse(self, tokens: int) -> None:
        """Keeps the estimate, and ever less of its weight: a probe that goes well then says much."""
        fades = MEMORY ** (tokens / STRIDE)
        self._kept, self._foreseen = fades * self._kept, fades * self._foreseen

    def ignorance(self, hint: float | None, prices: Mapping[int, float], later: int = 0) -> float:
        return math.inf
