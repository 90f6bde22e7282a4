"""Forecasts of single replies put together: rates, their sampling error, and the best draft length.

`document` makes the JSON document: every key is always there; null if a number has no meaning.
"""

from __future__ import annotations

import statistics
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from app.bench.prompt_file import Question
from engine.settings import AcceptanceRule, SamplingSettings
from models.forecast.distribution_overlap import OverlapStatistics
from models.forecast.round_totals import RoundTotals, total

DraftLength = int | None  # draft length, in a tree its nodes; None is the adaptive policy
PLAIN: DraftLength = 0
SAMPLES, CONFIDENCE = 1000, 0.95
_MIN_PROMPTS = 3  # with fewer, the spread between prompts is not known


@dataclass(frozen=True)
class ReplyForecast:
    """One reply. totals: by draft length, plain decoding left out. statistics: of drafter and target where a draft
    starts; None if drafts have no distribution."""

    question: Question
    totals: Mapping[DraftLength, RoundTotals]
    statistics: OverlapStatistics | None


@dataclass(frozen=True)
class Interval:
    low: float
    high: float


@dataclass(frozen=True)
class Forecast:
    """The forecast of all replies with one set of sampling settings and one acceptance rule."""

    settings: SamplingSettings
    replies: tuple[ReplyForecast, ...]

    @property
    def rule(self) -> str:
        return "greedy" if self.settings.greedy else self.settings.acceptance

    @cached_property
    def lengths(self) -> list[int]:
        """The draft lengths considered, from 1."""
        return [length for length in self.replies[0].totals if length is not None]

    @property
    def categories(self) -> list[str]:
        return list(dict.fromkeys(reply.question.category for reply in self.replies))

    def category(self, name: str) -> Forecast:
        """Returns the forecast of one category alone."""
        return Forecast(self.settings, tuple(one for one in self.replies if one.question.category == name))

    def totals(self, length: DraftLength) -> RoundTotals:
        """Returns the totals of all replies."""
        return total(reply.totals[length] for reply in self.replies)

    def speedup(self, length: DraftLength) -> float:
        return 1.0 if length == PLAIN else self.totals(length).speedup

    def median_speedup(self, length: DraftLength) -> float:
        """Returns the median over prompts, which is what `redline bench` reports."""
        return 1.0 if length == PLAIN else statistics.median(reply.totals[length].speedup for reply in self.replies)

    @cached_property
    def best(self) -> int:
        """The draft length with the greatest speed-up; 0 if none is faster than plain decoding."""
        return max((0, *self.lengths), key=self.speedup)

    @cached_property
    def statistics(self) -> OverlapStatistics | None:
        known = [reply.statistics for reply in self.replies if reply.statistics is not None]
        return sum(known[1:], known[0]) if known else None

    def tau_interval(self, length: DraftLength) -> Interval | None:
        return self._interval(length, lambda totals: (totals.tokens, totals.rounds))

    def speedup_interval(self, length: DraftLength) -> Interval | None:
        return self._interval(length, lambda totals: (totals.plain_s, totals.seconds))

    def _interval(self, length: DraftLength, parts: Callable[[RoundTotals], tuple[float, float]]) -> Interval | None:
        """Returns the bootstrap interval of a ratio of sums over prompts (Efron 1979); None for too few prompts."""
        n = len(self.replies)
        if n < _MIN_PROMPTS or length == PLAIN:
            return None
        pairs = np.array([parts(reply.totals[length]) for reply in self.replies])
        draws = np.random.default_rng(0).multinomial(n, [1 / n] * n, SAMPLES)
        over, under = (draws @ pairs).T
        tail = (1 - CONFIDENCE) / 2
        low, high = np.quantile(over / under, [tail, 1 - tail])
        return Interval(float(low), float(high))


def rules_at(settings: SamplingSettings, requested: Sequence[AcceptanceRule]) -> Sequence[AcceptanceRule]:
    """Returns the rules that differ: at temperature 0 all are the same."""
    return requested[:1] if settings.greedy else requested


def document(environment: dict[str, Any], drafter: str, tree: bool, forecasts: list[Forecast]) -> dict[str, Any]:
    """Returns the forecasts of one pair, ready for JSON. environment: as in `app.bench.bench_document`."""
    return {
        "environment": environment,
        "drafter": drafter,  # its name, or that of its folder
        "tree": tree,  # whether it drafts trees; draft lengths are then numbers of nodes
        "prompts": len(forecasts[0].replies),
        "forecasts": [_forecast(one) for one in forecasts],
    }


def _forecast(forecast: Forecast) -> dict[str, Any]:
    parts = {name: forecast.category(name) for name in forecast.categories}
    return {
        "temperature": forecast.settings.temperature,
        "acceptance_rule": forecast.rule,
        "seed": forecast.settings.seed,
        **_group(forecast),
        "categories": [
            {"category": name, "prompts": len(part.replies), **_group(part)} for name, part in parts.items()
        ],
    }


def _group(forecast: Forecast) -> dict[str, Any]:
    longest, overlap = forecast.totals(forecast.lengths[-1]), forecast.statistics
    return {
        "tokens": longest.tokens,  # in the target's replies, which were written without the drafter
        "statistics": None if overlap is None else _statistics(overlap),  # null: drafts have no distribution
        "acceptance_by_position": longest.acceptance_by_position,  # of the tokens verified at each position or depth
        "lengths": [{"draft_length": length, **_rates(forecast, length)} for length in forecast.lengths],
        "best_draft_length": forecast.best,  # 0 is plain decoding
        "auto": _rates(forecast, None),  # the adaptive policy
    }


def _rates(forecast: Forecast, length: DraftLength) -> dict[str, Any]:
    totals = forecast.totals(length)
    tau, speedup = forecast.tau_interval(length), forecast.speedup_interval(length)
    return {
        "tau": totals.tau,  # tokens per verify pass
        "tau_interval": None if tau is None else [tau.low, tau.high],
        "speedup": totals.speedup,  # over plain decoding, all prompts together
        "speedup_interval": None if speedup is None else [speedup.low, speedup.high],
        "speedup_median": forecast.median_speedup(length),  # which `redline bench` calls speedup
        "drafted": totals.drafted,  # tokens, expected
    }


def _statistics(overlap: OverlapStatistics) -> dict[str, Any]:
    """Returns how p and q compare where a draft starts; at temperature 0 the distributions are those of temperature 1.
    Entropies and divergence are in nats."""
    return {
        "overlap": overlap.mean("overlap"),  # sum of min(p, q): the probability that rejection accepts a token
        "divergence": overlap.mean("divergence"),  # KL(p || q) over the drafter's vocabulary
        "covered": overlap.mean("covered"),  # the target's mass on that vocabulary
        "target_entropy": overlap.mean("target_entropy"),
        "drafter_entropy": overlap.mean("drafter_entropy"),
        "agreement": overlap.mean("agreed"),  # how often both have the same most likely token
        "calibration_error": overlap.calibration_error,  # ECE: distance of the drafter's confidence from acceptance
        "calibration": [  # by confidence, in ten bins of equal width
            {
                "places": int(places),
                "confidence": confidence / places if places else None,
                "kept": kept / places if places else None,
            }
            for places, confidence, kept in overlap.bins.tolist()
        ],
    }
