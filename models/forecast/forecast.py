"""tau and speed-up by draft length, from round times, with the interval that the choice of prompts leaves open."""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import zip_longest
from typing import NamedTuple

import numpy as np

from engine.drafters import Drafter
from engine.policy.step_times import DrafterTimes
from engine.settings import SamplingSettings
from models.expected_rounds import Floats, expected_rounds
from models.forecast.target_text import TargetOutputs, TargetText
from models.forecast.text_drafts import TextDrafts, drafts_along

DraftLength = int | None  # tokens, in a tree its nodes; 0 is plain decoding, None is auto
_SAMPLES, _INTERVAL = 1000, (0.025, 0.975)  # of the bootstrap: the middle 95 % of so many samples
_MIN_PROMPTS = 3  # with fewer, the spread between prompts is not known


class RoundTotals(NamedTuple):
    """The expected totals of one reply. drafted: tokens. seconds: of all rounds; plain_s: of the same tokens by plain
    decoding. reached, kept: by position in a draft (in a tree: by depth), the rounds that verified it and the rounds
    that accepted it."""

    tokens: int
    rounds: float
    drafted: float
    seconds: float
    plain_s: float
    reached: Floats
    kept: Floats

    @classmethod
    def of(cls, drafts: TextDrafts, text: TargetText, times: Sequence[DrafterTimes]) -> RoundTotals:
        """times: of each drafter."""
        expected = expected_rounds(drafts.survival, drafts.levels)
        contexts = range(text.prompt, len(text.tokens))
        steps_s = np.array([times[0].plain_s(context) for context in contexts])
        rounds_s = steps_s.copy()
        for place in np.flatnonzero(drafts.drafted):
            rounds_s[place] = times[drafts.member[place]].round_s(int(drafts.drafted[place]), contexts[place])
        drafted, seconds = (float(expected.starts @ one) for one in (drafts.drafted, rounds_s))
        counts = len(steps_s), expected.rounds, drafted, seconds, float(steps_s.sum())
        return cls(*counts, expected.reached, expected.kept)


class ReplyForecast(NamedTuple):
    """The totals of one reply by draft length. category: of its prompt."""

    category: str
    totals: Mapping[DraftLength, RoundTotals]


def forecast_reply(
    category: str,
    outputs: TargetOutputs,
    drafters: Sequence[Drafter],
    lengths: Sequence[int],
    sampling: SamplingSettings,
    times: Sequence[DrafterTimes],
) -> ReplyForecast:
    """Returns the forecast of one reply with each of these draft lengths, which rise. times: of each drafter.

    What auto brings is taken to be what the best length for this reply brings, plain decoding included. Raises
    UsageError for drafts that cannot be forecast.
    """
    # The tokens of a chain are the same whatever its length; those of a block or a tree need not be.
    chains = {d: drafts_along(outputs, d, sampling, lengths[-1]) for d in drafters if d.traits.in_steps}
    totals: dict[DraftLength, RoundTotals] = {}
    for length in lengths:
        members = [
            chains[d].cut(length) if d in chains else drafts_along(outputs, d, sampling, length) for d in drafters
        ]
        drafts = TextDrafts.of_group(members)
        totals[length] = RoundTotals.of(drafts, outputs.text, times)
    totals[0] = RoundTotals.of(drafts.cut(0), outputs.text, times)
    totals[None] = min(totals.values(), key=lambda one: one.seconds)
    return ReplyForecast(category, totals)


@dataclass(frozen=True)
class Rates:
    """The rates of several replies at one draft length. tau: mean acceptance length, tokens per verify pass. speedup:
    over plain decoding, all replies together; speedup_median: the median over replies, which is what `redline bench`
    calls speed-up. drafted: tokens, expected. acceptance_by_position: of the tokens verified at each position or depth.

    The intervals are the bootstrap's over prompts (Efron 1979): the middle 95 % of what as many prompts, drawn from
    these with replacement, would say. None for fewer than three prompts.
    """

    tau: float
    tau_interval: tuple[float, float] | None
    speedup: float
    speedup_interval: tuple[float, float] | None
    speedup_median: float
    drafted: float
    acceptance_by_position: list[float]

    @classmethod
    def of(cls, replies: Sequence[RoundTotals]) -> Rates:
        n, sums = len(replies), np.array([one[:5] for one in replies])
        tokens, rounds, drafted, seconds, plain_s = sums.sum(0).tolist()
        tau_interval = speedup_interval = None
        if n >= _MIN_PROMPTS:
            drawn = (np.random.default_rng(0).multinomial(n, [1 / n] * n, _SAMPLES) @ sums).T
            ratios = [drawn[0] / drawn[1], drawn[4] / drawn[3]]
            tau_interval, speedup_interval = map(tuple, np.quantile(ratios, _INTERVAL, axis=1).T.tolist())
        median = statistics.median(one.plain_s / one.seconds for one in replies)
        columns = ([one.reached for one in replies], [one.kept for one in replies])
        reached, kept = (map(sum, zip_longest(*column, fillvalue=0.0)) for column in columns)
        accepted = [float(k / r) for r, k in zip(reached, kept, strict=True) if r > 0]
        return cls(tokens / rounds, tau_interval, plain_s / seconds, speedup_interval, median, drafted, accepted)


@dataclass(frozen=True)
class Forecast:
    """The forecast of some replies with one set of sampling settings, the acceptance rule among them."""

    settings: SamplingSettings
    replies: tuple[ReplyForecast, ...]

    @property
    def rule(self) -> str:
        return "greedy" if self.settings.greedy else self.settings.acceptance

    @cached_property
    def rates(self) -> dict[DraftLength, Rates]:
        """By draft length."""
        return {length: Rates.of([one.totals[length] for one in self.replies]) for length in self.replies[0].totals}

    @property
    def lengths(self) -> list[int]:
        """The draft lengths considered, from 1."""
        return [length for length in self.rates if length]

    @property
    def best(self) -> int:
        """The draft length with the greatest speed-up; 0 if none is faster than plain decoding."""
        return max((0, *self.lengths), key=lambda length: self.rates[length].speedup)

    @property
    def tokens(self) -> int:
        return sum(one.totals[0].tokens for one in self.replies)

    @property
    def categories(self) -> dict[str, Forecast]:
        """The forecast of each category alone."""
        names = dict.fromkeys(one.category for one in self.replies)
        return {name: replace(self, replies=tuple(r for r in self.replies if r.category == name)) for name in names}
