"""What the target keeps of a draft: pure functions on arrays.

Glossary
--------
k           draft length; a verify pass has k + 1 rows, row i being the distribution after i drafted tokens
p           the target's distribution, as log-probabilities (k + 1, vocabulary)
q           the drafter's distribution, as log-probabilities (k, vocabulary); None for a point mass, where the drafter
            gives one token the probability 1
accepted    n, the length of the draft's prefix that is kept
tokens      (k + 1,): the draft with the target's own token at place n; places past n are void
path        (depth,): in a tree, the accepted node at each level, void past n; see `engine.tree.draft_tree`

Every rule returns an `Acceptance` of lazy arrays. Nothing here draws random numbers: the noise comes in as an
argument, so that each rule can be proven by enumeration.
"""

import math
from typing import NamedTuple

import mlx.core as mx

from engine.events import Rule
from engine.tree.draft_tree import DraftTree
from engine.tree.sibling_rejection import Siblings, accepted_children, rest_after_refusals


class Acceptance(NamedTuple):
    """What a rule accepts, lazy.

    accepted: () int32. tokens: (k + 1,) int32, or (depth + 1,) for a tree. path: (depth,) int32; None for a chain.
    p: the target's probability of each of `tokens`; q: (k,) the drafter's of each drafted token; evidence: see
    `engine.refusal.evidence`; draws: (k,) the uniform draws; rule: that decided. All of these are filled in by
    `engine.verify_pass.verify`.
    """

    accepted: mx.array
    tokens: mx.array
    path: mx.array | None = None
    p: mx.array | None = None
    q: mx.array | None = None
    evidence: mx.array | None = None
    draws: mx.array | None = None
    rule: Rule = ""


def leading_count(kept: mx.array) -> mx.array:
    """Returns how many of `kept` (k,) are true before the first false one: () int32."""
    return mx.sum(mx.cumprod(kept.astype(mx.int32)))


def match(choices: mx.array, draft: mx.array) -> Acceptance:
    """Keeps the draft while it equals what the target chose itself.

    With greedy choices this is greedy decoding. With choices drawn by noise keyed to (seed,
    position) it is coupled sampling (drafter-invariant speculative decoding, arXiv 2408.07978).

    choices: (k + 1,) the target's own choice in every row. draft: (k,).
    """
    return Acceptance(leading_count(choices[:-1] == draft), choices.astype(mx.int32))


def accept_probability(logp: mx.array, draft: mx.array, logq: mx.array | None) -> mx.array:
    """Returns min(1, p(x) / q(x)) for each drafted token x: (k,)."""
    ratio = gather(logp[:-1], draft)
    if logq is not None:
        ratio = ratio - gather(logq, draft)
    return mx.minimum(mx.exp(ratio), 1.0)


def residual(logp_row: mx.array, q_row: mx.array) -> mx.array:
    """Returns the distribution of the correction, max(0, p - q) / Z: (vocabulary,).

    logp_row: (vocabulary,) log of p. q_row: (vocabulary,) q as probabilities; all zero for the
    bonus token, which gives p itself. Where p and q agree to the last bit nothing is left to
    normalise, and p is returned: the refusal that led there had probability zero up to rounding.
    """
    p = mx.exp(logp_row)
    return _renormalized(mx.maximum(p - q_row, 0.0), p)


def refused_probs(draft: mx.array, logq: mx.array | None, n: mx.array, vocabulary: int) -> mx.array:
    """Returns q in row n as probabilities, or zeros when n == k, where there was no draft: (vocabulary,)."""
    k = draft.size
    place = mx.minimum(n, k - 1)
    row = mx.arange(vocabulary) == draft[place] if logq is None else mx.exp(logq[place])
    return mx.where(n < k, row.astype(mx.float32), 0.0)


def rejection_length(logp: mx.array, draft: mx.array, logq: mx.array | None, uniforms: mx.array) -> mx.array:
    """Leviathan 2023 / Chen 2023, first half: returns how many drafted tokens survive. uniforms: (k,) on [0, 1)."""
    return leading_count(uniforms < accept_probability(logp, draft, logq))


def rejection_token(
    logp: mx.array, draft: mx.array, logq: mx.array | None, n: mx.array, gumbel: mx.array
) -> tuple[mx.array, mx.array]:
    """Second half: returns the correction, drawn from the residual in row n, or the bonus, drawn from p; and the
    distribution it was drawn from, (vocabulary,). gumbel: (vocabulary,)."""
    rest = residual(logp[n], refused_probs(draft, logq, n, logp.shape[-1]))
    return mx.argmax(_log(rest) + gumbel).astype(mx.int32), rest


