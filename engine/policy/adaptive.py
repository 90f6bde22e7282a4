"""Which drafter drafts how many tokens in each round, so that a reply is fast and at worst slightly slower than plain
decoding.

Each round takes the draft with the most expected tokens for its price. Prices are in plain steps: 1.0 is the time of
one step in a run of plain ones. What may be lost in finding out is bounded by a budget. Where drafting does not pay, a
drafter is probed now and then, less and less often as probes fail.

Decisions follow from costs measured beforehand and from the tokens of this reply, not from the clock: the same request
has the same rounds. Only replies that need not be repeatable have a `CostCorrection`.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field

from engine.events import Round
from engine.policy import Plan
from engine.policy.cost_correction import CostCorrection
from engine.policy.costs import Costs
from engine.policy.expected_length import ChainExpectedLength, ExpectedLength

BUDGET_SHARE = 0.01  # of the tokens so far, what drafting may cost
BUDGET_START, MAX_BUDGET_START = 0.02, 3.0  # of the tokens of the whole reply, and at most this many plain steps
MAX_BUDGET = 15.0  # plain steps that gains may add up to
AT_ONCE = 0.5  # of the budget that one round may risk where a shorter draft pays too: one refusal must not end drafting
PROBE_SOONEST, PROBE_LATEST = 1.0, 16.0  # rounds between probes
PROBE_BACKOFF = 2.0
BEST_ACCEPTANCE = 0.97  # a drafter that does not pay even then is never used, so it need not read the prompt
TOO_RISKY = "a refused draft would slow this short reply down too much"
PROBING = "probing: is drafting worth it again?"


class SlowdownBudget:
    """What drafting may still lose against plain decoding, in plain steps.

    A round is drafted only if the budget covers the worst case, no token accepted. So, by the costs that were measured,
    a reply of n tokens never takes longer than plain decoding by more than BUDGET_SHARE * n + MAX_BUDGET_START steps.
    tokens: that the reply may have at most.
    """

    def __init__(self, tokens: float = math.inf) -> None:
        self.left = min(BUDGET_START * tokens, MAX_BUDGET_START)

    def covers(self, price: float, share: float = 1.0) -> bool:
        """Returns whether this share of the budget covers what a round of this price may lose: it brings at least one
        token, which is worth 1."""
        return price - 1 <= share * self.left

    def book(self, tokens: int, price: float) -> None:
        """Books a round that had this price and gave this many tokens."""
        self.left = min(self.left + tokens * (1 + BUDGET_SHARE) - price, MAX_BUDGET)


@dataclass
class Candidate:
    """A drafter that a round may use, with its costs here."""

    name: str
    costs: Costs
    expected_length: ExpectedLength = field(default_factory=ChainExpectedLength)

    def __post_init__(self) -> None:
        plain_s, lengths = self.costs.plain_s, [n for n in self.expected_length.expected(None) if n]
        self.lone_step = self.costs.pass_s(1) / plain_s  # price of a plain step that does not follow another
        self.prices = {0: self.lone_step, **{n: self.costs.round_s(n) / plain_s for n in lengths}}
        most = {n: (1 - BEST_ACCEPTANCE ** (n + 1)) / (1 - BEST_ACCEPTANCE) for n in lengths}
        self.useful = [n for n in lengths if most[n] > self.prices[n]]
        self.unread = 1  # committed tokens that it has not read: the last one, and those of rounds without it
        self.until_probe = self.probe_interval = PROBE_SOONEST  # in rounds

    @property
    def reading(self) -> float:
        """The price of reading the tokens that it has not read, but for the one that every draft begins with."""
        return self.costs.reading_s(self.unread) / self.costs.plain_s

    def drafted(self, round_: Round) -> None:
        """Sets when the next probe may be, by what came of a draft."""
        self.probe_interval = (
            PROBE_SOONEST if round_.accepted else min(self.probe_interval * PROBE_BACKOFF, PROBE_LATEST)
        )
        self.until_probe, self.unread = self.probe_interval, len(round_.tokens)


@dataclass(frozen=True)
class _Choice:
    """A draft that could be made. speed: expected tokens for its price, plain decoding being 1."""

    drafter: int = 0
    length: int = 0
    speed: float = 0.0
    probing: bool = False


class Adaptive:
    """The policy of one reply. correction: of these candidates' costs; None where the reply must be repeatable.

    Once `next_is_plain` said so, a plain round is submitted before the one before it is known. Nobody plans it then:

        round        1 drafted   2 plain    3 plain    4 plain    5 drafted
        planned      yes         yes        no         no         yes
        followed     no          yes        yes        no         no
        price        its own     lone_step  1          1          its own
    """

    def __init__(self, candidates: Sequence[Candidate], correction: CostCorrection | None = None) -> None:
        self._candidates, self._correction = list(candidates), correction
        self._hints: Sequence[float | None] = [None] * len(self._candidates)
        self._budget = SlowdownBudget()
        self._choice = _Choice()
        self._time_s = math.nan  # of the last round
        self._planned = False  # whether this round was planned, or submitted since `next_is_plain` said so
        self._followed = False  # whether a round was submitted before this one was waited for
        self._tried = False  # whether this reply has had a draft

    def begin(self, tokens: int) -> None:
        self._budget, self._tried = SlowdownBudget(tokens), False

    def plan(self, hints: Sequence[float | None] = ()) -> Plan:
        self._hints, self._planned = hints or [None] * len(self._candidates), True
        choices = [self._best(drafter) for drafter in range(len(self._candidates))]
        self._choice = choice = max(choices, key=lambda one: (one.length > 0, not one.probing, one.speed))
        if not choice.length:
            return Plan(0, TOO_RISKY if self._is_too_risky() else "drafting is not worthwhile here")
        reason = PROBING if choice.probing else f"expects {choice.speed:.2f}x plain speed"
        if len(self._candidates) == 1:
            return Plan(choice.length, reason)
        return Plan(choice.length, f"{self._candidates[choice.drafter].name}: {reason}", choice.drafter)

    def observe(self, round_: Round) -> None:
        if not self._planned:
            self._choice = _Choice(self._choice.drafter)
        price = self._price(round_)
        self._correct(round_)
        self._budget.book(len(round_.tokens), price)
        self._learn(round_)
        self._planned = self._followed = False

    def next_is_plain(self, has_nothing: bool = False) -> bool:
        self._followed = not any(self._may_draft_next(drafter, has_nothing) for drafter in range(len(self._candidates)))
        return self._followed

    def _may_draft_next(self, drafter: int, has_nothing: bool) -> bool:
        """Returns whether the round after this plain one may be drafted. It is not yet known what a drafter that
        gives hints will say then, unless `has_nothing`, so it may if the budget covers it."""
        if self._hints[drafter] is None:
            return self._best(drafter, rounds=1).length > 0
        return not has_nothing and bool(self._affordable(self._candidates[drafter]))

    def _best(self, drafter: int, rounds: int = 0) -> _Choice:
        """Returns the best draft of this drafter this many plain rounds from now; of length 0 if none pays and none is
        due as a probe."""
        candidate, hint = self._candidates[drafter], self._hints[drafter]
        lengths = self._affordable(candidate) if hint != 0 else []
        if not lengths:
            return _Choice(drafter)
        expected = candidate.expected_length.expected(hint)
        prices = {n: self._round_price(candidate, n) for n in lengths}
        if paying := [n for n in lengths if expected[n] > prices[n]]:
            modest = [n for n in self._affordable(candidate, AT_ONCE) if n in paying]
            best = max(modest or paying, key=lambda n: expected[n] / prices[n])
            return _Choice(drafter, best, expected[best] / prices[best])
        if candidate.until_probe > rounds:
            return _Choice(drafter)
        least = min(lengths, key=lambda n: prices[n] - expected[n])
        return _Choice(drafter, least, expected[least] / prices[least], probing=True)

    def _affordable(self, candidate: Candidate, share: float = 1.0) -> list[int]:
        """Returns the draft lengths that this share of the budget covers, with the dearer plain step after such a
        round."""
        dearer = candidate.lone_step - 1
        return [n for n in candidate.useful if self._budget.covers(self._round_price(candidate, n) + dearer, share)]

    def _is_too_risky(self) -> bool:
        """Whether nothing was drafted so far because the budget of this reply covers no refused draft."""
        ready = zip(self._candidates, self._hints, strict=True)
        useful = [candidate for candidate, hint in ready if candidate.useful and hint != 0]
        return bool(useful) and not self._tried and not any(map(self._affordable, useful))

    def _round_price(self, candidate: Candidate, length: int) -> float:
        return candidate.prices[length] * self._factor + candidate.reading

    @property
    def _factor(self) -> float:
        return self._correction.factor if self._correction is not None else 1.0

    def _price(self, round_: Round) -> float:
        """Returns the price of a round as it came out: a drafter may propose less than was planned."""
        first = math.isnan(self._time_s)
        if not self._choice.length:
            lone_step = max((candidate.lone_step for candidate in self._candidates), default=1.0)
            return lone_step if self._planned and not first else 1.0
        candidate, drafted = self._candidates[self._choice.drafter], len(round_.drafted)
        length = max(n for n in candidate.prices if n <= drafted)
        return self._round_price(candidate, length) if length else candidate.prices[0]

    def _learn(self, round_: Round) -> None:
        candidate, hint = self._candidates[self._choice.drafter], self._hints[self._choice.drafter]
        if round_.drafted:
            candidate.expected_length.learn(round_, hint)
        for each in self._candidates:
            each.until_probe -= 1
            each.unread += len(round_.tokens)
            each.expected_length.elapse(len(round_.tokens))
        if round_.drafted:
            self._tried = True
            candidate.drafted(round_)

    def _correct(self, round_: Round) -> None:
        """Corrects the costs by the time since the last round of this reply. Where submitting waits for the device, the
        first of a run of plain rounds is reported a pass late and the last a pass early: neither says anything."""
        measured_s, self._time_s = round_.time_s - self._time_s, round_.time_s
        drafted = len(round_.drafted)
        silent = self._choice.length > 0 and not drafted
        edge = not self._choice.length and self._planned == self._followed
        if self._correction is None or silent or edge:
            return
        candidate = self._candidates[self._choice.drafter]
        price = self._price(round_) / (self._factor if drafted else 1.0)
        self._correction.observe(drafted > 0, measured_s, price * candidate.costs.plain_s)
