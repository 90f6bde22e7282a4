"""What drafting may still lose against plain decoding, in plain passes.

Invariants:
1. A round is drafted only if the purse can pay for the worst that can come of it: nothing kept. Where plain steps
   launched ahead are quicker, what the step behind loses by it counts too.
2. So, in the costs that were measured, a reply of `SPAN` tokens or more never takes longer than plain decoding by more
   than `SHARE` of it, whatever the drafter does; gains widen the purse, up to `MOST`. A reply that is to be shorter
   loses at most `LENT + SHARE` of what it may have.
"""

from __future__ import annotations

import math

SHARE = 0.01
SPAN = 256
LENT = 0.02  # of the tokens that a short reply may have at most, what may be lost at its beginning
AT_ONCE = 2.4  # of the SHARE * SPAN that the first SPAN tokens may lose, what may be lost at their beginning
MOST = 15.0


class Purse:
    """In plain passes. `left` may be spent. tokens: that the reply may have at most."""

    def __init__(self, tokens: float = math.inf) -> None:
        self.left = self._lent = min(AT_ONCE, LENT * tokens)
        self._tokens = 0

    def allows(self, price: float, rounds: int = 0) -> bool:
        """Whether a round of this price may be tried, or might after so many plain ones; the token that it yields at
        least is worth one pass."""
        return price - 1 <= self.left + rounds * SHARE

    def care(self, rounds: int = 0) -> float:
        """How much dearer it is to lose a pass than it was at the beginning: what is left is rarer."""
        return max(self._lent / max(self.left + rounds * SHARE, 1e-9), 1.0)

    def book(self, tokens: int, price: float) -> None:
        """A round of this price gave so many tokens."""
        share = SHARE if self._tokens > SPAN else SHARE - self._lent / SPAN
        self._tokens += tokens
        self.left = min(self.left + tokens * (1 + share) - price, MOST)
