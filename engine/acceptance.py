"""What the target keeps of a draft: pure functions on arrays, nothing else.

Glossary
--------
k           draft length; a verify pass has k + 1 rows, row i being the law after i drafted tokens
p           the target's law, as log-probabilities (k + 1, vocabulary)
q           the drafter's law, as log-probabilities (k, vocabulary); None for a point mass, where
            the drafter stands by one token with probability 1
accepted    n, the length of the draft's prefix that is kept
tokens      (k + 1,): the draft with the target's own token written at place n; places past n are void

Every function returns `Verdict(accepted, tokens)` as lazy arrays. Nothing here draws random
numbers: the noise comes in as an argument, so each rule can be proven by enumeration.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import mlx.core as mx


class Verdict(NamedTuple):
    """accepted: () int32. tokens: (k + 1,) int32."""

    accepted: mx.array
    tokens: mx.array


def leading(kept: mx.array) -> mx.array:
    """How many of `kept` (k,) are true before the first false one: () int32."""
    return mx.sum(mx.cumprod(kept.astype(mx.int32)))


def match(choices: mx.array, draft: mx.array) -> Verdict:
    """Keep the draft while it equals what the target chose itself.

    With greedy choices this is greedy decoding. With choices drawn by noise keyed to (seed,
    position) it is coupled sampling (drafter-invariant speculative decoding, arXiv 2408.07978).

    choices: (k + 1,) the target's own choice in every row. draft: (k,).
    """
    n = leading(choices[:-1] == draft) if draft.size else mx.array(0, mx.int32)
    return Verdict(n, choices.astype(mx.int32))


def accept_probability(logp: mx.array, draft: mx.array, logq: mx.array | None) -> mx.array:
    """min(1, p(x) / q(x)) for each drafted token x: (k,)."""
    ratio = at(logp[:-1], draft)
    if logq is not None:
        ratio = ratio - at(logq, draft)
    return mx.minimum(mx.exp(ratio), 1.0)


def residual(logp_row: mx.array, q_row: mx.array) -> mx.array:
    """The law of the correction, max(0, p - q) / Z: (vocabulary,).

    logp_row: (vocabulary,) log of p. q_row: (vocabulary,) q as probabilities; all zero for the
    bonus token, which gives p itself. Where p and q agree to the last bit nothing is left to
    normalise, and p is returned: the refusal that led there had probability zero up to rounding.
    """
    p = mx.exp(logp_row)
    rest = mx.maximum(p - q_row, 0.0)
    mass = mx.sum(rest)
    return mx.where(mass > 0, rest / mx.where(mass > 0, mass, 1.0), p)


def refused_law(draft: mx.array, logq: mx.array | None, n: mx.array, vocabulary: int) -> mx.array:
    """q in row n as probabilities, or zeros when n == k, where there was no draft: (vocabulary,)."""
    k = draft.size
    place = mx.minimum(n, k - 1)
    row = mx.arange(vocabulary) == draft[place] if logq is None else mx.exp(logq[place])
    return mx.where(n < k, row.astype(mx.float32), 0.0)


def rejection_length(logp: mx.array, draft: mx.array, logq: mx.array | None, uniforms: mx.array) -> mx.array:
    """Leviathan 2023 / Chen 2023, first half: how many drafted tokens survive. uniforms: (k,) on [0, 1)."""
    return leading(uniforms < accept_probability(logp, draft, logq))


def rejection_token(logp: mx.array, draft: mx.array, logq: mx.array | None, n: mx.array, gumbel: mx.array) -> mx.array:
    """Second half: the correction from the residual in row n, or the bonus from p. gumbel: (vocabulary,)."""
    vocabulary = logp.shape[-1]
    if draft.size == 0:
        return mx.argmax(logp[0] + gumbel).astype(mx.int32)
    law = residual(logp[n], refused_law(draft, logq, n, vocabulary))
    logs = mx.where(law > 0, mx.log(mx.where(law > 0, law, 1.0)), -math.inf)
    return mx.argmax(logs + gumbel).astype(mx.int32)


def with_last(draft: mx.array, n: mx.array, token: mx.array) -> Verdict:
    """The draft with the target's `token` at place n."""
    k = draft.size
    padded = mx.concatenate([draft.astype(mx.int32), mx.zeros(1, mx.int32)])
    return Verdict(n, mx.where(mx.arange(k + 1) == n, token, padded))


def at(rows: mx.array, tokens: mx.array) -> mx.array:
    """rows[i, tokens[i]] for each row: (rows,)."""
    return mx.take_along_axis(rows, tokens[:, None].astype(mx.int32), -1)[:, 0]
