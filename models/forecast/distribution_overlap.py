"""Compares the distributions of target (p) and drafter (q) over a text: acceptance probabilities and distance.

Coupled sampling: under one Gumbel noise both distributions yield x with probability
1 / sum_y max(p(y) / p(x), q(y) / q(x)). Divided by p(x), the probability that p yields x, that is the probability
that the drafter's choice is accepted where the text has x.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import mlx.core as mx
import numpy as np

from engine.acceptance import gather
from engine.settings import AcceptanceRule
from models.expected_rounds import Floats

BINS = 10  # of the drafter's confidence
_LEAST = 1e-30


@dataclass(frozen=True)
class OverlapStatistics:
    """Sums over `rows` positions of a text; `mean` divides them.

    overlap: sum of min(p, q), the probability that rejection accepts a token. divergence: KL(p || q) in nats, over the
    tokens in the drafter's vocabulary, p renormalised on them; covered: p's mass on them. target_entropy,
    drafter_entropy: nats. agreed: whether the most likely tokens are the same. bins: (BINS, 3), by the drafter's
    confidence in BINS bins of equal width: positions, and the sums of confidence and acceptance.
    """

    rows: int = 0
    overlap: float = 0.0
    divergence: float = 0.0
    covered: float = 0.0
    target_entropy: float = 0.0
    drafter_entropy: float = 0.0
    agreed: float = 0.0
    bins: Floats = field(default_factory=lambda: np.zeros((BINS, 3)))

    def __add__(self, other: OverlapStatistics) -> OverlapStatistics:
        return OverlapStatistics(**{name: value + getattr(other, name) for name, value in vars(self).items()})

    def mean(self, name: str) -> float:
        """Returns the sum called `name` per position."""
        return float(getattr(self, name)) / max(1, self.rows)

    @property
    def calibration_error(self) -> float:
        """ECE: the mean distance between confidence and acceptance, by bin, weighted by positions."""
        return float(np.abs(self.bins[:, 1] - self.bins[:, 2]).sum()) / max(1, self.rows)


def acceptance_probs(
    logp: mx.array, logq: mx.array, tokens: mx.array, ids: mx.array | None, rule: AcceptanceRule | None
) -> mx.array:
    """Returns the probability (n,) that a token drafted from q is accepted where the text has `tokens` (n,).

    logp: (n, vocabulary), log of p. logq: (n, width), log of q over the tokens `ids` (width,), increasing, None for
    all. rule: None is greedy.
    """
    shared = _on_ids(logp, ids)
    if rule is None:
        best = mx.argmax(logq, -1)
        return ((best if ids is None else ids[best]) == tokens).astype(mx.float32)
    px = mx.maximum(mx.exp(gather(logp, tokens)), _LEAST)
    qx = mx.exp(_at_ids(logq, tokens, ids))
    if rule == "rejection":
        return mx.minimum(1.0, qx / px)
    p, q = mx.exp(shared), mx.exp(logq)
    rest = 0.0 if ids is None else mx.maximum(1.0 - mx.sum(p, -1), 0.0)
    least = mx.maximum(qx, _LEAST)
    both = rest + mx.sum(mx.maximum(p, q * (px / least)[:, None]), -1)
    return mx.where(qx > 0, 1.0 / both, 0.0)


def compare_distributions(
    logp: mx.array, logq: mx.array, ids: mx.array | None, accepted: mx.array
) -> OverlapStatistics:
    """Returns the statistics of n positions. accepted: (n,) from `acceptance_probs`; the rest as there."""
    shared = _on_ids(logp, ids)
    p, q = mx.exp(shared), mx.exp(logq)
    known = mx.where(q > 0, p, 0.0)
    covered = mx.sum(known, -1)
    apart = mx.sum(mx.where(known > 0, known * (shared - logq), 0.0), -1)
    share = mx.maximum(covered, _LEAST)
    divergence = mx.where(covered > 0, apart / share - mx.log(share), 0.0)
    best = mx.argmax(logq, -1)
    agreed = (best if ids is None else ids[best]) == mx.argmax(logp, -1)
    columns = {
        "overlap": mx.sum(mx.minimum(p, q), -1),
        "divergence": divergence,
        "covered": covered,
        "target_entropy": _entropy(logp),
        "drafter_entropy": _entropy(logq),
        "agreed": agreed.astype(mx.float32),
    }
    sums: Any = mx.stack([mx.sum(column) for column in columns.values()]).tolist()
    bins = _binned(np.array(mx.max(q, -1), np.float64), np.array(accepted, np.float64))
    return OverlapStatistics(rows=logp.shape[0], bins=bins, **dict(zip(columns, sums, strict=True)))


def _binned(confidence: Floats, accepted: Floats) -> Floats:
    bins_of = np.clip((confidence * BINS).astype(int), 0, BINS - 1)
    bins = np.zeros((BINS, 3))
    np.add.at(bins, bins_of, np.stack([np.ones(len(accepted)), confidence, accepted], -1))
    return bins


def _on_ids(logp: mx.array, ids: mx.array | None) -> mx.array:
    return logp if ids is None else logp[:, ids]


def _at_ids(logq: mx.array, tokens: mx.array, ids: mx.array | None) -> mx.array:
    """Returns log q of `tokens`, -inf for those outside the drafter's vocabulary: (n,)."""
    if ids is None:
        return gather(logq, tokens)
    found = ids[None] == tokens[:, None]
    return mx.where(mx.any(found, -1), gather(logq, mx.argmax(found, -1)), -mx.inf)


def _entropy(logprobs: mx.array) -> mx.array:
    probs = mx.exp(logprobs)
    return -mx.sum(mx.where(probs > 0, probs * logprobs, 0.0), -1)
