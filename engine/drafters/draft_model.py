"""A small model of the same vocabulary drafts, token by token (Leviathan 2023, Chen 2023)."""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Sequence

import mlx.core as mx

from engine.anatomy import places_of
from engine.drafters import Draft, Standing, nothing
from engine.drafters.chain import draw_chain
from engine.errors import ModelError
from engine.features import Features
from engine.target import PREFILL_CHUNK, CachedModel


class DraftModel:
    """Any mlx-lm model whose token map agrees with the target's on the ids below `shared`.

    vocabulary: width of the target's logits. Either side may be padded: ids from `shared` on are
    never proposed, and q is laid out in the target's width. ids: the tokens below `shared` that the columns of its
    logits stand for, where `engine.shortlist` made them fewer; None where they are all tokens. Where its table of
    positions ends, so does drafting: MLX does not check what is read behind it.
    """

    features: Features | None = None

    def __init__(
        self,
        model: CachedModel,
        vocabulary: int,
        shared: int | None = None,
        name: str = "draft",
        ids: mx.array | None = None,
    ) -> None:
        self.model = model
        self.name = name
        self.ids = ids
        self._width = vocabulary
        self._shared = min(shared or vocabulary, vocabulary, model.vocabulary)
        self._places = places_of(model.model) or sys.maxsize

    def prefill(self, tokens: Sequence[int], cancelled: Callable[[], bool] = lambda: False) -> None:
        for _ in self.model.prefill(self._readable(tokens[:-1][: self._places])[self.model.length :]):
            if cancelled():
                break

    def propose(self, standing: Standing, length: int) -> Draft:
        length = min(length, self._room(standing))
        if length <= 0:
            return nothing()
        if len(standing.tokens) - self.model.length > PREFILL_CHUNK:  # after a long stretch of plain steps
            self.prefill(standing.tokens)
        logits, _ = self.model.continue_from(self._readable(standing.tokens), mx.zeros(0, mx.int32))

        def follow(token: mx.array) -> mx.array:
            return self._fit(self.model.forward(token))

        return draw_chain(standing, self._fit(logits), follow, length, self.ids)

    def along(self, tokens: Sequence[int], first: int) -> mx.array:
        """Logits (n, target's width, or that of `ids`) behind each of `tokens` from the place `first` on, in one pass:
        what a draft would be drawn from there. For who compares laws over a text that is known already. Raises
        ModelError: the text is longer than the drafter knows places for."""
        if len(tokens) > self._places:
            raise ModelError(f"{self.name} was made for texts of {self._places} tokens: choose another drafter")
        readable = self._readable(tokens)
        self.model.rewind(first)
        for _ in self.model.prefill(readable[self.model.length : first]):
            pass
        return self._fit(self.model.forward(mx.array(list(readable[first:]), mx.int32)))

    def hints(self, standing: Standing) -> Sequence[float | None]:
        return (0.0,) if self.quiet(standing) else (None,)

    def quiet(self, standing: Standing) -> bool:
        return self._room(standing) <= 0

    def rewind(self, length: int) -> None:
        self.model.rewind(length)

    def reach(self) -> int:
        return self.model.length

    def _room(self, standing: Standing) -> int:
        """Tokens that a draft may have: all but its last one are read, behind those that stand."""
        return self._places - len(standing.tokens) + 1

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
        """(1, own vocabulary) to (1, target's), nothing but shared ids being possible; those of `ids` as they are."""
        if self.ids is not None:
            return logits.astype(mx.float32)
        logits = logits[:, : self._shared].astype(mx.float32)
        missing = self._width - self._shared
        return mx.pad(logits, [(0, 0), (0, missing)], constant_values=-math.inf) if missing else logits
