"""A chain drafted token by token, each drawn from its distribution given those before it, or by itself."""

from collections.abc import Callable

import mlx.core as mx

from engine.drafters import Draft, DraftContext
from engine.sampling import DraftRows


def draw_chain(
    context: DraftContext,
    logits: mx.array,
    next_logits: Callable[[mx.array], mx.array],
    length: int,
    ids: mx.array | None = None,
) -> Draft:
    """Drafts `length` tokens.

    logits: (1, width) for the first of them. next_logits: from a token (1,) to the logits after it. ids (width,): the
    tokens that the columns of narrower logits stand for. Each step is submitted as soon as its graph exists, so the
    device drafts while the next one is built; nothing waits for it.
    """
    sampler, counts, position = context.sampler, context.counts, len(context.tokens)
    drawn: list[DraftRows] = []
    for place in range(length):
        if drawn:
            counts, logits = counts.extended(drawn[-1].tokens), next_logits(drawn[-1].tokens)
        drawn.append(sampler.draw(logits, counts, position, ids, place))
        mx.async_eval(drawn[-1].tokens)
    tokens, q = mx.concatenate([one.tokens for one in drawn]), mx.concatenate([one.q for one in drawn])
    logq = None
    if ids is None or not sampler.accepts_by_match:  # where only matches count, log q is not worth widening
        logq = sampler.widen(mx.concatenate([one.logprobs for one in drawn]), ids)
    return Draft(tokens, logq, q=q)


def draw_rows(context: DraftContext, rows: mx.array, ids: mx.array | None = None) -> Draft:
    """Drafts a token from each of `rows` (n, width), logits that do not depend on the tokens drawn before. ids: see
    `draw_chain`."""
    following = iter([rows[place : place + 1] for place in range(1, rows.shape[0])])
    return draw_chain(context, rows[:1], lambda _token: next(following), rows.shape[0], ids)
