"""How long rounds take on this machine, learnt from the rounds of replies.

Kept are the time of a plain step, and prices: what a round with a draft of n tokens (or tree nodes) takes in plain
steps, 1.0 being a step in a run of plain ones. A machine that gets slower or faster for everything changes the first
and not the prices. Both are estimated together, as logarithms, by a Kalman filter (Kalman 1960) over

    log plain_s    a random walk: other programs come and go
    log lone       the price of a plain step that is not submitted ahead of the one before
    log replay     the factor for a round that first repeats tokens after a refusal, as recurrent layers need
    log price      of each drafter and length. Neighboring lengths are correlated: one round tells something of all

A round shows the sum of two or three of them, so a run of drafted rounds alone says little about the plain step, and
the filter knows that. It begins with a prior (`PriorPrices`), and with what it has learnt after contexts of about this
length, since attention grows with the context.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

PLAIN, LONE, REPLAY, FIRST_PRICE = 0, 1, 2, 3  # places in the state; the prices follow
LONE_PRICE = 1.08
CPU_PASSES = ((1, 1.0), (2, 1.2), (6, 1.6), (17, 2.4))  # rows, and plain steps
GPU_PASSES = ((1, 1.0), (2, 1.25), (4, 1.5), (8, 2.5), (9, 2.8), (33, 4.0))

# Standard deviations, of natural logarithms: 0.1 is a tenth.
UNKNOWN = 4.0  # of the plain step before any has been seen
COMMON, NEIGHBORS, SINGLE = 0.3, 0.25, 0.12  # of all prices of a drafter, of those of similar lengths, of one price
REACH = 1.0  # doublings of the rows after which neighbors have little in common
OTHER_DRAFTER = 0.3  # correlation of the prices of two drafters, which share the target's pass
FIRST_NOISE = 0.15  # of the time of one round, before it is known how quiet the machine is
MIN_NOISE, MAX_NOISE, NOISE_WEIGHT = 0.05, 0.5, 0.05  # bounds of it later; weight of a round in it
DEVIATION = 1.25  # standard deviation over mean deviation, of the normal distribution
OUTLIER = 2.0  # times what was to be expected; what is beyond counts less
JUMP, JUMP_ROUNDS = 0.7, 2  # of the plain step when so many rounds in a row were outliers of one kind
JUMP_DRIFT = 2000  # rounds' worth of drift of the prices then
MAX_MORE = 1.5  # of what a round takes by itself: one that took longer for other work tells nothing
PLAIN_DRIFT, PRICE_DRIFT = 0.01, 0.002  # a round
FORGOTTEN = (PRICE_DRIFT / COMMON) ** 2  # a round, of what is known of the prices
NEXT_REPLY, NEXT_PRICES = 0.4, 4  # from one reply to the next: of the plain step; rounds' worth of drift
NEGLECTED = 500  # rounds' worth of drift for a reply without drafts
NEXT_CLASS = 100  # rounds' worth of drift where the context has doubled
FARTHEST = 20.0  # from 0 that a logarithm can be: nanoseconds, or years
ROUNDING = 1e-5  # of a covariance in a file


@dataclass(frozen=True)
class PriorPrices:
    """How long rounds with a drafter are taken to be before any was seen: in plain steps, by draft length."""

    name: str
    prices: Mapping[int, float]


@dataclass
class Belief:
    """mean: (n,) and covariance: (n, n) of the state."""

    mean: Any
    covariance: Any

    def copy(self) -> Belief:
        return Belief(self.mean.copy(), self.covariance.copy())


@dataclass
class StepTimes:
    """The times of one target and its drafters under the same conditions. drafters: their prior prices. learnt: by
    `context_class`. learns: whether rounds teach anything; otherwise what is known is taken to be right."""

    drafters: Sequence[PriorPrices]
    learnt: dict[int, Belief] = field(default_factory=dict)
    learns: bool = True

    def __post_init__(self) -> None:
        keys = [(drafter, length) for drafter, prior in enumerate(self.drafters) for length in prior.prices]
        self._place = {key: place for place, key in enumerate(keys, FIRST_PRICE)}
        self._drift = FORGOTTEN * _price_covariance(keys)
        self._drift[PLAIN, PLAIN] = PLAIN_DRIFT**2
        self._class, self._outliers, self._noise = 0, 0, FIRST_NOISE
        self._belief = self._prior()

    def copy(self, learns: bool = True) -> StepTimes:
        """Returns the same times apart from these, and whether they go on learning."""
        return StepTimes(self.drafters, {number: belief.copy() for number, belief in self.learnt.items()}, learns)

    def is_sound(self, belief: Belief) -> bool:
        """Returns whether a belief, which a file may hold, is one about these times."""
        mean, covariance, size = belief.mean, belief.covariance, FIRST_PRICE + len(self._place)
        if mean.shape != (size,) or covariance.shape != (size, size):
            return False
        if not ((np.abs(mean) < FARTHEST).all() and (np.abs(covariance) < FARTHEST).all()):  # NaN is neither
            return False
        symmetric = bool((np.abs(covariance - covariance.T) < ROUNDING).all())
        return symmetric and bool(np.linalg.eigvalsh(covariance).min() > -ROUNDING)

    def begin(self, context: int) -> None:
        """Begins a reply after `context` tokens. It has taught nothing until one of its rounds is timed."""
        self._class = context_class(context)
        self._belief = self.belief_after(context).copy()
        self.elapse(NEXT_PRICES)
        self._belief.covariance[PLAIN, PLAIN] += NEXT_REPLY**2

    def reach(self, context: int) -> None:
        """Goes on after `context` tokens, which may be many more than at the last round."""
        if (number := context_class(context)) == self._class:
            return
        plain = self._belief.mean[PLAIN]
        self._class, self._belief = number, self.belief_after(context).copy()
        self._belief.mean[PLAIN] = plain
        self.elapse(NEXT_CLASS)
        self._belief.covariance[PLAIN, PLAIN] += NEXT_REPLY**2

    @property
    def plain_s(self) -> float:
        """Seconds of a step in a run of plain ones."""
        return math.exp(self._belief.mean[PLAIN])

    @property
    def plain_doubt(self) -> float:
        """The standard deviation of the logarithm of `plain_s`."""
        return self._deviation(PLAIN)

    @property
    def knows_plain(self) -> bool:
        """Whether anything is known of the time of a plain step, or never will be."""
        return not self.learns or bool(self._belief.covariance[PLAIN, PLAIN] < 1)

    @property
    def lone(self) -> float:
        """The price of a plain step that is not submitted ahead."""
        return math.exp(self._belief.mean[LONE])

    @property
    def replay(self) -> float:
        """What a round takes more if it repeats tokens after a refusal, as a share of its price."""
        return math.exp(self._belief.mean[REPLAY]) - 1

    def price(self, drafter: int, length: int) -> float:
        """Returns the price of a round with a draft of `length`, one of the lengths of this drafter's prior."""
        return math.exp(self._belief.mean[self._place[drafter, length]])

    def doubt(self, drafter: int, length: int) -> float:
        """Returns the standard deviation of the logarithm of a price."""
        return self._deviation(self._place[drafter, length]) if self.learns else 0.0

    def _deviation(self, place: int) -> float:
        return math.sqrt(max(0.0, self._belief.covariance[place, place]))

    def observe_plain(self, seconds: float) -> None:
        """Learns from a step within a run of plain ones."""
        self._observe([PLAIN], seconds)

    def observe_run(self, steps: int, seconds: float, replayed: bool = False) -> None:
        """Learns from a whole run of plain steps, the first of which was not submitted ahead. replayed: whether its
        pass repeated tokens."""
        if steps == 1:
            self._observe([PLAIN, LONE, REPLAY] if replayed else [PLAIN, LONE], seconds)
        elif not replayed:  # otherwise nobody could tell what of the sum is the repeated tokens'
            self._observe([PLAIN], seconds / (self.lone + steps - 1))

    def observe_draft(
        self, drafter: int, length: int, seconds: float, replayed: bool = False, more: float = 0.0
    ) -> bool:
        """Learns from a round with a draft; returns whether the machine seems to have another speed now. more: plain
        steps that it took for other work; a round that took many tells nothing."""
        place = self._place[drafter, length]
        share = 1 + more / math.exp(self._belief.mean[place])
        if share > MAX_MORE:
            return False
        return self._observe([PLAIN, place, REPLAY] if replayed else [PLAIN, place], seconds / share)

    def elapse(self, rounds: int = 1) -> None:
        """Lets rounds pass: what was learnt may hold a little less, though never less than the prior. The covariance
        is a mean of itself and the prior's, so it has a bound however many rounds pass, and stays one."""
        if self.learns:
            self._belief.covariance *= 1 - rounds * FORGOTTEN
            self._belief.covariance += rounds * self._drift

    def neglect(self) -> None:
        """Notes that a reply goes without drafts, so that what was learnt of them fades and they are tried again in the
        end: the machine may have been busy when they were judged. A prior stays what it is, as no round has told it."""
        if self.learnt:
            self.elapse(NEGLECTED)
            self.learnt[self._class] = self._belief

    def _observe(self, places: list[int], seconds: float) -> bool:
        """The filter's update by a measurement of the sum of these logarithms. A surprise that is larger than the
        filter and the clock allow for counts as if it had been measured less exactly. Returns whether the last rounds
        were all so."""
        if not self.learns or not 0 < seconds < math.inf:
            return False
        self.learnt[self._class] = self._belief
        mean, covariance = self._belief.mean, self._belief.covariance
        surprise = math.log(seconds) - float(mean[places].sum())
        spread = math.sqrt(float(covariance[np.ix_(places, places)].sum()) + self._noise**2)
        if jumped := self._has_jumped(surprise / (OUTLIER * spread)):
            covariance[PLAIN, PLAIN] += JUMP**2
            self.elapse(JUMP_DRIFT)
        towards = covariance[:, places].sum(axis=1)
        variance = float(towards[places].sum())
        spread = math.sqrt(variance + self._noise**2)
        noise = (self._noise * max(1.0, abs(surprise) / (OUTLIER * spread))) ** 2
        gain = towards / (variance + noise)
        mean += gain * surprise
        covariance -= np.outer(gain, towards)
        own = self._noise**2 / (variance + self._noise**2)  # how much of a surprise is the clock's doing
        deviation = min(max(DEVIATION * abs(surprise), MIN_NOISE), MAX_NOISE)
        self._noise += NOISE_WEIGHT * own * (deviation - self._noise)
        return jumped

    def _has_jumped(self, surprise: float) -> bool:
        """Returns whether the last few rounds were all much longer, or all much shorter, than expected: then the
        machine has another speed now. surprise: beyond 1 or -1 where a round is an outlier."""
        if abs(surprise) < 1:
            self._outliers = 0
        else:
            self._outliers = max(1, self._outliers + 1) if surprise > 0 else min(-1, self._outliers - 1)
        jumped = abs(self._outliers) >= JUMP_ROUNDS
        self._outliers = 0 if jumped else self._outliers
        return jumped

    def place(self, drafter: int, length: int) -> int:
        """Returns the place of a price in the state."""
        return self._place[drafter, length]

    def belief_after(self, context: int) -> Belief:
        """Returns what was learnt after contexts of about this length, else the prior."""
        if not self.learnt:
            return self._prior()
        number = context_class(context)
        return self.learnt[min(self.learnt, key=lambda known: (abs(known - number), known))]

    def _prior(self) -> Belief:
        prices = [price for prior in self.drafters for price in prior.prices.values()]
        mean = np.log(np.array([1.0, LONE_PRICE, 1.0, *prices]))
        covariance = _price_covariance(list(self._place))
        covariance[PLAIN, PLAIN] = UNKNOWN**2
        return Belief(mean, covariance)


