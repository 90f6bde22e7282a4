"""What is foreseen of every reply, put together: rates, their sampling error, and what is best."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from app.bench.questions import Question
from engine.choice import Rule
from engine.settings import Settings
from models.predict.laws import Statistics
from models.predict.tally import Tally, total

Way = int | None  # draft length, in a tree its nodes; None is the adaptive policy
PLAIN: Way = 0
SAMPLES, CONFIDENCE = 1000, 0.95
_FEWEST = 3  # prompts that say anything of how prompts differ


@dataclass(frozen=True)
class Foreseen:
    """One reply. tallies: by way, plain decoding left out. statistics: of drafter and target where a draft begins; None
    where drafts have no law."""

    question: Question
    tallies: Mapping[Way, Tally]
    statistics: Statistics | None


@dataclass(frozen=True)
class Interval:
    low: float
    high: float


@dataclass(frozen=True)
class Forecast:
    """Of all replies under one law and rule."""

    settings: Settings
    replies: tuple[Foreseen, ...]

    @property
    def rule(self) -> str:
        return "greedy" if self.settings.sampling.greedy else self.settings.rule

    @cached_property
    def lengths(self) -> list[int]:
        """Draft lengths that were looked at, from 1."""
        return [way for way in self.replies[0].tallies if way is not None]

    @property
    def categories(self) -> list[str]:
        return list(dict.fromkeys(reply.question.category for reply in self.replies))

    def of(self, category: str) -> Forecast:
        """The replies of one category alone."""
        return Forecast(self.settings, tuple(one for one in self.replies if one.question.category == category))

    def tally(self, way: Way) -> Tally:
        """All replies together."""
        return total(reply.tallies[way] for reply in self.replies)

    def speedup(self, way: Way) -> float:
        return 1.0 if way == PLAIN else self.tally(way).speedup

    def middle_speedup(self, way: Way) -> float:
        """The median over prompts, which is what `redline bench` tells."""
        return 1.0 if way == PLAIN else statistics.median(reply.tallies[way].speedup for reply in self.replies)

    @cached_property
    def best(self) -> int:
        """The draft length with the greatest speed-up; 0 where none is faster than plain decoding."""
        return max((0, *self.lengths), key=self.speedup)

    @cached_property
    def statistics(self) -> Statistics | None:
        known = [reply.statistics for reply in self.replies if reply.statistics is not None]
        return sum(known[1:], known[0]) if known else None

    def tau_interval(self, way: Way) -> Interval | None:
        return self._interval(way, lambda tally: (tally.tokens, tally.rounds))

    def speedup_interval(self, way: Way) -> Interval | None:
        return self._interval(way, lambda tally: (tally.plain_s, tally.seconds))

    def _interval(self, way: Way, parts: Callable[[Tally], tuple[float, float]]) -> Interval | None:
        """Of a ratio of sums, with the prompts drawn anew again and again (Efron 1979); None for too few prompts."""
        n = len(self.replies)
        if n < _FEWEST or way == PLAIN:
            return None
        pairs = np.array([parts(reply.tallies[way]) for reply in self.replies])
        draws = np.random.default_rng(0).multinomial(n, [1 / n] * n, SAMPLES)
        over, under = (draws @ pairs).T
        tail = (1 - CONFIDENCE) / 2
        low, high = np.quantile(over / under, [tail, 1 - tail])
        return Interval(float(low), float(high))


def rules_at(settings: Settings, asked: Sequence[Rule]) -> Sequence[Rule]:
    """At temperature 0 all rules are one."""
    return asked[:1] if settings.sampling.greedy else asked
