"""Prompt lookup: what followed the last time that these words occurred (Saxena 2023).

The longest suffix of the committed tokens that occurred before, in prompt or reply, is continued as it was then. A
point mass: there is no q. No model, no device work; an index by n-gram is kept as tokens arrive, so a proposal costs a
few dictionary look-ups whatever the context's length.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import mlx.core as mx

from engine.drafters import Draft, DraftContext, Needs, Traits, empty_draft

LONGEST = 4
SHORTEST = 2
STRETCH = 4096  # tokens that are read before a stop is listened for


class PromptLookup:
    """Drafts by copying. `longest` and `shortest` bound the n-gram that must match, in tokens."""

    name = "lookup"
    needs = Needs()
    traits = Traits("block")

    def __init__(self, longest: int = LONGEST, shortest: int = SHORTEST) -> None:
        self._sizes = range(longest, shortest - 1, -1)
        self._tokens: list[int] = []
        self._ends: dict[tuple[int, ...], list[int]] = {}

    def sync(self, tokens: Sequence[int], cancelled: Callable[[], bool] = lambda: False) -> None:
        for token in tokens[len(self._tokens) :]:
            self._tokens.append(token)
            for gram in self._grams():
                self._ends.setdefault(gram, []).append(len(self._tokens))
            if len(self._tokens) % STRETCH == 0 and cancelled():
                return

    def propose(self, context: DraftContext, length: int) -> Draft:
        self.sync(context.tokens, context.cancelled)
        found = self.continuation(length)
        return Draft(mx.array(found, mx.int32)) if found else empty_draft()

    def hint(self, context: DraftContext) -> float:
        """Returns the length of the suffix that occurred before, as a share of the longest looked for.

        Where it is 0, plain steps are submitted ahead, so a copy that begins right behind is taken up one step late; to
        wait for one costs more (`engine/NOTES.md`).
        """
        self.sync(context.tokens, context.cancelled)
        size, _ = self._found()
        return size / self._sizes[0]

    def continuation(self, length: int) -> list[int]:
        """Returns what followed the latest earlier occurrence of the longest suffix that has one.

        A continuation that runs into the end of the text goes on into itself, so that a repeating pattern of any
        period is followed to any `length`.
        """
        size, end = self._found()
        text = self._tokens[end:]
        return [text[i % len(text)] for i in range(length)] if size else []

    def _found(self) -> tuple[int, int]:
        """Returns the size of the longest suffix that occurred before, and where its latest earlier occurrence ended;
        0, 0 if there is none."""
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

    def reusable_prefix(self) -> int:
        return len(self._tokens)

    def _grams(self) -> list[tuple[int, ...]]:
        """Returns the n-grams that end at the last token."""
        return [tuple(self._tokens[-size:]) for size in self._sizes if len(self._tokens) >= size]
