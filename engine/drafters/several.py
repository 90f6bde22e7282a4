"""Several drafters for one target, of which each round one drafts.

All of them see the committed tokens; a round asks for a member, or takes the first that has something to propose.
Members that know for free whether they have anything (prompt lookup) come before those that must draft to know.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from engine.drafters import Draft, Drafter, Standing, nothing
from engine.features import Features


class Several:
    """members: in the order of preference of a fixed draft length. At most one may read the target's hidden states."""

    def __init__(self, members: Sequence[Drafter]) -> None:
        self.members = tuple(members)
        self.name = "+".join(member.name for member in members)
        self._readers = [member for member in members if member.features is not None]
        if len(self._readers) > 1:
            raise ValueError(f"{self.name}: only one drafter can read the target's hidden states at a time")

    @property
    def features(self) -> Features | None:
        return self._readers[0].features if self._readers else None

    def prefill(self, tokens: Sequence[int], cancelled: Callable[[], bool] = lambda: False) -> None:
        for member in self.members:
            member.prefill(tokens, cancelled)

    def propose(self, standing: Standing, length: int) -> Draft:
        if standing.member is not None:
            return self.members[standing.member].propose(standing, length)
        for member in self.members:
            if member.hints(standing)[0] != 0:
                return member.propose(standing, length)
        return nothing()

    def hints(self, standing: Standing) -> Sequence[float | None]:
        return tuple(member.hints(standing)[0] for member in self.members)

    def quiet(self, standing: Standing) -> bool:
        """Of those that hint: whether the others will draft is for the policy to say."""
        hinting = [member for member in self.members if member.hints(standing)[0] is not None]
        return bool(hinting) and all(member.quiet(standing) for member in hinting)

    def rewind(self, length: int) -> None:
        for member in self.members:
            member.rewind(length)

    def reach(self) -> int:
        return min((member.reach() for member in self._readers), default=0)
