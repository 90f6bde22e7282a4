"""What rounds cost on this machine, and the counts and seconds of forecast replies, from which rates follow."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import zip_longest

from engine.events import Round
from engine.metrics import Metrics
from engine.policy.adaptive import READING
from engine.policy.costs import Costs
from models.expected_rounds import ChainAcceptance, ExpectedRounds


@dataclass(frozen=True)
class RoundCosts:
    """Seconds of rounds. costs: of isolated passes and drafts, and of plain steps."""

    costs: Costs

    @property
    def plain_s(self) -> float:
        """Seconds a token by plain decoding, whose steps are launched ahead."""
        return self.costs.plain_s

    def pass_s(self, width: int) -> float:
        """Returns the seconds of a verify pass. One measured faster than a plain pass is a measuring error."""
        return max(self.costs.pass_s(1), self.costs.pass_s(width))

    def draft_s(self, member: int, steps: int) -> float:
        """Returns the seconds of drafting by one of several drafters, or by the only one."""
        return self._of(member).draft_s(steps)

    def catch_up_s(self, member: int, unread: int) -> float:
        """Returns the seconds a drafter takes to read all but the last of `unread` tokens, as the policy does."""
        rows = self.costs.pass_s(unread) / self.costs.pass_s(1) - 1
        return self.draft_s(member, 1) * max(0.0, min(rows, READING * (unread - 1)))

    def round_s(self, member: int, drafted: int) -> float:
        """Returns the seconds of drafting so many tokens or nodes and verifying them."""
        return self.draft_s(member, drafted) + self.pass_s(drafted + 1) - self.saving_s(member, drafted)

    def saving_s(self, member: int, drafted: int) -> float:
        """Returns the seconds saved because a pass is built while its draft is computed, see `Costs.round_s`."""
        own = self._of(member)
        if not drafted or own.eager is None:
            return 0.0
        return max(0.0, own.draft_s(1) + self.pass_s(2) - max(own.eager, self.pass_s(1)))

    def _of(self, member: int) -> Costs:
        return self.costs.members[member] if self.costs.members else self.costs


@dataclass(frozen=True)
class RoundTotals:
    """Sums over replies. tokens: of the replies. rounds, drafted: expected numbers. reached, kept: by position in a
    draft (in a tree: by depth), the rounds that verified it and the rounds that accepted it. seconds: of these rounds;
    plain_s: of the same tokens by plain decoding."""

    tokens: int
    rounds: float
    drafted: float
    seconds: float
    plain_s: float
    reached: tuple[float, ...]
    kept: tuple[float, ...]

    @property
    def tau(self) -> float:
        """Tokens per verify pass."""
        return self.tokens / self.rounds

    @property
    def speedup(self) -> float:
        """Plain seconds / these seconds."""
        return self.plain_s / self.seconds

    @property
    def acceptance_by_position(self) -> list[float]:
        """Share accepted at each position of a draft, of the rounds that verified it."""
        return [kept / reached for reached, kept in zip(self.reached, self.kept, strict=True) if reached > 0]


def total(replies: Iterable[RoundTotals]) -> RoundTotals:
    """Returns the sums over all replies."""
    each = list(replies)
    return RoundTotals(
        sum(one.tokens for one in each),
        sum(one.rounds for one in each),
        sum(one.drafted for one in each),
        sum(one.seconds for one in each),
        sum(one.plain_s for one in each),
        _columns([one.reached for one in each]),
        _columns([one.kept for one in each]),
    )


def expected_totals(acceptance: ChainAcceptance, expected: ExpectedRounds, costs: RoundCosts) -> RoundTotals:
    """Returns the totals of one reply from its expected rounds."""
    tokens, seconds = len(expected.starts), 0.0
    for start, drafted, member in zip(expected.starts, expected.drafted, acceptance.member, strict=True):
        if start:
            seconds += start * costs.round_s(int(member), int(drafted))
    drafted = float((expected.starts * expected.drafted).sum())
    reached, kept = tuple(expected.reached.tolist()), tuple(expected.kept.tolist())
    return RoundTotals(tokens, expected.rounds, drafted, seconds, tokens * costs.plain_s, reached, kept)


def simulated_totals(rounds: Sequence[Round], drafting_s: float, ahead: int, costs: RoundCosts) -> RoundTotals:
    """Returns the totals of one simulated reply. drafting_s: of all its drafts. ahead: how many rounds were plain steps
    that the loop launched ahead."""
    metrics = Metrics.of(rounds)
    passes_s = sum(costs.pass_s(round_.width) for round_ in rounds)
    passes_s -= ahead * (costs.pass_s(1) - costs.plain_s)
    seconds, plain_s = passes_s + drafting_s, metrics.tokens * costs.plain_s
    reached, kept = tuple(map(float, metrics.reached)), tuple(map(float, metrics.kept))
    return RoundTotals(metrics.tokens, metrics.rounds, metrics.drafted, seconds, plain_s, reached, kept)


def _columns(counts: Sequence[Sequence[float]]) -> tuple[float, ...]:
    return tuple(sum(column) for column in zip_longest(*counts, fillvalue=0.0))
