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
    """A round on its way. numbers: [accepted, tokens (k + 1), drafted (k)] int32; chances: [p, q] float32."""

    numbers: mx.array
    chances: mx.array
    length: int
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
        accepted, ids = numbers[0], numbers[1:]
        k = self.length
        return Round(
            index=index,
            tokens=tuple(ids[: accepted + 1]),
            drafted=tuple(ids[k + 1 :]),
            accepted=accepted,
            p=tuple(chances[: accepted + 1]),
            q=tuple(chances[k + 1 :]),
            width=self.width,
            time_s=time.monotonic() - began_s,
            reason=self.reason,
        )


def launch(target: CachedModel, standing: Standing, draft: Draft, reason: str) -> Flight:
    """Verify `draft` where the reply stands."""
    logits, width = target.continue_from(standing.tokens, draft.tokens)
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
    ruling = chooser.rule_on(logits, context, draft.tokens, draft.logq, position)
    accepted, tokens = ruling.verdict
    flight = Flight(
        numbers=mx.concatenate([accepted[None], tokens, draft.tokens.astype(mx.int32)]),
        chances=mx.concatenate([ruling.p, ruling.q]),
        length=draft.tokens.size,
        width=width,
        context=context,
        reason=reason,
    )
    mx.async_eval(flight.numbers, flight.chances)
    return flight
