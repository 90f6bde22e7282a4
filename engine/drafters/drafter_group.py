"""Several drafters for one target, of which each round one drafts.

All of them see the committed tokens; a policy names the one that drafts, else it is the first that has something to
propose. Drafters that know for free whether they have anything (prompt lookup) come before those that must draft to
know.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from engine.cache.snapshot import Snapshot
from engine.drafters import Draft, DraftContext, Drafter, Needs, Traits, empty_draft


class DrafterGroup:
    """members: in the order of preference of a fixed draft length. At most one may read the target's hidden states;
    raises ValueError for more."""

    def __init__(self, members: Sequence[Drafter]) -> None:
        self.members = tuple(members)
        self.name = "+".join(member.name for member in members)
        self._readers = [member for member in members if member.needs.taps]
        if len(self._readers) > 1:
            raise ValueError(f"{self.name}: only one drafter can read the target's hidden states at a time")

    @property
    def needs(self) -> Needs:
        """Those of its members together."""
        layers = sorted({layer for member in self.members for layer in member.needs.kv_layers})
        taps = self._readers[0].needs if self._readers else Needs()
        return Needs(taps.taps, taps.latest_only, tuple(layers))

    @property
    def traits(self) -> Traits:
        """A tree if any member branches; as long as the longest."""
        traits = [member.traits for member in self.members]
        widest = max(traits, key=lambda one: ("block", "chain", "tree").index(one.shape))
        longest = [one.longest for one in traits]
        bound = None if None in longest else max(length for length in longest if length is not None)
        return Traits(widest.shape, bound)

    def sync(self, tokens: Sequence[int], cancelled: Callable[[], bool] = lambda: False) -> None:
        for member in self.members:
            member.sync(tokens, cancelled)

    def propose(self, context: DraftContext, length: int) -> Draft:
        for member in self.members:
            if member.hint(context) != 0:
                return member.propose(context, length)
        return empty_draft()

    def hint(self, context: DraftContext) -> float | None:
        """0 if no member has anything to propose, else None: `engine.proposer` asks each member by itself."""
        return 0.0 if all(member.hint(context) == 0 for member in self.members) else None

    def rewind(self, length: int) -> None:
        for member in self.members:
            member.rewind(length)

    def reusable_prefix(self) -> int:
        return min((member.reusable_prefix() for member in self._readers), default=0)

    def snapshot(self) -> Snapshot:
        return [member.snapshot() for member in self.members]

    def restore(self, snapshot: Snapshot) -> None:
        for member, own in zip(self.members, snapshot, strict=True):
            member.restore(own)
