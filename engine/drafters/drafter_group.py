"""Several drafters for one target, of which each round one drafts.

All of them see the committed tokens; a policy names the one that drafts, else it is the first that has something to
propose. Drafters that know for free whether they have anything (prompt lookup) come before those that must draft to
know.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cached_property

from engine.cache.snapshot import Snapshot
from engine.drafters import Draft, DraftContext, Drafter, Needs, empty_draft
from engine.target.cached_model import CachedModel


class DrafterGroup(Drafter):
    """Drafts with any of `members`. Raises ValueError if more than one of them reads the target's hidden states: those
    are released once they are read, so they are recorded for one drafter at a time. Its members have `traits`, each its
    own; the group has none."""

    def __init__(self, members: Sequence[Drafter]) -> None:
        self.members = tuple(members)
        self.name = "+".join(member.name for member in members)
        self._readers = [member for member in members if member.needs.taps]
        if len(self._readers) > 1:
            raise ValueError(f"{self.name}: only one drafter can read the target's hidden states at a time")
        layers = sorted({layer for member in members for layer in member.needs.kv_layers})
        taps = self._readers[0].needs if self._readers else Needs()
        self.needs = Needs(taps.taps, taps.latest_only, tuple(layers))

    def for_another_reply(self, target: CachedModel) -> DrafterGroup:
        return DrafterGroup([member.for_another_reply(target) for member in self.members])

    @cached_property
    def snapshot_key(self) -> object:
        return tuple(member.snapshot_key for member in self.members)

    def sync(self, tokens: Sequence[int], cancelled: Callable[[], bool] = lambda: False, following: int = 0) -> None:
        for member in self.members:
            member.sync(tokens, cancelled, following)

    def propose(self, context: DraftContext, length: int) -> Draft:
        first = next((member for member in self.members if member.draft_class(context) != 0), None)
        return first.propose(context, length) if first is not None else empty_draft()

    def rewind(self, length: int, repeats: bool = False) -> None:
        for member in self.members:
            member.rewind(length, repeats)

    def reusable(self, length: int) -> int:
        return min((member.reusable(length) for member in self._readers or self.members), default=0)

    def snapshot(self) -> Snapshot:
        return [member.snapshot() for member in self.members]

    def restore(self, snapshot: Snapshot) -> None:
        for member, own in zip(self.members, snapshot, strict=True):
            member.restore(own)