@dataclass(frozen=True)
class DrafterTimes:
    """What is known of the rounds of one drafter now, by context, for forecasts. drafter: its place in `times`."""

    times: StepTimes
    drafter: int = 0

    @property
    def learnt(self) -> bool:
        """Whether rounds have told it; else these are prior prices, and a plain step is taken to last a second."""
        return bool(self.times.learnt)

    def plain_s(self, context: int) -> float:
        """Returns the seconds of a plain step after `context` tokens."""
        return math.exp(self.times.belief_after(context).mean[PLAIN])

    def round_s(self, length: int, context: int) -> float:
        """Returns the seconds of a round with `length` drafted tokens, or tree nodes. Beyond the longest draft that is
        known prices go on as they rise before."""
        lengths = [0, *self.times.drafters[self.drafter].prices]
        belief = self.times.belief_after(context)
        prices = [1.0, *(math.exp(belief.mean[self.times.place(self.drafter, one)]) for one in lengths[1:])]
        beyond = max(0, length - lengths[-1]) * (prices[-1] - prices[-2]) / (lengths[-1] - lengths[-2])
        return self.plain_s(context) * float(np.interp(length, lengths, prices) + max(0.0, beyond))


def pass_price(rows: int, gpu: bool) -> float:
    """Returns what a verify pass of so many rows usually takes, in plain steps: about the median of the published
    curves of Apple Silicon (engine/README.md), or of the built-in model on two cores."""
    points = GPU_PASSES if gpu else CPU_PASSES
    widths, prices = zip(*points, strict=True)
    beyond = max(0, rows - widths[-1]) * (prices[-1] - prices[-2]) / (widths[-1] - widths[-2])
    return float(np.interp(rows, widths, prices) + beyond)


def context_class(context: int) -> int:
    """Returns the class of a context: 0 below 1,024 tokens, and one more at each doubling."""
    return (context // 1024).bit_length()


def _price_covariance(keys: Sequence[tuple[int, int]]) -> Any:
    """Returns the prior covariance of the state but for the plain step. keys: (drafter, length) of each price."""
    size = FIRST_PRICE + len(keys)
    covariance = np.zeros((size, size))
    covariance[LONE, LONE], covariance[REPLAY, REPLAY] = SINGLE**2, COMMON**2
    rows = np.log2([length + 1 for _, length in keys])
    who = np.array([drafter for drafter, _ in keys])
    near = np.exp(-np.abs(rows[:, None] - rows[None, :]) / REACH)
    alike = np.where(who[:, None] == who[None, :], 1.0, OTHER_DRAFTER)
    prices = alike * (COMMON**2 + NEIGHBORS**2 * near) + SINGLE**2 * np.eye(len(keys))
    covariance[FIRST_PRICE:, FIRST_PRICE:] = prices
    return covariance
