"""A drafter under watch: what it raises is known to be its own, and its proposals are timed where that is asked for.

MLX is lazy, so an error of the drafter may come up only when the round lands; `busy` says that a draft of it was under
way, and that the round without it may well go through.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace

import mlx.core as mx

from engine.drafters import Draft, Drafter, Standing
from engine.features import Features


class Watched:
    """Another drafter. timed: whether proposals are awaited and timed, at one more synchronisation a round.
    failed: whether it has raised something. busy: whether a draft of it has not been settled yet."""

    def __init__(self, drafter: Drafter) -> None:
        self.name = drafter.name
        self.timed = self.failed = self.busy = False
        self._drafter = drafter

    @property
    def features(self) -> Features | None:
        return self._drafter.features

    def prefill(self, tokens: Sequence[int], cancelled: Callable[[], bool] = lambda: False) -> None:
        with self._blamed():
            self._drafter.prefill(tokens, cancelled)

    def propose(self, standing: Standing, length: int) -> Draft:
        asked_s = time.monotonic()
        with self._blamed():
            draft = self._drafter.propose(standing, length)
            self.busy = draft.tokens.size > 0
            if not self.timed:
                return draft
            mx.eval(draft.tokens, [] if draft.shape is None else draft.shape.parents)
        return replace(draft, when=(asked_s, time.monotonic()))

    def hints(self, standing: Standing) -> Sequence[float | None]:
        with self._blamed():
            return self._drafter.hints(standing)

    def quiet(self, standing: Standing) -> bool:
        with self._blamed():
            return self._drafter.quiet(standing)

    def rewind(self, length: int) -> None:
        self.busy = False
        with self._blamed():
            self._drafter.rewind(length)

    def reach(self) -> int:
        with self._blamed():
            return self._drafter.reach()

    @contextmanager
    def _blamed(self) -> Iterator[None]:
        try:
            yield
        except Exception:  # broad: noted and raised on
            self.failed = True
            raise
