"""One round in flight: everything from verify pass to acceptance as one graph, landed once.

`launch` builds and submits, `land` waits. Between the two the device works, so a plain step can
be launched on the still unknown token of the one before.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import Any

import mlx.core as mx

from engine.choice import Chooser
from engine.drafters import Draft, Standing, nothing
from engine.events import Round
from engine.sampling import Context
from engine.target import CachedModel


@dataclass(frozen=True)
class Flight:
    """A round on its way.

    numbers: [accepted, tokens (depth + 1), drafted (length)] int32, and for a tree [path (depth), parents (length)]
    behind them. chances: [p (depth + 1), q (length)] float32. A chain is as deep as it is long.
    """

    numbers: mx.array
    chances: mx.array
    length: int
    depth: int
    width: int
    context: Context
    reason: str

    @property
    def first_token(self) -> mx.array:
        """The token of a plain step, (1,), still lazy."""
        return self.numbers[1:2]

    def land(self, index: int, began_s: float) -> Round:
        """Wait for the device: the one synchronisation of a round."""
        mx.eval(self.numbers, self.chances)
        numbers: Any = self.numbers.tolist()
        chances: Any = self.chances.tolist()
        accepted, first, last = numbers[0], 1 + self.depth + 1, 1 + self.depth + 1 + self.length
        branched = len(numbers) > last
        parents = tuple(numbers[last + self.depth :])
        path = tuple(numbers[last : last + accepted]) if branched else ()
        return Round(
            index=index,
            tokens=tuple(numbers[1 : 1 + accepted + 1]),
            drafted=tuple(numbers[first:last]),
            accepted=accepted,
            p=tuple(chances[: accepted + 1]),
            q=tuple(chances[self.depth + 1 :]),
            width=self.width,
            time_s=time.monotonic() - began_s,
            reason=self.reason,
            parents=parents if branched else None,
            path=path,
        )


def launch(target: CachedModel, standing: Standing, draft: Draft, reason: str) -> Flight:
    """Verify `draft` where the reply stands."""
    logits, width = target.continue_from(standing.tokens, draft.tokens, draft.shape)
    return _submit(standing.chooser, standing.context, logits, draft, len(standing.tokens), width, reason)


def launch_behind(target: CachedModel, chooser: Chooser, flight: Flight, position: int) -> Flight:
    """A plain step on the token of a plain `flight` that has not landed; `position`: of the new token."""
    context = flight.context.extended(flight.first_token)
    target.mark()
    logits = target.forward(flight.first_token)
    return _submit(chooser, context, logits, nothing(), position, 1, flight.reason)


def _submit(
    chooser: Chooser, context: Context, logits: mx.array, draft: Draft, position: int, width: int, reason: str
) -> Flight:
    ruling = chooser.rule_on(logits, context, draft, position)
    verdict, shape = ruling.verdict, draft.shape
    numbers = [verdict.accepted[None], verdict.tokens, draft.tokens.astype(mx.int32)]
    if shape is not None and verdict.path is not None:
        numbers += [verdict.path, shape.parents]
    flight = Flight(
        numbers=mx.concatenate(numbers),
        chances=mx.concatenate([ruling.p, ruling.q]),
        length=draft.tokens.size,
        depth=draft.tokens.size if shape is None else shape.depth,
        width=width,
        context=context,
        reason=reason,
    )
    mx.async_eval(flight.numbers, flight.chances)
    return flight
