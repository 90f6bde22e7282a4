"""A monitored drafter: what it raises is known to be its own, and its proposals are timed where that is requested.

MLX is lazy, so an error of the drafter may come up only when the round is waited for; `busy` says that a draft of it
was in that round, so that the round may succeed without it.
"""

import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from typing import Any

import mlx.core as mx

from engine.drafters import Draft, DraftContext, Drafter
from engine.drafters.drafter_group import DrafterGroup


class MonitoredDrafter(DrafterGroup):
    """Another drafter, or each of a group. timed: whether proposals are awaited and timed, at one more
    synchronisation a round. failed: whether it has raised something. busy: whether a draft of it is in the round on
    the device."""

    def __init__(self, drafter: Drafter) -> None:
        self.timed = self.failed = self.busy = False
        members = drafter.members if isinstance(drafter, DrafterGroup) else (drafter,)
        super().__init__([_Member(self, member) for member in members])

    def rewind(self, length: int) -> None:
        self.busy = False
        super().rewind(length)

    @contextmanager
    def blamed(self) -> Iterator[None]:
        """Notes that the drafter has failed when something is raised inside."""
        try:
            yield
        except Exception:  # broad: noted and raised on
            self.failed = True
            raise


class _Member(Drafter):
    """One drafter of a monitored group, of which every method notes what it raises."""

    def __init__(self, group: MonitoredDrafter, drafter: Drafter) -> None:
        self.name, self.needs, self.traits = drafter.name, drafter.needs, drafter.traits
        self.snapshot_key = drafter.snapshot_key
        self._group, self._drafter = group, drafter
        for name in ("sync", "draft_class", "rewind", "reusable", "snapshot", "restore"):
            setattr(self, name, partial(self._call, name))

    def _call(self, name: str, *arguments: Any) -> Any:
        with self._group.blamed():
            return getattr(self._drafter, name)(*arguments)

    def propose(self, context: DraftContext, length: int) -> Draft:
        began_s = time.monotonic()
        with self._group.blamed():
            draft = self._drafter.propose(context, length)
            self._group.busy = draft.tokens.size > 0
            if not self._group.timed:
                return draft
            mx.eval(draft.tokens, [] if draft.tree is None else draft.tree.parents)
        return replace(draft, times_s=(began_s, time.monotonic()))
