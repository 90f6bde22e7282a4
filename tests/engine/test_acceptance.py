"""The acceptance rules, proven by enumeration to 1e-6 against `oracle`."""

import math

import mlx.core as mx
import numpy as np
import pytest

from engine import acceptance
from tests.engine import oracle

TOLERANCE = 1e-6


def distributions(rng: np.random.Generator, rows: int, size: int, zeros: bool) -> np.ndarray:
    """Random distributions (rows, size), some of them sparse, some peaked, some equal to the row before."""
    out = rng.dirichlet(np.full(size, rng.choice([0.2, 1.0, 5.0])), rows)
    if zeros:
        out *= rng.random(out.shape) > 0.4
        out[np.arange(rows), rng.integers(0, size, rows)] += 0.1
    return out / out.sum(-1, keepdims=True)


def pairs(seed: int, k: int, size: int) -> tuple[np.ndarray, np.ndarray]:
    """p (k + 1, V) and q (k, V): independent, with zeros in p, in q or both, and once in a while equal."""
    rng = np.random.default_rng([seed, k])
    p, q = distributions(rng, k + 1, size, seed % 2 == 1), distributions(rng, k, size, seed % 4 >= 2)
    if seed % 5 == 4 and k:
        q[0] = p[0]
    return p, q


def logs(p: np.ndarray) -> mx.array:
    with np.errstate(divide="ignore"):
        return mx.array(np.log(p).astype(np.float32))


def engine_rule(p: np.ndarray, q: np.ndarray, point_mass: bool = False):
    """keep(i, x) and correct(i) as the engine computes them, for `oracle.committed`."""
    k, size = q.shape
    logp, logq = logs(p), None if point_mass else logs(q)
    keeps = np.zeros((k, size))
    for x in range(size if k else 0):
        draft = mx.full((k,), x, mx.int32)
        keeps[:, x] = np.array(acceptance.accept_probability(logp, draft, logq))

    def correct(n: int) -> np.ndarray:
        drafted = mx.array(q.argmax(-1), mx.int32) if point_mass else mx.zeros(k, mx.int32)
        refused = acceptance.refused_probs(drafted, logq, mx.array(n), size) if k else mx.zeros(size)
        return np.array(acceptance.residual(logp[n], refused), dtype=np.float64)

    return (lambda i, x: float(keeps[i, x])), correct


@pytest.mark.parametrize("k", [0, 1, 2, 4, 7])
@pytest.mark.parametrize("seed", range(4))
def test_rejection_commits_the_targets_distribution(k: int, seed: int) -> None:
    size = 2 if k > 6 else 3 if k > 3 else 5
    p, q = pairs(seed, k, size)
    distribution = oracle.completed(oracle.committed(p, q, *engine_rule(p, q)), p)
    wanted = oracle.plain(p)
    assert max(abs(distribution[t] - wanted[t]) for t in wanted) < TOLERANCE


@pytest.mark.parametrize("seed", range(20))
def test_rejection_is_the_papers_rule_piece_by_piece(seed: int) -> None:
    p, q = pairs(seed, 4, 6)
    keep, correct = engine_rule(p, q)
    for i in range(4):
        for x in np.flatnonzero(q[i]):  # what the drafter cannot propose has no ratio
            assert keep(i, x) == pytest.approx(oracle.keep_probability(p[i], q[i], x), abs=TOLERANCE)
        if np.maximum(p[i] - q[i], 0).sum() > 1e-4:
            assert np.abs(correct(i) - oracle.correction(p[i], q[i])).max() < 1e-5
    assert np.abs(correct(4) - p[4]).max() < TOLERANCE


@pytest.mark.parametrize("k", [1, 2, 4, 7])
@pytest.mark.parametrize("seed", range(4))
def test_a_point_mass_commits_the_targets_distribution(k: int, seed: int) -> None:
    size = 2 if k > 6 else 3
    p, q = pairs(seed, k, size)
    q = np.eye(size)[q.argmax(-1)]
    distribution = oracle.completed(oracle.committed(p, q, *engine_rule(p, q, point_mass=True)), p)
    wanted = oracle.plain(p)
    assert max(abs(distribution[t] - wanted[t]) for t in wanted) < TOLERANCE


def test_the_residual_is_normalised_and_free_of_what_the_drafter_over_weighs() -> None:
    p, q = np.array([0.5, 0.3, 0.2, 0.0]), np.array([0.1, 0.6, 0.1, 0.2])
    rest = np.array(acceptance.residual(logs(p), mx.array(q.astype(np.float32))))
    assert rest == pytest.approx([0.8, 0.0, 0.2, 0.0], abs=TOLERANCE)


def test_equal_distributions_leave_no_residual_and_fall_back_to_p() -> None:
    p = np.array([0.25, 0.75])
    rest = np.array(acceptance.residual(logs(p), mx.array(p.astype(np.float32)) + 1e-3))
    assert rest == pytest.approx(p, abs=TOLERANCE)


@pytest.mark.parametrize(
    ("choices", "draft", "accepted"),
    [
        ([5, 6, 7, 8], [5, 6, 7], 3),
        ([5, 6, 7, 8], [5, 6, 9], 2),
        ([5, 6, 7, 8], [5, 9, 7], 1),
        ([5, 6, 7, 8], [9, 6, 7], 0),
        ([5], [], 0),
    ],
)
def test_match_keeps_the_agreeing_prefix(choices: list[int], draft: list[int], accepted: int) -> None:
    verdict = acceptance.match(mx.array(choices), mx.array(draft, mx.int32))
    assert verdict.accepted.item() == accepted
    assert verdict.tokens.tolist()[: accepted + 1] == choices[: accepted + 1]


def test_a_uniform_equal_to_the_chance_refuses() -> None:
    """u lies in [0, 1): accepting at u == chance would keep a token of probability zero when u is 0."""
    logp = logs(np.array([[0.0, 1.0], [0.5, 0.5]]))
    n = acceptance.rejection_length(logp, mx.array([0]), logs(np.array([[0.5, 0.5]])), mx.zeros(1))
    assert n.item() == 0


def test_with_last_writes_the_targets_token_after_the_kept_prefix() -> None:
    draft = mx.array([7, 8, 9], mx.int32)
    for n in range(4):
        tokens = acceptance.with_token_at(draft, mx.array(n), mx.array(1)).tokens.tolist()
        assert tokens[: n + 1] == [*[7, 8, 9][:n], 1]


def test_impossible_tokens_are_never_drawn_as_correction() -> None:
    logp = mx.array([[math.log(0.5), math.log(0.5), -math.inf]] * 2)
    logq = mx.array([[-math.inf, math.log(0.5), math.log(0.5)]])
    for noise in ([0.0, 0.0, 50.0], [0.0, 50.0, 50.0]):
        token, _ = acceptance.rejection_token(logp, mx.array([2]), logq, mx.array(0), mx.array(noise))
        assert token.item() == 0
