"""A chain drafted token by token, each drawn from its distribution given those before it."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import mlx.core as mx

from engine.drafters import Draft, DraftContext, check_probabilities, empty_draft
from engine.sampling import DraftRows


def draw_chain(
    context: DraftContext,
    logits: mx.array,
    next_logits: Callable[[mx.array], mx.array],
    length: int,
    ids: mx.array | None = None,
) -> Draft:
    """Drafts at most `length` tokens; fewer where `context.stop` says so.

    logits: (1, width) for the first of them. next_logits: from a token (1,) to the logits after it. ids (width,): the
    tokens that the columns of narrower logits stand for. Each step is submitted as soon as its graph exists, so the
    device drafts while the next one is built. A confidence stop needs numbers and so waits for each distribution, but
    for no token: see `engine.policy.confidence_stop`.
    """
    sampler, counts, position, stop = context.sampler, context.counts, len(context.tokens), context.stop
    drawn: list[DraftRows] = []
    waits = 0
    while len(drawn) < length:
        one = sampler.draw(logits, counts, position, ids, len(drawn))
        waits += stop is not None
        if stop is not None and not stop.worth_verifying(_confidence(one)):
            break
        drawn.append(one)
        mx.async_eval(one.tokens)
        if len(drawn) == length or (stop is not None and not stop.worth_continuing()):
            break
        counts = counts.extended(one.tokens)
        logits = next_logits(one.tokens)
    if not drawn:
        return empty_draft(waits=waits)
    tokens, q = mx.concatenate([one.tokens for one in drawn]), mx.concatenate([one.q for one in drawn])
    logq = None
    if ids is None or not sampler.accepts_by_match:  # where only matches count, log q is not worth widening
        logq = sampler.widen(mx.concatenate([one.logprobs for one in drawn]), ids)
    return Draft(tokens, logq, q=q, waits=waits)


def _confidence(drawn: DraftRows) -> float:
    """Returns the largest probability of the distribution, whatever was drawn from it. Raises ModelError if it is not a
    number."""
    most: Any = mx.max(drawn.logprobs).item()
    check_probabilities((most,))
    return math.exp(most)
