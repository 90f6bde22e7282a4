"""A small model of the same vocabulary drafts, token by token (Leviathan 2023, Chen 2023).

A model that was trained to draft in parallel (PARD, arXiv 2504.18583) proposes the whole chain in one pass: after the
text it reads a mask for every token but the first, and the logits in the place of each mask are those of the token
there."""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Sequence
from typing import Any

import mlx.core as mx

from engine.cache.snapshot import Snapshot
from engine.drafters import Draft, DraftContext, Drafter, Needs, Traits, empty_draft
from engine.drafters.chain import draw_chain, draw_rows
from engine.target.cached_model import CachedModel
from engine.target.model_layout import position_limit


class _Bounded(Sequence[int]):
    """Tokens, each id above `last` read as `last`. Only those that are read are looked at: a round reads a few."""

    def __init__(self, tokens: Sequence[int], last: int) -> None:
        self._tokens, self._last = tokens, last

    def __len__(self) -> int:
        return len(self._tokens)

    def __getitem__(self, place: Any) -> Any:
        found = self._tokens[place]
        return [min(token, self._last) for token in found] if isinstance(place, slice) else min(found, self._last)


class DraftModel(Drafter):
    """Any mlx-lm model whose token map agrees with the target's on the ids below `shared`.

    vocabulary: width of the target's logits. Either side may be padded: ids from `shared` on are never proposed, and q
    is laid out in the target's width. ids: the tokens below `shared` that the columns of its logits stand for, where
    `engine.drafters.draft_vocabulary` made them fewer; None where they are all tokens. mask_id: the token that stands
    for tokens to be drafted in parallel, None for a model that drafts one by one. Drafting ends where its table of
    positions ends: MLX does not check what is read past it."""

    def __init__(
        self,
        model: CachedModel,
        vocabulary: int,
        shared: int | None = None,
        name: str = "draft",
        ids: mx.array | None = None,
        mask_id: int | None = None,
    ) -> None:
        self.model = model
        self.name = name
        self.traits = Traits(one_pass=mask_id is not None)
        self._mask_id = mask_id
        self.needs = Needs(token_map=ids)
        self._width = vocabulary
        self._shared = min(shared or vocabulary, vocabulary, model.vocabulary)
        self._positions = position_limit(model.model) or sys.maxsize

    def for_another_reply(self, target: CachedModel) -> DraftModel:
        other = self._with_same_weights()
        other.model = self.model.for_another_reply()
        return other

    def sync(self, tokens: Sequence[int], cancelled: Callable[[], bool] = lambda: False, following: int = 0) -> None:
        self.model.read_as(len(tokens))
        end = min(len(tokens) - 1, self._positions)
        for _ in self.model.prefill(self._readable(tokens)[self.model.length : end], cancelled=cancelled):
            if cancelled():
                break

    def propose(self, context: DraftContext, length: int) -> Draft:
        length = min(length, self._positions_left(context))
        if length <= 0 or not self.is_ready(context, len(context.tokens) - self.model.length):
            return empty_draft()
        if self._mask_id is not None:
            return self._block(context, length, self._mask_id)
        logits, _ = self.model.continue_from(self._readable(context.tokens), mx.zeros(0, mx.int32))

        def next_logits(token: mx.array) -> mx.array:
            return self._target_logits(self.model.forward(token))

        return draw_chain(context, self._target_logits(logits), next_logits, length, self.needs.token_map)

    def _block(self, context: DraftContext, length: int, mask_id: int) -> Draft:
        """Returns a chain whose tokens all come from one pass; each is drawn by itself."""
        masks = mx.full(length - 1, mask_id, mx.int32)
        logits, _ = self.model.continue_from(self._readable(context.tokens), masks)
        draft = draw_rows(context, self._target_logits(logits), self.needs.token_map)
        self.model.rewind(len(context.tokens))
        return draft

    def draft_class(self, context: DraftContext) -> float | None:
        """Nothing past its last position."""
        return None if self._positions_left(context) > 0 else 0.0

    def rewind(self, length: int, repeats: bool = False) -> None:
        self.model.rewind(length)

    def reusable(self, length: int) -> int:
        return min(length, self.model.length)

    def snapshot(self) -> Snapshot:
        return self.model.snapshot()

    def restore(self, snapshot: Snapshot) -> None:
        self.model.restore(snapshot)

    def _positions_left(self, context: DraftContext) -> int:
        """Returns how many tokens a draft may have: all but its last one are read, after the committed ones."""
        return self._positions - len(context.tokens) + 1

    def _readable(self, tokens: Sequence[int]) -> Sequence[int]:
        """Returns `tokens` with ids that the drafter has no embedding for replaced by its last one.

        The target may choose such an id, from padding or from a longer map. Reading it would reach past the
        embedding table. What the drafter reads instead changes q alone, and p is kept for any q.
        """
        return tokens if self.model.vocabulary >= self._width else _Bounded(tokens, self.model.vocabulary - 1)

    def _target_logits(self, logits: mx.array) -> mx.array:
        """Returns logits (n, own vocabulary) as (n, target's), where only shared ids are possible; those of a token
        map as they are."""
        if self.needs.token_map is not None:
            return logits.astype(mx.float32)
        logits = logits[:, : self._shared].astype(mx.float32)
        missing = self._width - self._shared
        return mx.pad(logits, [(0, 0), (0, missing)], constant_values=-math.inf) if missing else logits
