"""What the target keeps of a draft: pure functions on arrays, nothing else.

Glossary
--------
k           draft length; a verify pass has k + 1 rows, row i being the law after i drafted tokens
p           the target's law, as log-probabilities (k + 1, vocabulary)
q           the drafter's law, as log-probabilities (k, vocabulary); None for a point mass, where
            the drafter stands by one token with probability 1
accepted    n, the length of the draft's prefix that is kept
tokens      (k + 1,): the draft with the target's own token written at place n; places past n are void
path        (depth,): in a tree, the accepted node at each level, void past n; see `engine.tree`

Every rule returns `Verdict` as lazy arrays. Nothing here draws random
numbers: the noise comes in as an argument, so each rule can be proven by enumeration.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import mlx.core as mx

from engine.tree import Tree


class Verdict(NamedTuple):
    """accepted: () int32. tokens: (k + 1,) int32, or (depth + 1,) for a tree. path: (depth,) int32; chains: None."""

    accepted: mx.array
    tokens: mx.array
    path: mx.array | None = None


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
    return _renormalised(mx.maximum(p - q_row, 0.0), p)


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
    return mx.argmax(_log(law) + gumbel).astype(mx.int32)


def with_last(draft: mx.array, n: mx.array, token: mx.array) -> Verdict:
    """The draft with the target's `token` at place n."""
    k = draft.size
    padded = mx.concatenate([draft.astype(mx.int32), mx.zeros(1, mx.int32)])
    return Verdict(n, mx.where(mx.arange(k + 1) == n, token, padded))


def match_tree(choices: mx.array, draft: mx.array, shape: Tree) -> Verdict:
    """Descend from the root into the child that equals what the target chose there, while there is one.

    With greedy or coupled choices the text is that of plain decoding. With choices drawn from p by noise of their
    own this is also rejection over children that are point masses, tried in order: refusing x takes p(x) out and
    renormalises, so a child is reached with probability p(child) and a token outside with p of it, which is what
    one draw does.

    choices: (n + 1,) the target's own choice in the row of the root and of each node. draft: (n,).
    """
    kept = draft == choices[shape.parents + 1]
    alive = ~mx.any(shape.reach & ~kept[None], -1)
    return _walked(mx.max(mx.where(alive, shape.depths, 0)), alive, choices, draft, shape)


def reject_tree(
    logp: mx.array, draft: mx.array, logq: mx.array, shape: Tree, uniforms: mx.array, gumbel: mx.array
) -> Verdict:
    """Rejection over children drawn without replacement (Yang 2024, multi-candidate speculative decoding; Jeon 2024,
    recursive speculative decoding).

    At the node reached so far, its children are tried in order: x is accepted with min(1, p(x) / q(x)); when refused,
    p becomes the residual max(0, p - q) / Z, and q loses x and is renormalised, being the law of the next child.
    When no child is left the token comes from what p has become. A child that q cannot have drawn, which stands
    where there was nothing left to draw, is passed over.

    logp: (n + 1, vocabulary), rows of the root and of each node. logq: (n, vocabulary), the law at each node's
    parent. uniforms: (n,) on [0, 1). gumbel: (depth + 1, vocabulary) for the target's own token at each depth.
    """
    here, p, q = mx.array(-1), mx.exp(logp[0]), mx.zeros(logp.shape[-1])
    fresh, kept = mx.array(True), []
    for node in range(draft.size):
        x = draft[node]
        law = mx.where(fresh, mx.exp(logq[node]), q)
        tried = (shape.parents[node] == here) & (law[x] > 0)
        accept = tried & (uniforms[node] * law[x] < p[x])
        refuse = tried & ~accept
        less = _without(law, x)
        p = mx.where(accept, mx.exp(logp[node + 1]), mx.where(refuse, _renormalised(mx.maximum(p - law, 0.0), p), p))
        q = mx.where(refuse, less, q)
        fresh = mx.where(tried, accept, fresh)
        here = mx.where(accept, node, here)
        kept.append(accept)
    alive = mx.stack(kept)
    token = mx.argmax(_log(p) + gumbel[shape.row_depths[here + 1]]).astype(mx.int32)
    own = mx.where(mx.arange(draft.size + 1) == here + 1, token, 0)
    return _walked(mx.sum(alive.astype(mx.int32)), alive, own, draft, shape)


def _walked(accepted: mx.array, alive: mx.array, own: mx.array, draft: mx.array, shape: Tree) -> Verdict:
    """The verdict of a walk that accepted the nodes `alive` (n,), one a level, and ends with the target's `own` token
    (n + 1,) in the row of the last of them."""
    levels = mx.arange(1, shape.depth + 1)[:, None]
    path = mx.argmax(alive[None] & (shape.depths[None] == levels), -1).astype(mx.int32)
    row = mx.where(accepted > 0, path[mx.maximum(accepted - 1, 0)] + 1, 0)
    taken = mx.concatenate([draft[path].astype(mx.int32), mx.zeros(1, mx.int32)])
    tokens = mx.where(mx.arange(shape.depth + 1) == accepted, own[row].astype(mx.int32), taken)
    return Verdict(accepted, tokens, path)


def _without(law: mx.array, token: mx.array) -> mx.array:
    """A law without one of its tokens, renormalised: (vocabulary,)."""
    rest = mx.where(mx.arange(law.size) == token, 0.0, law)
    return _renormalised(rest, rest)


def _renormalised(mass: mx.array, otherwise: mx.array) -> mx.array:
    """`mass` over its sum, or `otherwise` where nothing is left of it but rounding."""
    total = mx.sum(mass)
    return mx.where(total > 0, mass / mx.where(total > 0, total, 1.0), otherwise)


def _log(law: mx.array) -> mx.array:
    return mx.where(law > 0, mx.log(mx.where(law > 0, law, 1.0)), -math.inf)


def at(rows: mx.array, tokens: mx.array) -> mx.array:
    """rows[i, tokens[i]] for each row: (rows,)."""
    return mx.take_along_axis(rows, tokens[:, None].astype(mx.int32), -1)[:, 0]
