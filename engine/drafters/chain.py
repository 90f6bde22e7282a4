"""A chain drawn token by token, each from its law given those before it."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import mlx.core as mx

from engine.choice import Drawn
from engine.draft import Draft, need_numbers, nothing
from engine.drafters import Standing


def draw_chain(
    standing: Standing,
    logits: mx.array,
    follow: Callable[[mx.array], mx.array],
    length: int,
    ids: mx.array | None = None,
) -> Draft:
    """At most `length` tokens; fewer where the standing's gate says so.

    logits: (1, width) for the first of them. follow: the next logits for a token (1,). ids (width,): the tokens that
    the columns of narrower logits stand for.
    Each step is submitted as soon as its graph exists, so the device drafts while the next one is built. A gate has
    to be told numbers and so waits for each law, but for no token: see `engine.gate`.
    """
    chooser, context, position, gate = standing.chooser, standing.context, len(standing.tokens), standing.gate
    drawn: list[Drawn] = []
    while len(drawn) < length:
        one = chooser.draft(logits, context, position, ids, len(drawn))
        if gate is not None and not gate.takes(_confidence(one)):
            break
        drawn.append(one)
        mx.async_eval(one.tokens)
        if len(drawn) == length or (gate is not None and not gate.goes_on()):
            break
        context = context.extended(one.tokens)
        logits = follow(one.tokens)
    if not drawn:
        return nothing()
    tokens, chances, laws = (mx.concatenate(list(parts)) for parts in zip(*drawn, strict=True))
    wanted = ids is None or not chooser.matches  # a law that nobody looks at is not worth widening
    return Draft(tokens, chooser.spread(laws, ids) if wanted else None, q=chances)


def _confidence(drawn: Drawn) -> float:
    """The largest probability of the law: of the law alone, whatever was drawn from it.

    Raises ModelError for a law that is none.
    """
    most: Any = mx.max(drawn.logprobs).item()
    need_numbers((most,))
    return math.exp(most)
