"""The counts and seconds of forecast replies, from which rates follow."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import zip_longest

from engine.policy.costs import Costs

from engine.events import Round
from engine.metrics import Metrics
from models.expected_rounds import ChainAcceptance, ExpectedRounds


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


def expected_totals(acceptance: ChainAcceptance, expected: ExpectedRounds, costs: Costs) -> RoundTotals:
    """Returns the totals of one reply from its expected rounds."""
    tokens, seconds = len(expected.starts), 0.0
    for start, drafted, member in zip(expected.starts, expected.drafted, acceptance.member, strict=True):
        if start:
            seconds += start * _round_s(costs.of(int(member)), int(drafted))
    drafted = float((expected.starts * expected.drafted).sum())
    reached, kept = tuple(expected.reached.tolist()), tuple(expected.kept.tolist())
    return RoundTotals(tokens, expected.rounds, drafted, seconds, tokens * costs.plain_s, reached, kept)


def simulated_totals(rounds: Sequence[Round], drafting_s: float, ahead: int, costs: Costs) -> RoundTotals:
    """Returns the totals of one simulated reply. drafting_s: of all its drafts. ahead: how many rounds were plain steps
    that the loop launched ahead."""
    metrics = Metrics.of(rounds)
    passes_s = sum(costs.pass_s(round_.width) for round_ in rounds)
    passes_s -= ahead * (costs.pass_s(1) - costs.plain_s)
    seconds, plain_s = passes_s + drafting_s, metrics.tokens * costs.plain_s
    reached, kept = tuple(map(float, metrics.reached)), tuple(map(float, metrics.kept))
    return RoundTotals(metrics.tokens, metrics.rounds, metrics.drafted, seconds, plain_s, reached, kept)


def _round_s(costs: Costs, drafted: int) -> float:
    """Returns the seconds of a round. One without a draft is a pass by itself, not a step in a run of plain ones."""
    return costs.round_s(drafted) if drafted else costs.pass_s(1)


def _columns(counts: Sequence[Sequence[float]]) -> tuple[float, ...]:
    return tuple(sum(column) for column in zip_longest(*counts, fillvalue=0.0))
