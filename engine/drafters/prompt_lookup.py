"""Prompt lookup: what followed the last time these words stood here (Saxena 2023).

The longest suffix of the committed tokens that occurred before, in prompt or reply, is continued
as it was then. A point mass: there is no q. No model, no device work; an index by n-gram is
kept as tokens arrive, so a proposal costs a few dictionary look-ups whatever the context's length.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import mlx.core as mx

from engine.drafters import Draft, Standing, nothing
from engine.features import Features

LONGEST = 4
SHORTEST = 2
PATIENCE = 8


class PromptLookup:
    """Drafts by copying. `longest` and `shortest` bound the n-gram that must match, in tokens."""

    name = "lookup"
    features: Features | None = None

    def __init__(self, longest: int = LONGEST, shortest: int = SHORTEST) -> None:
        self._sizes = range(longest, shortest - 1, -1)
        self._tokens: list[int] = []
        self._ends: dict[tuple[int, ...], list[int]] = {}
        self._misses = 0

    def prefill(self, tokens: Sequence[int], cancelled: Callable[[], bool] = lambda: False) -> None:
        self._misses = 0
        self._catch_up(tokens)

    def propose(self, standing: Standing, length: int) -> Draft:
        self._catch_up(standing.tokens)
        found = self.continuation(length)
        self._misses = 0 if found else self._misses + 1
        return Draft(mx.array(found, mx.int32)) if found else nothing()

    def quiet(self, standing: Standing) -> bool:
        """After PATIENCE misses in a row. A copied passage then begins one plain step late, and all plain
        steps before it ran back to back, as plain decoding's do."""
        self._catch_up(standing.tokens)
        if self.continuation(1):
            self._misses = 0
        return self._misses >= PATIENCE

    def continuation(self, length: int) -> list[int]:
        """What followed the latest earlier occurrence of the longest suffix that has one.

        A continuation that runs into the end of the text goes on into itself, so a repeating
        pattern of any period is followed as far as asked.
        """
        here = len(self._tokens)
        for size in self._sizes:
            ends = self._ends.get(tuple(self._tokens[here - size :])) if here >= size else None
            earlier = [end for end in (ends or [])[-2:] if end < here]
            if earlier:
                text = self._tokens[earlier[-1] :]
                return [text[i % len(text)] for i in range(length)]
        return []

    def rewind(self, length: int) -> None:
        while len(self._tokens) > length:
            for gram in self._grams():
                self._ends[gram].pop()
                if not self._ends[gram]:
                    del self._ends[gram]
            self._tokens.pop()

    def reach(self) -> int:
        return len(self._tokens)

    def _catch_up(self, tokens: Sequence[int]) -> None:
        for token in tokens[len(self._tokens) :]:
            self._tokens.append(token)
            for gram in self._grams():
                self._ends.setdefault(gram, []).append(len(self._tokens))

    def _grams(self) -> list[tuple[int, ...]]:
        """The n-grams that end at the last token."""
        return [tuple(self._tokens[-size:]) for size in self._sizes if len(self._tokens) >= size]
