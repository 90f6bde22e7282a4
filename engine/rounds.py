"""One round in flight: everything from verify pass to acceptance as one graph, landed once.

`launch` builds and submits, `land` waits. Between the two the device works, so a plain step can
be launched on the still unknown token of the one before.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import Any

import mlx.core as mx

from engine import fingerprint
from engine.choice import Ruling
from engine.draft import need_numbers
from engine.drafters import Draft, Standing, nothing
from engine.events import Round
from engine.sampling import Context
from engine.target import CachedModel


@dataclass(frozen=True)
class Flight:
    """A round on its way.

    numbers: [accepted, tokens (depth + 1), drafted (length)] int32, and for a tree [path (depth), parents (length)]
    behind them. chances: [p (depth + 1), q (length)] float32. A chain is as deep as it is long. when: of its draft.
    sums: (depth + 1, 2), checksums of the rows of logits in exact-verify, else (0, 2).
    """

    numbers: mx.array
    chances: mx.array
    sums: mx.array
    length: int
    depth: int
    width: int
    context: Context
    reason: str
    when: tuple[float, float] | None = None

    @property
    def first_token(self) -> mx.array:
        """The token of a plain step, (1,), still lazy."""
        return self.numbers[1:2]

    def land(self, index: int, began_s: float) -> Round:
        """Wait for the device: the one synchronisation of a round. Raises ModelError: the drafter's chances are
        none."""
        mx.eval(self.numbers, self.chances, self.sums)
        landed_s = time.monotonic()
        draft_s, verify_s = (self.when[1] - self.when[0], landed_s - self.when[1]) if self.when else (None, None)
        numbers: Any = self.numbers.tolist()
        chances: Any = self.chances.tolist()
        need_numbers(chances[self.depth + 1 :])
        sums: Any = self.sums.tolist()
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
            time_s=landed_s - began_s,
            reason=self.reason,
            parents=parents if branched else None,
            path=path,
            draft_s=draft_s,
            verify_s=verify_s,
            fingerprints=tuple(fingerprint.number(pair) for pair in sums[: accepted + 1]),
        )


def launch(target: CachedModel, standing: Standing, draft: Draft, reason: str) -> Flight:
    """Verify `draft` where the reply stands."""
    logits, width = target.continue_from(standing.tokens, draft.tokens, draft.shape)
    ruling = standing.chooser.rule_on(logits, standing.context, draft, len(standing.tokens))
    return _submit(ruling, draft, standing.context, _sums(target, logits), width, reason)


def launch_behind(target: CachedModel, standing: Standing, flight: Flight) -> Flight:
    """A plain step on the token of a plain `flight` that has not landed and was launched where the reply stands."""
    context, none = flight.context.extended(flight.first_token), nothing()
    logits, width = target.continue_behind(standing.tokens, flight.first_token)
    ruling = standing.chooser.rule_on(logits, context, none, len(standing.tokens) + 1)
    return _submit(ruling, none, context, _sums(target, logits), width, flight.reason)


def _sums(target: CachedModel, logits: mx.array) -> mx.array:
    """See `Flight`."""
    return mx.zeros((0, 2), mx.uint32) if target.grid is None else fingerprint.sums(logits)


def _submit(ruling: Ruling, draft: Draft, context: Context, sums: mx.array, width: int, reason: str) -> Flight:
    verdict, shape = ruling.verdict, draft.shape
    numbers = [verdict.accepted[None], verdict.tokens, draft.tokens.astype(mx.int32)]
    if shape is not None and verdict.path is not None:
        numbers += [verdict.path, shape.parents]
    flight = Flight(
        numbers=mx.concatenate(numbers),
        chances=mx.concatenate([ruling.p, ruling.q]),
        sums=sums,
        length=draft.tokens.size,
        depth=draft.tokens.size if shape is None else shape.depth,
        width=width,
        context=context,
        reason=reason,
        when=draft.when,
    )
    mx.async_eval(flight.numbers, flight.chances, flight.sums)
    return flight
