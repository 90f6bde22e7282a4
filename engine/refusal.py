"""Why the target emitted a token of its own: the numbers that decided, gathered from what acceptance computes anyway.

Nothing here is as wide as the vocabulary, and nothing waits: a few gathers join the graph of the round.

x   the drafted token at the place where the draft ended; in a tree the first of those offered there
y   the token that the target emitted there
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

import mlx.core as mx

from engine.acceptance import Acceptance
from engine.drafters import Draft
from engine.events import Refusal, Round, Rule
from engine.sampling import Sampler


def rule_of(sampler: Sampler, draft: Draft) -> Rule:
    """Returns the rule that decides on `draft`, "" for an empty one."""
    if draft.tokens.size == 0:
        return ""
    if sampler.sampling.greedy:
        return "greedy"
    if sampler.accepts_by_match:
        return "coupled"
    if draft.tree is not None:
        return "fixed tree" if draft.logq is None else "drawn tree"
    return "point mass" if draft.logq is None else "rejection"


def evidence(
    rule: Rule, accepted: Acceptance, draft: Draft, logp: mx.array, scores: mx.array | None, rest: mx.array | None
) -> mx.array:
    """Returns [p(x), a, b], lazy: (3,) float32. a, b: under match the scores of x and y, of which the target took the
    largest; in a chain under rejection q(y) and the residual's probability of y; else 0.

    logp: (rows, vocabulary) of the verify pass. scores: (rows, vocabulary) of the choices by match, None else. rest:
    (vocabulary,) the distribution of the correction, None where it is not known as a whole. Void if nothing was
    refused.
    """
    row, node = _place(accepted, draft)
    x, y, zero = draft.tokens[node], accepted.tokens[accepted.accepted], mx.array(0.0)
    first = second = zero
    if rule in ("greedy", "coupled") and scores is not None:
        first, second = scores[row, x], scores[row, y]
    elif rule == "rejection" and draft.logq is not None and rest is not None:
        first, second = mx.exp(draft.logq[node, y]), rest[y]
    return mx.stack([mx.exp(logp[row, x]), first, second]).astype(mx.float32)


def _place(accepted: Acceptance, draft: Draft) -> tuple[mx.array, mx.array]:
    """Returns the row of the verify pass that the target's own token is from, and the place of x in the draft: () both;
    some place of the draft if there is no x."""
    n = accepted.accepted
    if draft.tree is None or accepted.path is None:
        return n, mx.minimum(n, draft.tokens.size - 1)
    end = mx.where(n > 0, accepted.path[mx.maximum(n - 1, 0)], -1)
    return end + 1, mx.argmax(draft.tree.parents == end)


def explained(round_: Round, numbers: Sequence[float], draws: Sequence[float]) -> Round:
    """Returns a round with its refusal and the draws that decided, from what `evidence` gathered and from one draw for
    each drafted token, or none."""
    refusal = read_refusal(round_.rule, numbers) if round_.refused else None
    if not draws:
        return replace(round_, refusal=refusal)
    if round_.parents is None:
        return replace(round_, refusal=refusal, draws=tuple(draws[: round_.depth]))
    end = round_.path[-1] if round_.path else -1
    nodes = [*round_.path, round_.parents.index(end)] if round_.refused else round_.path
    return replace(round_, refusal=refusal, draws=tuple(draws[node] for node in nodes))


def read_refusal(rule: Rule, numbers: Sequence[float]) -> Refusal:
    """Returns what `evidence` gathered, as plain values."""
    p, first, second = numbers
    if rule in ("greedy", "coupled"):
        return Refusal(p, drafted_score=_finite(first), emitted_score=_finite(second))
    return Refusal(p, emitted_q=first, residual=second) if rule == "rejection" else Refusal(p)


def _finite(score: float) -> float | None:
    """Returns a score, None for that of a token which top-k, top-p or min-p left out: JSON knows no infinity."""
    return score if math.isfinite(score) else None
