"""What rounds cost here: the measured passes, and plain steps, which run faster than their pass does alone."""

from __future__ import annotations

import statistics
import time
from dataclasses import dataclass

from engine.adaptive import READING
from engine.choice import Chooser
from engine.costs import Costs
from engine.drafters import Standing, nothing
from engine.events import Round
from engine.loop import Limits, decode
from engine.policy import FixedLength
from engine.rounds import launch
from engine.sampling import Context
from engine.target import CachedModel

_STEPS, _REPEATS = 12, 4
_LEAST = 0.5  # nothing that a pass does can be hidden beyond that: less is another program's doing


@dataclass(frozen=True)
class Prices:
    """costs: of isolated passes and drafts. ahead: a plain step that is launched before the last has landed, as a
    share of an isolated pass; plain decoding consists of such steps."""

    costs: Costs
    ahead: float = 1.0

    @property
    def plain_s(self) -> float:
        """A token by plain decoding."""
        return self.ahead * self.costs.pass_s(1)

    def pass_s(self, width: int) -> float:
        """A verify pass. One that was measured cheaper than a narrower one is a fluke."""
        return max(self.costs.pass_s(1), self.costs.pass_s(width))

    def draft_s(self, member: int, steps: int) -> float:
        """Drafting by one of several drafters, or by the only one."""
        own = self.costs.members[member] if self.costs.members else self.costs
        return own.draft_s(steps)

    def reading_s(self, member: int, behind: int) -> float:
        """Reading all but the last of `behind` tokens that a drafter has not seen, as the policy prices it."""
        rows = self.costs.pass_s(behind) / self.costs.pass_s(1) - 1
        return self.draft_s(member, 1) * max(0.0, min(rows, READING * (behind - 1)))

    def round_s(self, member: int, drafted: int) -> float:
        """Drafting so many tokens, or nodes, and verifying them."""
        return self.draft_s(member, drafted) + self.pass_s(drafted + 1)


def measure_ahead(target: CachedModel, chooser: Chooser, context: int) -> float:
    """`Prices.ahead` on this machine, behind `context` tokens. Leaves the cache empty.

    Runs of plain steps take turns with isolated passes, so that a slow moment falls on both.
    """
    tokens = [1 + i % (target.vocabulary - 1) for i in range(context)]
    target.rewind(0)
    target.read_by(None)
    for _ in target.prefill(tokens[:-1]):
        pass
    target.pin()
    try:
        pairs = [(_run_s(target, chooser, tokens), _alone_s(target, chooser, tokens)) for _ in range(_REPEATS + 1)]
    finally:
        target.rewind(0)
    share = statistics.median(run_s / alone_s for run_s, alone_s in pairs[1:])
    return min(max(share, _LEAST), 1.0)


def _run_s(target: CachedModel, chooser: Chooser, tokens: list[int]) -> float:
    """Seconds a plain step, in a run of them."""
    told = decode(target, None, FixedLength(0), chooser, list(tokens), Limits(_STEPS, 2**31), time.monotonic())
    times = [event.time_s for event in told if isinstance(event, Round)]
    target.rewind(len(tokens) - 1)
    return (times[-1] - times[0]) / (len(times) - 1)


def _alone_s(target: CachedModel, chooser: Chooser, tokens: list[int]) -> float:
    """Seconds of a plain round that waits for the one before, the median of a few."""
    standing, times = Standing(tokens, Context(chooser.law, tokens), chooser), []
    for _ in range(_STEPS // 2):
        began_s = time.perf_counter()
        launch(target, standing, nothing(), "measuring").land(0, 0.0)
        target.rewind(len(tokens) - 1)
        times.append(time.perf_counter() - began_s)
    return statistics.median(times)
