"""A drafter's laws over a known text, at every depth of a chain, each in one pass instead of token by token.

Depth d of token i: what the drafter would say of it as the d-th further token of a draft whose tokens so far were
those of the text.
"""

from __future__ import annotations

from typing import Protocol

import mlx.core as mx

from engine.anatomy import embed
from engine.drafters import Drafter
from engine.drafters.draft_model import DraftModel
from engine.drafters.eagle import Eagle
from engine.heads.eagle3 import Eagle3Head
from engine.target import CachedModel
from models.fit.eagle3 import Unrolled
from models.fit.trainee import shifted
from models.predict.reading import Read


class ChainLaws(Protocol):
    """ids: (width,) the tokens that the columns of its logits stand for, None for all. depths: how many differ."""

    ids: mx.array | None
    depths: int

    def begin(self, read: Read) -> None:
        """Go over another text."""

    def logits(self, depth: int, start: int, end: int) -> mx.array:
        """Of tokens [start, end) of the reply, drafted at `depth`: (end - start, width). Asked in order of `start`."""


def laws_of(drafter: Drafter, target: CachedModel, longest: int) -> ChainLaws | None:
    """Of a drafter that draws chains from a law; None for any other."""
    if isinstance(drafter, DraftModel):
        return _ModelLaws(drafter)
    if isinstance(drafter, Eagle) and not drafter.trees:
        return _EagleLaws(drafter, target, longest)
    return None


class _ModelLaws:
    """A draft model sees the same text at every depth."""

    depths = 1

    def __init__(self, drafter: DraftModel) -> None:
        self._drafter = drafter
        self.ids: mx.array | None = drafter.ids

    def begin(self, read: Read) -> None:
        self._text = read.text
        self._drafter.rewind(0)

    def logits(self, depth: int, start: int, end: int) -> mx.array:
        before = self._text.prompt - 1
        return self._drafter.along(self._text.tokens[: before + end], before + start)


class _EagleLaws:
    """The head unrolled as it is in training: at depth 0 over the target's states, behind that over its own."""

    def __init__(self, drafter: Eagle, target: CachedModel, longest: int) -> None:
        self._head, self._embed = drafter.head, embed(target.model)
        self.ids: mx.array | None = drafter.head.ids
        self.depths = longest

    def begin(self, read: Read) -> None:
        assert read.states is not None
        head, pairs = self._head, len(read.text.tokens) - 2  # the pair of the last token but one has nothing to guess
        hidden = head.fuse(read.states[:pairs].astype(head.fc.weight.dtype))[None]
        following = mx.array(read.text.tokens[1 : pairs + 1], mx.int32)
        embedded = self._embed(following)[None].astype(hidden.dtype)
        attend, first = _Attention(head), read.text.prompt - 2
        self._hidden: list[mx.array] = []
        for depth in range(self.depths):
            hidden = head(hidden, embedded, attend)
            if depth == 0:
                hidden, embedded = hidden[:, first:], embedded[:, first:]
            mx.eval(hidden)
            self._hidden.append(hidden[0])
            hidden = shifted(hidden, 1, 1)

    def logits(self, depth: int, start: int, end: int) -> mx.array:
        return self._head.logits(self._hidden[depth][start:end])


class _Attention(Unrolled):
    """The same, whose first depth, with all of the prompt, need not hold all scores at once."""

    def __init__(self, head: Eagle3Head) -> None:
        super().__init__(head)
        self._rope, self._scale = head.rope, head.scale

    def __call__(self, queries: mx.array, keys: mx.array, values: mx.array) -> mx.array:
        if self._keys:
            return super().__call__(queries, keys, values)
        self._keys.append(self._rope(keys, offset=0))
        self._values.append(values)
        queries = self._rope(queries, offset=0)
        return mx.fast.scaled_dot_product_attention(queries, self._keys[0], values, scale=self._scale, mask="causal")
