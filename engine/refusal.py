"""Which acceptance rule judges a draft, and why the target emitted a token of its own: the numbers that decided,
gathered from what acceptance computes anyway.

Nothing here is as wide as the vocabulary, and nothing waits: a few gathers join the graph of the round.

x   the drafted token at the place where the draft ended; in a tree the first of those offered there
y   the token that the target emitted there
"""

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
    """Returns [log p(x), a, b], or [log p(x)] where there is nothing else to know, lazy: (3,) or (1,) float32. a, b: by
    match the scores of x and y, of which the target took the largest; by rejection in a chain log q(y) and the
    residual's probability of y.

    logp: (rows, vocabulary) of the verify pass. scores: (rows, vocabulary) of the choices by match, None else. rest:
    (vocabulary,) the distribution of the correction, None where it is not known as a whole. Void if nothing was
    refused.
    """
    row, node = _place(accepted, draft)
    x = draft.tokens[node]
    if rule in ("point mass", "fixed tree", "drawn tree"):
        return logp[row, x][None]
    y = accepted.tokens[accepted.accepted]
    if scores is not None:
        parts = [logp[row, x], scores[row, x], scores[row, y]]
    else:
        assert rest is not None and draft.logq is not None
        parts = [logp[row, x], draft.logq[node, y], rest[y]]
    return mx.stack(parts)


def _place(accepted: Acceptance, draft: Draft) -> tuple[mx.array, mx.array]:
    """Returns the row of the verify pass that the target's own token is from, and the place of x in the draft: () both;
    some place of the draft if there is no x."""
    n = accepted.accepted
    if draft.tree is None or accepted.path is None:
        return n, mx.minimum(n, draft.tokens.size - 1)
    end = mx.where(n > 0, accepted.path[mx.maximum(n - 1, 0)], -1)
    return end + 1, mx.argmax(draft.tree.parents == end)


def explained(round_: Round, numbers: Sequence[float], draws: Sequence[float]) -> Round:
    """Returns a round with its refusal and the draws that decided. numbers: what `evidence` gathered. draws: by
    rejection one for each drafted token, else none."""
    refusal = read_refusal(round_.rule, numbers) if round_.refused else None
    if not draws:
        return replace(round_, refusal=refusal)
    nodes = (*round_.kept, *round_.offered(round_.accepted)[:1])
    return replace(round_, refusal=refusal, draws=tuple(draws[node] for node in nodes))


def read_refusal(rule: Rule, numbers: Sequence[float]) -> Refusal:
    """Returns what `evidence` gathered, as plain values."""
    p = math.exp(numbers[0])
    if rule in ("greedy", "coupled"):
        return Refusal(p, drafted_score=_finite(numbers[1]), emitted_score=_finite(numbers[2]))
    if rule == "rejection":
        return Refusal(p, emitted_q=math.exp(numbers[1]), residual=numbers[2])
    return Refusal(p)


def _finite(score: float) -> float | None:
    """Returns a score, None for that of a token which top-k, top-p or min-p left out: JSON knows no infinity."""
    return score if math.isfinite(score) else None
