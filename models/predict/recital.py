"""A target that recites a known text: the loop runs along it, and no network is asked.

Whatever is drafted, the law of each row is the one token that stands at its place in the text. A draft is then kept
just as far as it agrees with the text, by every rule, and the loop commits the text.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import mlx.core as mx

from engine.drafters import Drafter
from engine.features import Features
from engine.target import CachedModel
from engine.tree import Tree
from models.predict.reading import Read, Text


class Recital(CachedModel):
    """Stands in for the target in `engine.loop.decode`. launched: passes that the loop did not launch ahead.

    Whatever the cache of the real one might lack after a refusal is not imitated: a pass has a row for the last
    committed token and one for each of the draft.
    """

    def __init__(self, text: Text, vocabulary: int) -> None:
        self.vocabulary = vocabulary
        self.features, self.grid = None, None
        self.launched = 0
        self._text, self._length = text, 0

    @property
    def length(self) -> int:
        return self._length

    def continue_from(
        self, sequence: Sequence[int], draft: mx.array, shape: Tree | None = None
    ) -> tuple[mx.array, int]:
        self.launched += 1
        self._length = len(sequence) + draft.size
        rows = mx.arange(draft.size + 1) if shape is None else shape.row_depths
        return self._laws(len(sequence) + rows), draft.size + 1

    def continue_behind(self, sequence: Sequence[int], token: mx.array) -> tuple[mx.array, int]:
        self._length += token.size
        return self._laws(mx.array([self._length])), 1

    def keep(self, path: Sequence[int]) -> None:
        pass

    def rewind(self, length: int) -> int:
        self._length = min(self._length, length)
        return self._length

    def _laws(self, places: mx.array) -> mx.array:
        """Logits (rows, vocabulary) of the tokens at `places`; past the end of the text any will do."""
        tokens = mx.array(self._text.tokens, mx.int32)
        said = tokens[mx.minimum(places, len(self._text.tokens) - 1)]
        return mx.where(mx.arange(self.vocabulary) == said[:, None], 0.0, -mx.inf)


class Recorded(Features):
    """The log of a reading that is over: any row of it, as often as asked."""

    def __init__(self, states: mx.array, points: Sequence[int]) -> None:
        self.points, self.width = tuple(points), states.shape[-1]
        self._states = states

    @property
    def start(self) -> int:
        return 0

    @property
    def end(self) -> int:
        return int(self._states.shape[0])

    def take(self, start: int, end: int) -> mx.array:
        return self._states[start:end]


@contextmanager
def replayed(drafters: Sequence[Drafter], read: Read) -> Iterator[None]:
    """Whoever of `drafters` reads hidden states finds those of `read` for the time being. All begin with nothing
    remembered, and end so."""
    readers: list[tuple[Any, Features]] = [(one, one.features) for one in drafters if one.features is not None]
    try:
        for drafter, own in readers:
            assert read.states is not None
            drafter.features = Recorded(read.states, own.points)
        for drafter in drafters:
            drafter.rewind(0)
        yield
    finally:
        for drafter in drafters:
            drafter.rewind(0)
        for drafter, own in readers:
            drafter.features = own
