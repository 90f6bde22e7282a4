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


class PromptLookup:
    """Drafts by copying. `longest` and `shortest` bound the n-gram that must match, in tokens."""

    name = "lookup"
    features: Features | None = None

    def __init__(self, longest: int = LONGEST, shortest: int = SHORTEST) -> None:
        self._sizes = range(longest, shortest - 1, -1)
        self._tokens: list[int] = []
        self._ends: dict[tuple[int, ...], list[int]] = {}

    def prefill(self, tokens: Sequence[int], cancelled: Callable[[], bool] = lambda: False) -> None:
        self._catch_up(tokens)

    def propose(self, standing: Standing, length: int) -> Draft:
        self._catch_up(standing.tokens)
        found = self.continuation(length)
        return Draft(mx.array(found, mx.int32)) if found else nothing()

    def hints(self, standing: Standing) -> Sequence[float | None]:
        """How long the suffix is that occurred before, as a share of the longest looked for."""
        self._catch_up(standing.tokens)
        size, _ = self._found()
        return (size / self._sizes[0],)

    def quiet(self, standing: Standing) -> bool:
        """A copy that begins behind a quiet place is taken up one plain step late; to wait for one costs more, as the
        steps in between could not be launched ahead (`engine/NOTES.md`)."""
        return self.hints(standing) == (0.0,)

    def continuation(self, length: int) -> list[int]:
        """What followed the latest earlier occurrence of the longest suffix that has one.

        A continuation that runs into the end of the text goes on into itself, so a repeating
        pattern of any period is followed as far as asked.
        """
        size, end = self._found()
        text = self._tokens[end:]
        return [text[i % len(text)] for i in range(length)] if size else []

    def _found(self) -> tuple[int, int]:
        """Size of the longest suffix that occurred before, and where its latest earlier occurrence ended; 0, 0."""
        here = len(self._tokens)
        for size in self._sizes:
            ends = self._ends.get(tuple(self._tokens[here - size :])) if here >= size else None
            earlier = [end for end in (ends or [])[-2:] if end < here]
            if earlier:
                return size, earlier[-1]
        return 0, 0

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
