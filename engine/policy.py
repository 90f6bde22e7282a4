"""How many tokens to draft now; 0 is allowed, and says why."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from engine.costs import Costs
from engine.events import Round


@dataclass(frozen=True)
class Plan:
    """length: tokens to draft. reason: in a few words, for the inspector."""

    length: int
    reason: str


class Policy(Protocol):
    def plan(self) -> Plan:
        """What to do this round."""

    def observe(self, round_: Round) -> None:
        """What came of it."""

    def plain_next(self) -> bool:
        """Whether the round after a plain one is sure to be plain too, whatever comes of this one."""


class FixedLength:
    """Always the same draft length; 0 is plain decoding. reason: why this one, if not because it was asked for."""

    def __init__(self, length: int, reason: str = "") -> None:
        self._plan = Plan(length, reason or (f"fixed at {length}" if length else "plain decoding"))

    def plan(self) -> Plan:
        return self._plan

    def observe(self, round_: Round) -> None:
        pass

    def plain_next(self) -> bool:
        return self._plan.length == 0


def best_size(expected: Mapping[int, float], costs: Costs) -> FixedLength:
    """The tree with the most expected tokens a second, or plain decoding where none beats it.

    expected: mean acceptance length by the number of nodes, as measured when the drafter was made.
    """
    speeds = {0: 1 / costs.round_s(0)} | {nodes: tau / costs.round_s(nodes) for nodes, tau in expected.items()}
    best = max(speeds, key=speeds.__getitem__)
    gain = speeds[best] / speeds[0]
    return FixedLength(best, f"{best} nodes expect {gain:.2f}x plain speed" if best else "drafting would not pay")


PROBING = "probing: is drafting worth it again?"


class Adaptive:
    """The length with the most expected tokens a second, from measured costs and observed acceptance.

    Acceptance at each position is an exponential average over the rounds that reached it, starting
    from `hope`; a position that a round did not reach drifts towards the one before it, so that a
    depth nobody has tried lately is judged by what is known. While drafting does not pay, one token is
    drafted now and then, so that a passage that drafts well is noticed: as often as spends PROBE_SHARE
    of the time, and never where not even a draft kept whole would pay. Depends on tokens and costs
    only, never on the clock.
    """

    MEMORY = 0.9
    PROBE_MEMORY = 0.7  # a probe is rare, and what it speaks against is old
    PROBE_SHARE = 0.02
    PROBE_EVERY_AT_LEAST = 4

    def __init__(self, costs: Costs, longest: int = 8, hope: float = 0.6) -> None:
        self._seconds = [costs.round_s(length) for length in range(longest + 1)]
        self._chance = [hope] * longest
        self._plain_rounds = 0
        self._probe_every = self._interval()
        self._plan = Plan(0, "")

    def plan(self) -> Plan:
        self._plan = self._choose()
        return self._plan

    def _choose(self) -> Plan:
        speeds = self._speeds(self._chance)
        best = _argmax(speeds)
        if best:
            return Plan(best, f"expects {speeds[best] / speeds[0]:.2f}x plain speed")
        if self._plain_rounds >= self._probe_every:
            return Plan(1, PROBING)
        return Plan(0, "drafting would not pay")

    def observe(self, round_: Round) -> None:
        if not round_.drafted:
            self._plain_rounds += self._plan.length == 0  # else the drafter had nothing, which says nothing
            return
        memory = self.PROBE_MEMORY if self._plan.reason == PROBING else self.MEMORY
        self._plain_rounds = 0
        places = len(round_.drafted) if round_.parents is None else round_.depth
        judged = min(len(round_.tokens), places)  # fewer where the reply's end cut the round
        for i in range(len(self._chance)):
            seen = float(i < round_.accepted) if i < judged else self._chance[max(i - 1, 0)]
            self._chance[i] = memory * self._chance[i] + (1 - memory) * seen

    def plain_next(self) -> bool:
        """Plain rounds teach nothing, so the next plan is known unless it is time for a probe."""
        return _argmax(self._speeds(self._chance)) == 0 and self._plain_rounds + 1 < self._probe_every

    def _interval(self) -> float:
        """Plain rounds between probes; infinite where drafting cannot pay."""
        if _argmax(self._speeds([1.0] * len(self._chance))) == 0:
            return math.inf
        extra = self._seconds[1] / self._seconds[0] - 1
        return max(extra / self.PROBE_SHARE, self.PROBE_EVERY_AT_LEAST)

    def _speeds(self, chances: Sequence[float]) -> list[float]:
        """Expected tokens per second for each draft length from 0 up."""
        tokens, reach, speeds = 1.0, 1.0, [1 / self._seconds[0]]
        for chance, seconds in zip(chances, self._seconds[1:], strict=True):
            reach *= chance
            tokens += reach
            speeds.append(tokens / seconds)
        return speeds


def _argmax(values: Sequence[float]) -> int:
    """The first place of the greatest."""
    return max(range(len(values)), key=values.__getitem__)
