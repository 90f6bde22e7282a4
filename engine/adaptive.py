"""Who drafts how much in each round, so that a reply comes as fast as it can and never slower than by plain decoding.

A round with k drafted tokens is worth its expected tokens less what its price, in plain passes, would have brought
otherwise (the ratio objective of Dinkelbach 1967: what is best a round at the right exchange rate is best a second).
What may be lost in finding out is bounded by a purse. While nothing pays, a drafter is probed now and then: where to
know how good it is would be worth the price, and the more seldom the more probes fail.

Decisions follow from costs measured beforehand and from the tokens of this reply, not from the clock: the same request
has the same rounds. Only with a `Drift`, for replies that need not be repeatable, are costs corrected by how long the
rounds take.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import accumulate
from typing import NamedTuple

from engine.costs import Costs
from engine.drift import Drift
from engine.events import Round
from engine.gate import Gate, Reliability
from engine.outlook import ChainOutlook, Outlook
from engine.policy import Plan
from engine.purse import Purse

PROBE_SOONEST, PROBE_LATEST = 4.0, 64.0  # plain rounds between probes
PROBE_BACKOFF = 1.3
HORIZON = 48  # tokens that what a probe tells is good for
PROBING = "probing: is drafting worth it again?"
TIMING = "timing a plain pass"
CLEAR = 1.5  # tokens a plain pass; a gain that no clock is likely to refute
READING = 1 / 16  # of a narrow pass; 64 rows of the built-in cost 4.5 passes on 2 cores
RECENT = 0.9  # what a round counts one round later, in the rate of late
HOPE = 0.97  # of a drafted token to be kept, at the best: a drafter that would not pay then need not read the prompt
HYSTERESIS = 0.01  # tokens a round: a length that is as good as the best is kept


def hoped(length: int) -> float:
    """Tokens of a round at the best."""
    return (1 - HOPE ** (length + 1)) / (1 - HOPE)


@dataclass
class Candidate:
    """One drafter to choose. costs: of its rounds here. gated: whether it says how sure it is while it drafts.

    Prices are in steps of a run of plain ones. `prices[0]` is what a plain step costs that was not sure to be one, so
    that it could not be launched before the last round had landed: that of a round that asked for a draft in vain.
    """

    name: str
    costs: Costs
    outlook: Outlook = field(default_factory=ChainOutlook)
    gated: bool = False

    def __post_init__(self) -> None:
        unit = self.costs.plain_s
        self.reliability = Reliability()
        self.wait, self.every = int(PROBE_SOONEST), PROBE_SOONEST
        self.behind = 1  # tokens that it has not read: the last one, and those of rounds without it
        lengths = list(self.outlook.expected(None))
        self.alone = self.costs.pass_s(1) / unit
        drafted = {n: self.costs.round_s(n) / unit for n in lengths}
        self.measured: Mapping[int, float] = {0: self.alone, **drafted}
        eager = self.costs.eager / unit if self.costs.eager is not None and self.gated else math.inf
        self.measured_eager = eager if eager < self.measured.get(1, 0.0) else None
        self.correct(lambda _: 1.0)
        self._pass_s = self.costs.pass_s(1)
        self.steps: Mapping[int, float] = {n: self.costs.draft_s(n) / unit for n in (0, *lengths)}

    def correct(self, factor: Callable[[int], float]) -> None:
        """Set the prices to what was measured, times a factor of each draft length; more is never cheaper."""
        corrected = accumulate((price * factor(n) for n, price in self.measured.items()), max)
        self.prices: Mapping[int, float] = dict(zip(self.measured, corrected, strict=True))
        self.eager = None
        if self.measured_eager is not None:
            self.eager = max(self.alone, min(self.measured_eager * factor(1), self.prices[1]))
        self.useful = [n for n in self.prices if n and hoped(n) > self.price(n)]

    def price(self, length: int) -> float:
        """Of a draft of this length as it would be asked for. One token is drafted without asking how sure it is: the
        pass is then built while it is drafted, which is worth more than what a refusal would spare."""
        return self.eager if length == 1 and self.eager is not None else self.prices[length]

    @property
    def reading(self) -> float:
        """Price of reading what it is behind, but for the token that every draft begins with: a step, times what wide
        passes cost more than narrow ones, as far as that was measured, and no more than READING a row beyond."""
        rows = self.costs.pass_s(self.behind) / self._pass_s - 1
        return self.steps.get(1, 0.0) * min(rows, READING * (self.behind - 1))

    def drafted(self, well: bool) -> None:
        """Set the pace of probing by what came of a draft, a probe or not."""
        self.wait = 0
        self.every = PROBE_SOONEST if well else min(self.every * PROBE_BACKOFF, PROBE_LATEST)

    def probe(self, hint: float | None, affordable: Sequence[int], care: float, later: int) -> int:
        """The draft length to find out with whether drafting pays, of those that are `affordable`; 0: not now.

        care: how much dearer than a pass won is a pass lost. later: so many plain rounds from now.
        """
        if not affordable or self.wait + later < self.every:
            return 0
        expected = self.outlook.expected(hint, later)
        losses = {n: self.price(n) + self.reading - expected[n] for n in affordable}
        least = min(losses, key=losses.__getitem__)
        prices = {n: self.price(n) if n else 1.0 for n in self.prices}
        worth = HORIZON * self.outlook.ignorance(hint, prices, later)
        return least if worth > losses[least] * care else 0


class _Choice(NamedTuple):
    """worth: expected tokens less what the price would have brought otherwise, against a plain round."""

    worth: float
    member: int
    length: int
    probing: bool = False


class Adaptive:
    """For one reply, which must not learn from the last. drift: of these candidates, as they stand; None where the
    reply is to be repeatable. Replies that share one must have different seeds."""

    def __init__(self, candidates: Sequence[Candidate], drift: Drift | None = None) -> None:
        self._candidates = list(candidates)
        self._drift, self._told_s = drift, math.nan  # when the last round was told
        for member, candidate in enumerate(self._candidates):
            self._correct(member, candidate)
        self._purse = Purse()
        self._alone = max((candidate.alone for candidate in self._candidates), default=1.0)
        self._began = self._planned = False
        self._followed = False  # whether a round was launched behind this one
        self._tokens = self._spent = 0.0  # of the last rounds, fading
        self._choice = _Choice(0.0, 0, 0)
        self._hints: Sequence[float | None] = [None] * len(self._candidates)
        self._gate: Gate | None = None

    def begin(self, tokens: int) -> None:
        self._purse = Purse(tokens)

    def plan(self, hints: Sequence[float | None] = ()) -> Plan:
        """hints: of each drafter, see `engine.drafters.Drafter.hint`."""
        self._hints = hints or [None] * len(self._candidates)
        self._planned = True
        rate = self._rate()
        self._choice = self._choose(rate)
        overdue = self._choice.length > 0 and self._wants_plain(rate)
        if overdue:
            self._choice = self._choice._replace(length=0)
        _, member, length, probing = self._choice
        if not length:
            self._gate = None
            return Plan(0, TIMING if overdue else "drafting would not pay")
        candidate, hint = self._candidates[member], self._hints[member]
        eager = length == 1 and candidate.eager is not None
        self._gate = None if eager else self._open(candidate, hint, rate)
        gain = candidate.outlook.expected(hint)[length] / candidate.price(length)
        reason = PROBING if probing else f"expects {gain:.2f}x plain speed"
        who = f"{candidate.name}: " if len(self._candidates) > 1 else ""
        longest = len(self._gate.prices) - 1 if self._gate else length
        return Plan(longest, who + reason, member if who else None, self._gate)

    def observe(self, round_: Round) -> None:
        if not self._planned:  # launched while the last one ran, on the word of `plain_next`
            self._choice, self._gate = self._choice._replace(length=0), None
        _, member, length, _ = self._choice
        candidate, hint, drafted = self._candidates[member], self._hints[member], len(round_.drafted)
        plain = self._alone if self._planned and self._began else 1.0
        price = self._price(candidate, drafted) if length else plain
        if self._drift is not None:
            self._time(self._drift, round_, plain if not length else None)
        self._began, self._planned, self._followed = True, False, False
        self._purse.book(len(round_.tokens), price)
        self._tokens = RECENT * self._tokens + len(round_.tokens)
        self._spent = RECENT * self._spent + price
        if self._gate is not None:
            self._gate.learn(len(round_.tokens), round_.accepted)
        if drafted:
            candidate.outlook.learn(round_, hint)
        elif self._gate is not None and self._gate.refused is not None:
            candidate.outlook.suppose(self._gate.refused)
        for other in self._candidates:
            other.wait += 1
            other.behind += len(round_.tokens)
            other.outlook.elapse(len(round_.tokens))
        if drafted or (self._gate is not None and self._gate.refused is not None):  # else it had nothing: says nothing
            candidate.drafted(round_.accepted > 0)
            candidate.behind = len(round_.tokens)

    def plain_next(self, quiet: bool = False) -> bool:
        """Whether the round after a plain one is sure to be plain too. quiet: whether those that hint have nothing.
        Where it is, that round is launched before this one has landed."""
        self._followed = self._sure(quiet)
        return self._followed

    def _sure(self, quiet: bool) -> bool:
        hinting = {i for i, hint in enumerate(self._hints) if hint is not None}
        heard = [self._candidates[i] for i in hinting]
        if not quiet and any(self._allows(candidate, n, rounds=1) for candidate in heard for n in candidate.useful):
            return False
        rate = self._rate()
        others = [i for i in range(len(self._candidates)) if i not in hinting]
        return all(self._best(i, rate, rounds=1).length == 0 for i in others)

    def _rate(self) -> float:
        """Tokens a plain pass that time is worth: what could be made with nothing special at hand, or plainly; where
        all that could draft have hints, which come and go, what the reply makes of late."""
        recent = self._tokens / self._spent if self._spent and None not in self._hints else 0.0
        rates = [1.0, recent]
        for candidate, hint in zip(self._candidates, self._hints, strict=True):
            if hint is None:
                expected = candidate.outlook.expected(None)
                rates += [expected[n] / candidate.price(n) for n in candidate.useful]
        return max(rates)

    def _choose(self, rate: float) -> _Choice:
        choices = [self._best(i, rate) for i in range(len(self._candidates))]
        return max(choices, key=lambda choice: (choice.length > 0, choice.worth))

    def _best(self, member: int, rate: float, rounds: int = 0) -> _Choice:
        """What this drafter is best used for, `rounds` plain rounds from now; length 0 if for nothing."""
        candidate, hint = self._candidates[member], self._hints[member]
        if hint == 0 or not candidate.useful:
            return _Choice(0.0, member, 0)
        expected, reading = candidate.outlook.expected(hint, rounds), candidate.reading
        affordable = [n for n in candidate.useful if self._allows(candidate, n, rounds)]
        plain = 1.0 if hint is None else candidate.alone  # those that hint keep plain steps from being sure
        prices = {n: candidate.price(n) + reading for n in affordable}
        paying = [n for n in affordable if expected[n] - 1 > prices[n] - plain]
        worths = {n: expected[n] - 1 - rate * (prices[n] - 1) for n in paying}
        best = max(worths, key=worths.__getitem__, default=0)
        _, at, length, _ = self._choice
        if at == member and length in worths and worths[length] > worths[best] - HYSTERESIS:
            best = length
        if best:
            return _Choice(worths[best], member, best)
        probe = candidate.probe(hint, affordable, self._purse.care(rounds), rounds)
        return _Choice(-1.0 if probe else 0.0, member, probe, probing=bool(probe))

    def _allows(self, candidate: Candidate, length: int, rounds: int = 0) -> bool:
        """Whether the purse has what such a draft may lose, and with it the step behind, which is then not launched
        ahead."""
        return self._purse.allows(candidate.price(length) + candidate.reading + candidate.alone - 1, rounds)

    def _open(self, candidate: Candidate, hint: float | None, rate: float) -> Gate | None:
        """A gate over as many tokens as the purse can pay for."""
        if not candidate.gated or not isinstance(candidate.outlook, ChainOutlook):
            return None
        longest = max(n for n in candidate.useful if self._allows(candidate, n))
        prices = [candidate.prices[n] for n in range(longest + 1)]
        steps = [candidate.steps[n] for n in range(longest + 1)]
        return Gate(candidate.reliability, prices, steps, rate, candidate.outlook.chances(hint))

    def _wants_plain(self, rate: float) -> bool:
        """Not in the first round, which nobody can time."""
        return self._drift is not None and not math.isnan(self._told_s) and self._drift.wants_plain(rate >= CLEAR)

    def _time(self, drift: Drift, round_: Round, plain: float | None) -> None:
        """Tell `drift` how long this round took, counted from the last of this reply, and go by what it then says.
        plain: its price, if no draft was asked for. A round of which nothing came though it was drafted for is neither
        plain nor a draft. Where a launch waits for the device, the first of a run of plain rounds is told a pass late
        and the last a pass early."""
        seconds, self._told_s = round_.time_s - self._told_s, round_.time_s
        member, drafted = self._choice.member, len(round_.drafted)
        candidate = self._candidates[member]
        edge = plain is not None and self._planned == self._followed
        if edge or (plain is None and not drafted):
            return
        price = self._price(candidate, drafted, measured=True) if plain is None else plain
        drift.saw(member, drafted, seconds, price * candidate.costs.plain_s)
        self._correct(member, candidate)

    def _correct(self, member: int, candidate: Candidate) -> None:
        drift = self._drift
        if drift is not None:
            candidate.correct(lambda drafted: drift.factor(member, drafted))

    def _price(self, candidate: Candidate, drafted: int, measured: bool = False) -> float:
        """Of a round as it came out: a drafter may propose less than asked, or more, and may have drafted a token that
        its gate then refused. measured: without what the clock has said since."""
        if self._gate is None and drafted == 1 and candidate.eager is not None:
            return candidate.reading + ((candidate.measured_eager if measured else candidate.eager) or 0.0)
        prices = candidate.measured if measured else candidate.prices
        price = candidate.reading if drafted or self._gate is not None else 0.0
        price += prices[max((n for n in prices if n <= drafted), default=0)]
        if self._gate is not None and self._gate.refused is not None:
            price += candidate.steps[drafted + 1] - candidate.steps[drafted]
        return price
