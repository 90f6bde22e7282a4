"""Forecasts of replies put together: rates, intervals, the best length and the recommendation."""

from __future__ import annotations

import numpy as np
import pytest

from app.bench.prompt_file import Question
from app.forecast.forecast import Forecast, ReplyForecast
from app.forecast.forecast_table import recommendation
from engine.settings import SamplingSettings
from models.forecast.round_costs import RoundTotals


def forecast(prompts: int, seed: int = 0) -> Forecast:
    """Length 1 is 1.5 tokens a round of 1.2 plain passes, more or less; length 2 is slower than plain."""
    chance = np.random.default_rng(seed)
    replies = []
    for number in range(prompts):
        rounds = 100 / (1.5 + chance.normal(0, 0.1))
        one = RoundTotals(100, rounds, rounds, 1.2 * rounds, 100.0, (rounds,), (100 - rounds,))
        two = RoundTotals(100, 60.0, 120.0, 110.0, 100.0, (60.0, 30.0), (30.0, 10.0))
        replies.append(ReplyForecast(Question(number, "ab"[number % 2], ("?",)), {1: one, 2: two, None: one}, None))
    return Forecast(SamplingSettings(), tuple(replies))


def test_the_best_length_is_the_fastest_and_plain_where_none_is() -> None:
    found = forecast(10)
    assert found.best == 1
    assert found.speedup(1) == pytest.approx(1.25, abs=0.1)
    assert recommendation(found).startswith("T 0: draft length 1 is best, 1.2")
    slow = [ReplyForecast(r.question, {2: r.totals[2], None: r.totals[2]}, None) for r in found.replies]
    none = Forecast(SamplingSettings(), tuple(slow))
    assert none.best == 0
    assert "no fixed draft length is faster than plain decoding, 0.91x" in recommendation(none)


def test_intervals_are_those_of_drawing_other_prompts() -> None:
    """As wide as the mean of so many prompts is unsure, and 95 % of them hold the truth."""
    widths, hits = [], 0
    for seed in range(60):
        interval = forecast(40, seed).tau_interval(1)
        assert interval is not None
        widths.append(interval.high - interval.low)
        hits += interval.low < 1.5 - 0.01 / 1.5 < interval.high  # of a ratio of sums: the harmonic mean
    assert np.mean(widths) == pytest.approx(2 * 1.96 * 0.1 / 40**0.5, rel=0.15)
    assert hits >= 51
    assert forecast(2).tau_interval(1) is None


def test_categories_are_separate() -> None:
    found = forecast(9)
    parts = [found.category(name) for name in found.categories]
    assert [len(part.replies) for part in parts] == [5, 4]
    assert sum(part.totals(1).rounds for part in parts) == pytest.approx(found.totals(1).rounds)
