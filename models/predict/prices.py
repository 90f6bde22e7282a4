"""What rounds cost here, as a foresight counts them up."""

from __future__ import annotations

from dataclasses import dataclass

from engine.adaptive import READING
from engine.costs import Costs


@dataclass(frozen=True)
class Prices:
    """costs: of isolated passes and drafts, and of plain steps."""

    costs: Costs

    @property
    def plain_s(self) -> float:
        """A token by plain decoding, whose steps are launched ahead."""
        return self.costs.plain_s

    def pass_s(self, width: int) -> float:
        """A verify pass. One that was measured cheaper than a narrower one is a fluke."""
        return max(self.costs.pass_s(1), self.costs.pass_s(width))

    def draft_s(self, member: int, steps: int) -> float:
        """Drafting by one of several drafters, or by the only one."""
        return self._own(member).draft_s(steps)

    def reading_s(self, member: int, behind: int) -> float:
        """Reading all but the last of `behind` tokens that a drafter has not seen, as the policy prices it."""
        rows = self.costs.pass_s(behind) / self.costs.pass_s(1) - 1
        return self.draft_s(member, 1) * max(0.0, min(rows, READING * (behind - 1)))

    def round_s(self, member: int, drafted: int) -> float:
        """Drafting so many tokens, or nodes, and verifying them, with no gate asked on the way."""
        return self.draft_s(member, drafted) + self.pass_s(drafted + 1) - self.spared_s(member, drafted)

    def spared_s(self, member: int, drafted: int) -> float:
        """What a draft takes less without a gate, see `Costs.ungated_s`."""
        own = self._own(member)
        if not drafted or own.eager is None:
            return 0.0
        return max(0.0, own.draft_s(1) + self.pass_s(2) - max(own.eager, self.pass_s(1)))

    def _own(self, member: int) -> Costs:
        return self.costs.members[member] if self.costs.members else self.costs