def with_token_at(draft: mx.array, n: mx.array, token: mx.array) -> Acceptance:
    """Returns the draft with the target's `token` at place n."""
    k = draft.size
    padded = mx.concatenate([draft.astype(mx.int32), mx.zeros(1, mx.int32)])
    return Acceptance(n, mx.where(mx.arange(k + 1) == n, token, padded))


def match_tree(choices: mx.array, draft: mx.array, tree: DraftTree) -> Acceptance:
    """Descends from the root into the child that equals what the target chose there, while there is one.

    With greedy or coupled choices the text is that of plain decoding. With choices drawn from p by noise of their
    own this is also rejection over children that are point masses, tried in order: refusing x takes p(x) out and
    renormalises, so a child is reached with probability p(child) and a token outside with p of it, which is what
    one draw does.

    choices: (n + 1,) the target's own choice in the row of the root and of each node. draft: (n,).
    """
    kept = draft == choices[tree.parents + 1]
    alive = ~mx.any(tree.reach & ~kept[None], -1)
    return _accept_path(mx.max(mx.where(alive, tree.depths, 0)), alive, choices, draft, tree)


def reject_tree(
    logp: mx.array, draft: mx.array, logq: mx.array, tree: DraftTree, uniforms: mx.array, gumbel: mx.array
) -> Acceptance:
    """Rejection over children drawn without replacement (Yang 2024, multi-candidate speculative decoding; Jeon 2024,
    recursive speculative decoding).

    At the node reached so far, its children are tried in order: x is accepted with min(1, p(x) / q(x)); when refused,
    p becomes the residual max(0, p - q) / Z, and q loses x and is renormalised: the next child was drawn from that.
    When no child is left the token comes from what p has become. A child that q cannot have drawn, which stands
    where there was nothing left to draw, is passed over.

    All first children are tried at once, then all second ones: `engine.tree.sibling_rejection`.

    logp: (n + 1, vocabulary), rows of the root and of each node. logq: (n, vocabulary), q at each node's
    parent. uniforms: (n,) on [0, 1). gumbel: (depth + 1, vocabulary) for the target's own token at each depth.
    """
    siblings = Siblings.of(tree)
    kept = accepted_children(logp, draft, logq, siblings, uniforms)
    chosen = kept & ~mx.any(siblings.earlier & kept[None], -1)
    alive = ~mx.any(tree.reach & ~chosen[None], -1)
    accepted = mx.max(mx.where(alive, tree.depths, 0))
    last = mx.max(mx.where(alive, mx.arange(1, draft.size + 1), 0))  # of nodes on one path the deepest comes last
    rest = rest_after_refusals(logp, draft, logq, siblings, last)
    token = mx.argmax(_log(rest) + gumbel[tree.row_depths[last]]).astype(mx.int32)
    own = mx.where(mx.arange(draft.size + 1) == last, token, 0)
    return _accept_path(accepted, alive, own, draft, tree)


def _accept_path(accepted: mx.array, alive: mx.array, own: mx.array, draft: mx.array, tree: DraftTree) -> Acceptance:
    """Returns the acceptance of a walk that accepted the nodes `alive` (n,), one a level, and ends with the target's
    `own` token (n + 1,) in the row of the last of them."""
    levels = mx.arange(1, tree.depth + 1)[:, None]
    path = mx.argmax(alive[None] & (tree.depths[None] == levels), -1).astype(mx.int32)
    row = mx.where(accepted > 0, path[mx.maximum(accepted - 1, 0)] + 1, 0)
    taken = mx.concatenate([draft[path].astype(mx.int32), mx.zeros(1, mx.int32)])
    tokens = mx.where(mx.arange(tree.depth + 1) == accepted, own[row].astype(mx.int32), taken)
    return Acceptance(accepted, tokens, path)


def _renormalized(mass: mx.array, otherwise: mx.array) -> mx.array:
    """Returns `mass` over its sum, or `otherwise` where nothing is left of it but rounding."""
    total = mx.sum(mass)
    return mx.where(total > 0, mass / mx.where(total > 0, total, 1.0), otherwise)


def _log(probs: mx.array) -> mx.array:
    return mx.where(probs > 0, mx.log(mx.where(probs > 0, probs, 1.0)), -math.inf)


def gather(rows: mx.array, tokens: mx.array) -> mx.array:
    """Returns rows[i, tokens[i]] for each row: (rows,)."""
    if rows.shape[0] == 1:  # by fewer operations, which each plain step would wait for
        return mx.take(rows, tokens)
    return mx.take_along_axis(rows, tokens[:, None].astype(mx.int32), -1)[:, 0]
