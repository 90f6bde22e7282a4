"""Two laws over the same places of a text: the chance of a draft to be kept, and how far apart they are.

Coupled sampling: under one Gumbel noise both laws choose x when x leads in both, which has probability
1 / sum_y max(p(y) / p(x), q(y) / q(x)). Divided by p(x), what p alone chooses x with, that is the chance that the
drafter's choice is kept where the text has x.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import mlx.core as mx
import numpy as np

from engine.acceptance import at
from engine.choice import Rule
from engine.gate import BINS
from models.predict.rounds import Floats

_LEAST = 1e-30


@dataclass(frozen=True)
class Statistics:
    """Sums over `rows` places, so that they add up; `mean` divides.

    overlap: sum of min(p, q), the chance that rejection keeps a token. divergence: KL(p || q) in nats, over the
    tokens that q can say, p being renormalised on them; covered: p's mass on them. target_entropy, drafter_entropy:
    nats. agreed: whether the likeliest tokens are the same. bins: (BINS, 3), by the drafter's confidence in the bins
    of `engine.gate`: places, their confidence, and how much of their drafts is kept.
    """

    rows: int = 0
    overlap: float = 0.0
    divergence: float = 0.0
    covered: float = 0.0
    target_entropy: float = 0.0
    drafter_entropy: float = 0.0
    agreed: float = 0.0
    bins: Floats = field(default_factory=lambda: np.zeros((BINS, 3)))

    def __add__(self, other: Statistics) -> Statistics:
        return Statistics(**{name: value + getattr(other, name) for name, value in vars(self).items()})

    def mean(self, name: str) -> float:
        """Of the sum called `name`, a place."""
        return float(getattr(self, name)) / max(1, self.rows)

    @property
    def calibration_error(self) -> float:
        """ECE: the mean distance between confidence and what is kept, by bin, weighted by places."""
        return float(np.abs(self.bins[:, 1] - self.bins[:, 2]).sum()) / max(1, self.rows)


def keeping(logp: mx.array, logq: mx.array, said: mx.array, ids: mx.array | None, rule: Rule | None) -> mx.array:
    """The chance that what is drawn from q is kept, where the text has `said`: (n,). rule: None is greedy.

    logp: (n, vocabulary), log of the target's law. logq: (n, width), log of the drafter's, of the tokens `ids` (width,)
    increasing, None for all. said: (n,).
    """
    own = _own(logp, ids)
    if rule is None:
        best = mx.argmax(logq, -1)
        return ((best if ids is None else ids[best]) == said).astype(mx.float32)
    px = mx.maximum(mx.exp(at(logp, said)), _LEAST)
    qx = mx.exp(_at_ids(logq, said, ids))
    if rule == "rejection":
        return mx.minimum(1.0, qx / px)
    p, q = mx.exp(own), mx.exp(logq)
    rest = 0.0 if ids is None else mx.maximum(1.0 - mx.sum(p, -1), 0.0)
    least = mx.maximum(qx, _LEAST)
    both = rest + mx.sum(mx.maximum(p, q * (px / least)[:, None]), -1)
    return mx.where(qx > 0, 1.0 / both, 0.0)


def compare(logp: mx.array, logq: mx.array, ids: mx.array | None, kept: mx.array) -> Statistics:
    """Statistics of n places. kept: (n,) as `keeping` gives it; the rest as there."""
    own = _own(logp, ids)
    p, q = mx.exp(own), mx.exp(logq)
    known = mx.where(q > 0, p, 0.0)
    covered = mx.sum(known, -1)
    apart = mx.sum(mx.where(known > 0, known * (own - logq), 0.0), -1)
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
    bins = _binned(np.array(mx.max(q, -1), np.float64), np.array(kept, np.float64))
    return Statistics(rows=logp.shape[0], bins=bins, **dict(zip(columns, sums, strict=True)))


def _binned(confidence: Floats, kept: Floats) -> Floats:
    places = np.clip((confidence * BINS).astype(int), 0, BINS - 1)
    bins = np.zeros((BINS, 3))
    np.add.at(bins, places, np.stack([np.ones(len(kept)), confidence, kept], -1))
    return bins


def _own(logp: mx.array, ids: mx.array | None) -> mx.array:
    return logp if ids is None else logp[:, ids]


def _at_ids(logq: mx.array, said: mx.array, ids: mx.array | None) -> mx.array:
    """log q of the tokens `said`, -inf for those that the drafter cannot say: (n,)."""
    if ids is None:
        return at(logq, said)
    found = ids[None] == said[:, None]
    return mx.where(mx.any(found, -1), at(logq, mx.argmax(found, -1)), -mx.inf)


def _entropy(logprobs: mx.array) -> mx.array:
    probs = mx.exp(logprobs)
    return -mx.sum(mx.where(probs > 0, probs * logprobs, 0.0), -1)
