"""Under rejection, what is drafted, whether it is kept and what replaces it are drawn independently.

One seed, thousands of positions: each position is a trial of its own, as it is in a reply. Noise that two of
the draws share, or that forgets the position, moves the distribution of the first token.
"""

import mlx.core as mx
import numpy as np
import pytest

from engine.drafters import Draft
from engine.sampling import Sampler, TokenCounts
from engine.settings import SamplingSettings
from engine.verify_pass import verify

pytestmark = pytest.mark.slow

POSITIONS = 6000
P, Q = np.array([0.5, 0.3, 0.2]), np.array([0.1, 0.2, 0.7])


def log(p: np.ndarray) -> mx.array:
    return mx.array(np.log(p).astype(np.float32))


@pytest.fixture(scope="module")
def trials() -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Of each position: the token drafted from Q, whether it was kept, and the token committed there."""
    sampler = Sampler(SamplingSettings(temperature=1, seed=11), 3)
    context = TokenCounts(sampler.distribution, [])
    logits, logq, told = log(np.stack([P, P])), log(Q[None]), []
    for position in range(POSITIONS):
        draft = sampler.draw(logq, context, position)
        verdict = verify(sampler, logits, context, Draft(draft.tokens, draft.logprobs), position)
        told.append(mx.stack([draft.tokens[0], verdict.accepted, verdict.tokens[0]]))
        if position % 200 == 199:
            mx.eval(told[-200:])
    drafted, accepted, committed = np.array(mx.stack(told)).T
    return drafted, accepted, committed


def chi_square(tokens: np.ndarray, distribution: np.ndarray) -> float:
    counts = np.bincount(tokens, minlength=distribution.size)
    return float(((counts - tokens.size * distribution) ** 2 / (tokens.size * distribution)).sum())


@pytest.mark.slow
def test_first_tokens_have_the_targets_distribution(trials: tuple[np.ndarray, np.ndarray, np.ndarray]) -> None:
    """Chi-square, 2 degrees of freedom: beyond 25 once in 270,000 seeds. Drafts that share the target's noise
    give 50 on average."""
    drafted, _, committed = trials
    assert chi_square(committed, P) < 25
    assert chi_square(drafted, Q) < 25


def test_whether_a_draft_is_kept_is_its_chance_whatever_came_before(
    trials: tuple[np.ndarray, np.ndarray, np.ndarray],
) -> None:
    """Within 5 standard deviations, overall and after a refusal."""
    drafted, accepted, _ = trials
    chance = np.minimum(1, P[2] / Q[2])
    kept = accepted[drafted == 2]
    for some in (kept, kept[1:][kept[:-1] == 0]):
        assert abs(some.mean() - chance) < 5 * np.sqrt(chance * (1 - chance) / some.size)
    assert accepted[drafted != 2].all()


def test_corrections_have_the_distribution_of_the_residual(trials: tuple[np.ndarray, np.ndarray, np.ndarray]) -> None:
    """Of the refused, which all drafted token 2: (0.4, 0.1, 0) / 0.5."""
    _, accepted, committed = trials
    corrected = committed[accepted == 0]
    assert not (corrected == 2).any()
    assert chi_square(corrected[corrected < 2], np.array([0.8, 0.2])) < 25
