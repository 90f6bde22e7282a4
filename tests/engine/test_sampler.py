"""Distribution, noise and rule together: what a request's tokens are, whoever drafts."""

import mlx.core as mx
import numpy as np
import pytest

from engine.drafters import Draft
from engine.drafters.prompt_lookup import PromptLookup
from engine.sampling import Sampler, TokenCounts
from engine.settings import SamplingSettings
from engine.target.cached_model import CachedModel
from engine.verify_pass import verify
from tests.engine.replies import draft_model, earlier_replies, reply
from tests.toys.tables import TableModel, random_tables, text_distribution

SIZE = 4
START = (2, 1)
REPLIES = 3000


def chi_square(
    counts: dict[tuple[int, ...], int], distribution: dict[tuple[int, ...], float], n: int
) -> tuple[float, int]:
    """Pearson's statistic and its degrees of freedom, texts expected fewer than five times pooled."""
    rare = [t for t in distribution if n * distribution[t] < 5]
    cells = [(counts.get(t, 0), n * distribution[t]) for t in distribution if n * distribution[t] >= 5]
    if rare:
        cells.append((sum(counts.get(t, 0) for t in rare), n * sum(distribution[t] for t in rare)))
    return sum((seen - wanted) ** 2 / wanted for seen, wanted in cells), len(cells) - 1


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["draft model", "lookup trees"])
def test_rejection_keeps_the_distribution_of_whole_texts(kind: str) -> None:
    """3,000 seeds, three tokens: chi-square of the 64 texts against the enumerated distribution.

    Refused beyond 6 standard deviations of the statistic. A reply that took its corrections from p
    instead of the residual is refused by more than 100 (see mutants).
    """
    target_table, draft_table = random_tables(SIZE, closeness=0.6, seed=5)
    target = CachedModel(TableModel(target_table))
    drafter = {
        "draft model": lambda: draft_model(TableModel(draft_table), SIZE),
        "lookup trees": lambda: PromptLookup(1, earlier_replies(SIZE), trees=True),
    }[kind]()
    counts: dict[tuple[int, ...], int] = {}
    prompt = [0, 1, 3, 2, 2, 1, 0, *START]
    accepted = 0
    for seed in range(REPLIES):
        sampling = SamplingSettings(temperature=1, seed=seed)
        ids, rounds, _ = reply(
            target, drafter, 4 if kind == "lookup trees" else 2, sampling, "rejection", tokens=3, prompt=prompt
        )
        counts[tuple(ids)] = counts.get(tuple(ids), 0) + 1
        accepted += sum(r.accepted for r in rounds)
    statistic, freedom = chi_square(counts, text_distribution(target_table, START, 3), REPLIES)
    assert statistic < freedom + 6 * (2 * freedom) ** 0.5
    assert accepted > REPLIES / 10


def test_coupling_accepts_more_than_independent_noise() -> None:
    """A drafter equal to the target is accepted whole when it shares the target's noise."""
    table, _ = random_tables(SIZE, closeness=1, seed=1)
    _, rounds, _ = reply(
        TableModel(table), draft_model(TableModel(table), SIZE), 4, SamplingSettings(temperature=1), prompt=[1, 2]
    )
    assert all(r.accepted == len(r.drafted) for r in rounds)


def test_probabilities_told_are_those_of_the_distribution() -> None:
    logits = mx.array([[2.0, 1.0, 0.0], [0.0, 1.0, 2.0]])
    sampler = Sampler(SamplingSettings(), 3)
    ruling = verify(sampler, logits, TokenCounts(sampler.distribution, []), Draft(mx.array([0])), 0)
    soft = np.exp([2.0, 1.0, 0.0]) / np.exp([2.0, 1.0, 0.0]).sum()
    assert ruling.p.tolist() == pytest.approx([soft[0], soft[0]], abs=1e-6)
    assert ruling.q.tolist() == [1.0]
