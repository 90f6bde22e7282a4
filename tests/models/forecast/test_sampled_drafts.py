"""Forecasts of sampled drafts agree with measured runs, on tables and over many tokens."""

from __future__ import annotations

from dataclasses import replace

import mlx.core as mx
import numpy as np
import pytest

from engine.drafters import Drafter
from engine.policy.fixed import FixedLength
from engine.sampling import TokenCounts
from engine.settings import SamplingSettings
from engine.target.cached_model import CachedModel
from models.forecast.loop_simulation import ConditionedSampler
from models.forecast.teacher_forcing import TargetOutputs, TargetText
from models.forecast.text_forecast import TextForecast
from tests.engine.replies import draft_model, reply
from tests.models.training.training_plans import CHEAP
from tests.toys.tables import TableModel, random_tables

COSTS = replace(CHEAP, plain=0.9 * CHEAP.pass_s(1))
WARM = SamplingSettings(temperature=1, seed=3)
SIZE = 12
TABLES = random_tables(SIZE, 0.7, seed=1)


@pytest.mark.slow
@pytest.mark.parametrize("sampling", [WARM, SamplingSettings(temperature=0.8, top_k=8, repetition_penalty=1.2)])
def test_steered_drafts_are_kept_as_often_as_the_distributions_say(sampling: SamplingSettings) -> None:
    """One text, many seeds: rounds and acceptance by place are those that the chances give, within noise."""
    drafters: list[Drafter] = [draft_model(TableModel(TABLES[1]), SIZE)]
    along = TextForecast(CachedModel(TableModel(TABLES[0])), drafters, 4, frozenset())
    text = TargetText((1, 2, *reply(TableModel(TABLES[0]), sampling=WARM, tokens=40, prompt=[1, 2])[0]), 2, 40)
    read = along.outputs(text)
    chances, _ = along.compare(read, sampling, ["rejection"])["rejection"]
    true = along.expect(text, chances, 3, COSTS)
    seeds = [SamplingSettings(**{**vars(sampling), "seed": seed}) for seed in range(70)]
    found = [along.simulate(read, FixedLength(3), one, "rejection", COSTS) for one in seeds]
    rounds = np.array([one.rounds for one in found])
    assert rounds.std() > 0.5
    assert abs(rounds.mean() - true.rounds) < 4 * rounds.std() / len(rounds) ** 0.5
    kept = np.array([one.kept for one in found])
    assert np.all(np.abs(kept.mean(0) - true.kept[:3]) < 4 * kept.std(0) / len(kept) ** 0.5)


def test_what_is_drawn_given_the_text_is_what_rejection_draws() -> None:
    """Kept with min(1, q / p); else from max(0, q - p) / Z, whatever the text has; and after that from q."""
    said, seeds = 3, 1500
    logits = mx.array(np.random.default_rng(0).normal(0, 1.5, (2, SIZE)).astype(np.float32))
    p, q = np.array(mx.softmax(logits, -1), np.float64)
    read = TargetOutputs(TargetText((1, 2, said, said), 2, 2), mx.stack([logits[0], logits[0]]), None)
    drawn = np.zeros((2, SIZE))
    after = np.zeros(SIZE)
    for seed in range(seeds):
        sampler = ConditionedSampler(SamplingSettings(temperature=1, seed=seed), read)
        context = TokenCounts(sampler.distribution, [1, 2])
        pair = [sampler.draw(logits[1:], context, 2, None, place).tokens for place in (0, 1)]
        first, second = mx.concatenate(pair).tolist()
        drawn[0, first] += 1
        drawn[1, second] += first == said
        after[second] += first != said
    rest = np.maximum(q - p, 0)
    kept = min(1, q[said] / p[said])
    distribution = kept * np.eye(SIZE)[said] + (1 - kept) * rest / rest.sum()
    assert 0.2 < kept < 0.8
    for counts, expected in ((drawn[0], distribution), (drawn[1], distribution), (after, q)):
        n = counts.sum()
        spread = np.sqrt(expected * (1 - expected) / n) + 0.5 / n * (expected > 0)  # rare tokens are not normal
        assert np.all(np.abs(counts / n - expected) <= 4 * spread)
