"""How many tokens to draft now; 0 is allowed, and says why."""

from __future__ import annotations

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
    """Always the same draft length; 0 is plain decoding."""

    def __init__(self, length: int) -> None:
        self._plan = Plan(length, f"fixed at {length}" if length else "plain decoding")

    def plan(self) -> Plan:
        return self._plan

    def observe(self, round_: Round) -> None:
        pass

    def plain_next(self) -> bool:
        return self._plan.length == 0


class Adaptive:
    """The length with the most expected tokens a second, from measured costs and observed acceptance.

    Acceptance at each position is an exponential average over the rounds that reached it, starting
    from `hope`. Every PROBE_EVERY plain rounds one token is drafted, so that a passage that
    drafts well is noticed. Depends on tokens and costs only, never on the clock.
    """

    MEMORY = 0.9
    PROBE_EVERY = 16

    def __init__(self, costs: Costs, longest: int = 8, hope: float = 0.6) -> None:
        self._costs = costs
        self._chance = [hope] * longest
        self._plain_rounds = 0

    def plan(self) -> Plan:
        speeds = self._speeds()
        best = max(range(len(speeds)), key=speeds.__getitem__)
        if best == 0 and self._plain_rounds >= self.PROBE_EVERY:
            return Plan(1, "probing: is drafting worth it again?")
        gain = speeds[best] / speeds[0]
        return Plan(best, f"expects {gain:.2f}x plain speed" if best else "drafting would not pay")

    def observe(self, round_: Round) -> None:
        self._plain_rounds = 0 if round_.drafted else self._plain_rounds + 1
        for i in range(min(round_.accepted + 1, len(round_.drafted), len(self._chance))):
            hit = float(i < round_.accepted)
            self._chance[i] = self.MEMORY * self._chance[i] + (1 - self.MEMORY) * hit

    def plain_next(self) -> bool:
        return False

    def _speeds(self) -> list[float]:
        """Expected tokens per second for each draft length from 0 up."""
        tokens, reach, speeds = 1.0, 1.0, [1 / self._costs.round_s(0)]
        for length, chance in enumerate(self._chance, start=1):
            reach *= chance
            tokens += reach
            speeds.append(tokens / self._costs.round_s(length))
        return speeds
