"""What a drafter proposes for one round."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import mlx.core as mx

from engine.errors import ModelError
from engine.tree import Tree


@dataclass(frozen=True)
class Draft:
    """Proposed tokens: a chain, or a tree whose shape says which follows which.

    tokens: (n,) int32, may be lazy. logq: for each token the law it was drawn from, as log-probabilities
    (n, vocabulary of the target), siblings having the same row; None for a point mass. In a tree with a law,
    siblings are drawn without replacement, in order, and how many a node has depends on nothing drawn there.
    q: (n,) probability of each token by its drafter, for showing; None: from `logq`, or 1.
    when: where someone times drafts, `time.monotonic` as it was asked for and as it was there, evaluated.
    """

    tokens: mx.array
    logq: mx.array | None = None
    shape: Tree | None = None
    q: mx.array | None = None
    when: tuple[float, float] | None = None


def need_numbers(chances: Sequence[float]) -> None:
    """Raises ModelError: one of a drafter's chances is no number."""
    if any(map(math.isnan, chances)):
        raise ModelError("the drafter's probabilities are not numbers: its files are damaged, get it again")


def nothing() -> Draft:
    """The empty draft: the round becomes one plain step."""
    return Draft(mx.zeros(0, mx.int32))
