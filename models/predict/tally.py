"""Counts and seconds of replies that were foreseen; they add up, and rates follow from the sums."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import zip_longest

from engine.events import Round
from engine.metrics import Metrics
from models.predict.prices import Prices
from models.predict.rounds import Chances, Course


@dataclass(frozen=True)
class Tally:
    """tokens: of the replies. rounds, drafted: how many, on average over what cannot be known. reached, kept: by place
    in a draft (in a tree: by depth), rounds that decided about it and rounds that kept it. seconds: of these rounds;
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
        """Tokens a verify pass."""
        return self.tokens / self.rounds

    @property
    def speedup(self) -> float:
        """Plain seconds / these seconds."""
        return self.plain_s / self.seconds

    @property
    def acceptance_by_position(self) -> list[float]:
        """Share kept at each place of a draft, of the rounds that got that far."""
        return [kept / reached for reached, kept in zip(self.reached, self.kept, strict=True) if reached > 0]


def total(tallies: Iterable[Tally]) -> Tally:
    """Of all replies together."""
    several = list(tallies)
    return Tally(
        sum(one.tokens for one in several),
        sum(one.rounds for one in several),
        sum(one.drafted for one in several),
        sum(one.seconds for one in several),
        sum(one.plain_s for one in several),
        _sums([one.reached for one in several]),
        _sums([one.kept for one in several]),
    )


def of_course(chances: Chances, course: Course, prices: Prices) -> Tally:
    """Of one reply whose rounds are known on average."""
    tokens, seconds = len(course.visits), 0.0
    for visit, drafted, member in zip(course.visits, course.drafted, chances.member, strict=True):
        if visit:
            seconds += visit * prices.round_s(int(member), int(drafted))
    drafted = float((course.visits * course.drafted).sum())
    reached, kept = tuple(course.reached.tolist()), tuple(course.kept.tolist())
    return Tally(tokens, course.rounds, drafted, seconds, tokens * prices.plain_s, reached, kept)


def of_rounds(rounds: Sequence[Round], drafting_s: float, ahead: int, prices: Prices) -> Tally:
    """Of one reply that was walked along. drafting_s: of all its drafts. ahead: how many rounds were plain steps that
    the loop launched ahead."""
    metrics = Metrics.of(rounds)
    passes_s = sum(prices.pass_s(round_.width) for round_ in rounds)
    passes_s -= ahead * (prices.pass_s(1) - prices.plain_s)
    seconds, plain_s = passes_s + drafting_s, metrics.tokens * prices.plain_s
    reached, kept = tuple(map(float, metrics.reached)), tuple(map(float, metrics.kept))
    return Tally(metrics.tokens, metrics.rounds, metrics.drafted, seconds, plain_s, reached, kept)


def _sums(counts: Sequence[Sequence[float]]) -> tuple[float, ...]:
    return tuple(sum(column) for column in zip_longest(*counts, fillvalue=0.0))
