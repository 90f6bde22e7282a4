"""A small model of the same vocabulary drafts, token by token (Leviathan 2023, Chen 2023).

Each step is submitted as soon as its graph exists, so the device drafts while the next step's
graph is being built; nothing waits until the round's one synchronisation.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import mlx.core as mx

from engine.choice import Drawn
from engine.drafters import Draft, Standing, nothing
from engine.features import Features
from engine.target import CachedModel


class DraftModel:
    """Any mlx-lm model whose token map agrees with the target's on the ids below `shared`.

    vocabulary: width of the target's logits. Either side may be padded: ids from `shared` on are
    never proposed, and q is laid out in the target's width.
    """

    features: Features | None = None

    def __init__(self, model: CachedModel, vocabulary: int, shared: int | None = None, name: str = "draft") -> None:
        self.model = model
        self.name = name
        self._width = vocabulary
        self._shared = min(shared or vocabulary, vocabulary, model.vocabulary)

    def prefill(self, tokens: Sequence[int], cancelled: Callable[[], bool] = lambda: False) -> None:
        for _ in self.model.prefill(self._readable(tokens[:-1])[self.model.length :]):
            if cancelled():
                break

    def propose(self, standing: Standing, length: int) -> Draft:
        if length == 0:
            return nothing()
        position, context = len(standing.tokens), standing.context
        logits, _ = self.model.continue_from(self._readable(standing.tokens), mx.zeros(0, mx.int32))
        drawn: list[Drawn] = []
        while True:
            drawn.append(standing.chooser.draft(self._fit(logits), context, position + len(drawn)))
            tokens = drawn[-1].tokens
            mx.async_eval(tokens)
            if len(drawn) == length:
                break
            context = context.extended(tokens)
            logits = self.model.forward(tokens)
        ids, chances, laws = (mx.concatenate(list(parts)) for parts in zip(*drawn, strict=True))
        return Draft(ids, laws, q=chances)

    def quiet(self, standing: Standing) -> bool:
        return False

    def rewind(self, length: int) -> None:
        self.model.rewind(length)

    def reach(self) -> int:
        return self.model.length

    def _readable(self, tokens: Sequence[int]) -> Sequence[int]:
        """`tokens` with ids that the drafter has no embedding for replaced by its last one.

        The target may say such an id, from padding or from a longer map. Reading it would reach behind the
        embedding table. What the drafter reads instead moves q alone, and the target's law holds for any q.
        """
        if self.model.vocabulary >= self._width:
            return tokens
        last = self.model.vocabulary - 1
        return [min(token, last) for token in tokens]

    def _fit(self, logits: mx.array) -> mx.array:
        """(1, own vocabulary) to (1, target's), nothing but shared ids being possible."""
        logits = logits[:, : self._shared].astype(mx.float32)
        missing = self._width - self._shared
        return mx.pad(logits, [(0, 0), (0, missing)], constant_values=-math.inf) if missing else logits
