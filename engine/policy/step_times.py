"""How long rounds take on this machine, learnt from the rounds of replies.

Kept are the time of a plain step, and prices: what a round with a draft of n tokens (or tree nodes) takes in plain
steps, 1.0 being a step in a run of plain ones. A machine that gets slower or faster for everything changes the first
and not the prices. Both are estimated together, as logarithms, by a Kalman filter (Kalman 1960) over

    log plain_s    a random walk: other programs come and go
    log lone       the price of a plain step that is not submitted ahead of the one before
    log replay     the factor for a round that first repeats tokens after a refusal, as recurrent layers need
    log price      of each drafter and length. Neighboring lengths are correlated: one round tells something of all

A round shows the sum of two or three of them, so a run of drafted rounds alone says little about the plain step, and
the filter knows that. It also knows that another program may delay a round but none can hasten it, that no round is
quicker than a plain step within a run, and that drafted rounds may differ more than plain ones. It begins with a prior
(`PriorPrices`), and with what it has learnt after contexts of about this length, since attention grows with the
context.

Several replies at once share their passes, and a round of each takes as long as one of all. For each class of their
number (2, 3 and 4, 5 to 8) there is a belief of its own (`for_replies`). Its prices are those of turns in which the
largest number of the class takes part and all draft alike. Prior to any such turn, N replies with n drafted tokens are
taken to be a pass of N (n + 1) rows. The time of a turn with fewer replies, or with drafts of different lengths, is
converted by the ratio of the two in the prior (`turn_ratio`). What the replies plan, and what came of it, they tell
each other in `JointTurns`.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from copy import copy, deepcopy
from dataclasses import dataclass, field
from functools import cache, lru_cache
from itertools import pairwise
from typing import Any

import numpy as np

from engine.policy.joint_turns import JointTurns

PLAIN, LONE, REPLAY, FIRST_PRICE = 0, 1, 2, 3  # places in the state; the prices follow
LONE_PRICE = 1.08
# Rows, and plain steps.
CPU_PASSES = ((1, 1.0), (2, 1.2), (4, 1.45), (6, 1.65), (9, 1.85), (12, 2.2), (17, 3.0), (33, 4.5))
GPU_PASSES = ((1, 1.0), (2, 1.25), (4, 1.5), (8, 2.5), (9, 2.8), (33, 4.0))

# Standard deviations, of natural logarithms: 0.1 is a tenth.
UNKNOWN = 4.0  # of the plain step before any has been seen
COMMON, NEIGHBORS, SINGLE = 0.3, 0.25, 0.12  # of all prices of a drafter, of those of similar lengths, of one price
REACH = 1.0  # doublings of the rows after which neighbors have little in common
OTHER_DRAFTER = 0.3  # correlation of the prices of two drafters, which share the target's pass
FIRST_NOISE = 0.15  # of the time of one round, before it is known how quiet the machine is
MIN_NOISE, MAX_NOISE, NOISE_WEIGHT = 0.05, 0.5, 0.1  # bounds of it later; weight of a round in it
DEVIATION = 1.25  # standard deviation over mean deviation, of the normal distribution
OUTLIER = 2.0  # times what was to be expected; what is later counts less, as another program may delay a round
JUMP, JUMP_ROUNDS = 0.7, 4  # of the plain step when so many rounds in a row were outliers of one kind: two or three
# are often another program's, and a machine that has another speed now loses nothing by two rounds more
JUMP_DRIFT = 2000  # rounds' worth of drift of the prices then
MAX_KEPT = 4096  # turns whose `turn_ratio` is kept
MAX_MORE = 1.5  # of what a round takes by itself: one that took longer for other work tells nothing
PLAIN_DRIFT, PRICE_DRIFT = 0.01, 0.002  # a round
FORGOTTEN = (PRICE_DRIFT / COMMON) ** 2  # a round, of what is known of the prices
NEXT_REPLY, NEXT_PRICES = 0.4, 4  # from one reply to the next: of the plain step; rounds' worth of drift
NEGLECTED = 500  # rounds' worth of drift for a reply without drafts
NEXT_CLASS = 100  # rounds' worth of drift where the context has doubled
FARTHEST = 20.0  # from 0 that a logarithm can be: nanoseconds, or years
ROUNDING = 1e-5  # of a covariance in a file


@cache
def pass_price(rows: int, gpu: bool) -> float:
    """Returns what a verify pass of so many rows usually takes, in plain steps: about the median of the published
    curves of Apple Silicon (engine/README.md), or of the built-in model on two cores."""
    points = GPU_PASSES if gpu else CPU_PASSES
    widths, prices = zip(*points, strict=True)
    beyond = max(0, rows - widths[-1]) * (prices[-1] - prices[-2]) / (widths[-1] - widths[-2])
    return float(np.interp(rows, widths, prices) + beyond)


@dataclass(frozen=True, eq=False)
class PriorPrices:
    """How long rounds with a drafter are taken to be before any was seen: in plain steps, by draft length. Made where
    the pair is known, in `app/inference/learnt_rounds.py`.

    passes: of their verify passes alone, by the rows.
    """

    name: str
    prices: Mapping[int, float]
    passes: Callable[[int], float] = field(default=lambda rows: pass_price(rows, gpu=False))

    def drafting(self, length: int) -> float:
        """Returns how long one reply's draft takes without its verify pass, in plain steps."""
        known = max((n for n in self.prices if n <= length), default=next(iter(self.prices)))
        return max(0.0, self.prices[known] - self.passes(known + 1))

    def for_replies(self, prices: Mapping[int, float], replies: int) -> dict[int, float]:
        """Returns, by draft length, how long rounds of so many replies take that all draft so much, in plain steps of
        one reply; 0 is a plain one. They draft together too. prices: of one reply, as they are known by now."""
        drafting = {n: self.drafting(n) for n in self.prices}
        widths = [1, *(n + 1 for n in prices)]
        known = [1.0, *(max(1.0, price - drafting[n]) for n, price in prices.items())]
        beyond = known[-1] / self.passes(widths[-1])

        def one_pass(rows: int) -> float:
            return float(np.interp(rows, widths, known)) if rows <= widths[-1] else beyond * self.passes(rows)

        return {n: one_pass(replies * (n + 1)) + self.passes(replies) * drafting.get(n, 0.0) for n in (0, *prices)}

    @lru_cache(MAX_KEPT)  # noqa: B019  there are few priors, and they are small
    def turn_ratio(self, lengths: tuple[int, ...], replies: int) -> float:
        """Returns how many times as long a turn takes in which there is a reply for each of these draft `lengths`, as
        one of so many `replies` that all draft their mean. Lengths in one order are computed once."""
        known, drafting = [0, *self.prices], [0.0, *map(self.drafting, self.prices)]
        even = [
            math.log(self.passes(replies * (n + 1)) + self.passes(replies) * seconds)
            for n, seconds in zip(known, drafting, strict=True)
        ]
        steps = np.diff(np.interp(range(max(lengths) + 1), known, drafting))
        takes = self.passes(len(lengths) + sum(lengths))
        takes += sum(one * self.passes(sum(n > step for n in lengths)) for step, one in enumerate(steps))
        return float(takes / math.exp(np.interp(sum(lengths) / len(lengths), known, even)))


@dataclass
class Belief:
    """mean: (n,) and covariance: (n, n) of the state."""

    mean: Any
    covariance: Any


@dataclass
class _Clock:
    """What all replies see that learn together. noise: how much the times of plain rounds vary, and those of drafted
    ones, whose tokens also decide how many experts are read. outliers: in a row, below 0 where rounds were short.
    turns: of several replies at once, how many were over when the last was learnt from."""

    noise: list[float] = field(default_factory=lambda: [FIRST_NOISE, FIRST_NOISE])
    outliers: int = 0
    turns: int = 0


@dataclass(eq=False)
class StepTimes:
    """The times of one target and its drafters under the same conditions. drafters: their prior prices. learnt: by
    `context_class`. learns: whether rounds teach anything; otherwise what is known is taken to be right. of_several:
    what is learnt of several replies at once, by `replies_class`."""

    drafters: Sequence[PriorPrices]
    learnt: dict[int, Belief] = field(default_factory=dict)
    learns: bool = True
    of_several: dict[int, StepTimes] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.replies = 1
        self._even_ratios = dict[tuple[int, int], float]()  # `turn_ratio` where all draft alike, by drafter and length
        self._alone = self  # the times of one reply, where these are of several
        self._turns = defaultdict[int, JointTurns](JointTurns)  # by `replies_class`
        keys = [(drafter, length) for drafter, prior in enumerate(self.drafters) for length in prior.prices]
        self._place = {key: place for place, key in enumerate(keys, FIRST_PRICE)}
        self._drift = FORGOTTEN * _price_covariance(keys)
        self._drift[PLAIN, PLAIN] = PLAIN_DRIFT**2
        self._class, self._clock = 0, _Clock()
        self._belief = self._prior(0)

    def copy(self, learns: bool = True) -> StepTimes:
        """Returns the same times apart from these, and whether they go on learning."""
        of_several = {number: times.copy(learns) for number, times in self.of_several.items()}
        made = StepTimes(self.drafters, deepcopy(self.learnt), learns, of_several)
        made._turns = self._turns
        return made

    def for_reply(self) -> StepTimes:
        """Returns these times as one of several replies at once goes by them: what they teach it, all have learnt."""
        made = copy(self)
        made._alone = made
        return made

    def for_replies(self, replies: int) -> StepTimes:
        """Returns the times of rounds that so many replies take part in; these are those of one."""
        number = replies_class(replies)
        if number == 1:
            return self
        times = self.of_several.setdefault(number, StepTimes(self.drafters, learns=self.learns)).for_reply()
        times.replies, times._alone = replies, self
        times._even_ratios = {
            (drafter, n): prior.turn_ratio((n,) * replies, number)
            for drafter, prior in enumerate(self.drafters)
            for n in (0, *prior.prices)
        }
        return times

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
        if self.replies > 1 and self._class in self.learnt:
            self._belief = self.learnt[self._class]  # that of all replies at once
            return
        self._belief = deepcopy(self.belief_after(context))
        self.elapse(NEXT_PRICES)
        self._belief.covariance[PLAIN, PLAIN] += NEXT_REPLY**2

    def reach(self, context: int) -> None:
        """Goes on after `context` tokens, which may be many more than at the last round."""
        if (number := context_class(context)) == self._class:
            return
        if self.replies > 1:
            self.begin(context)
            return
        plain = self._belief.mean[PLAIN]
        self._class, self._belief = number, deepcopy(self.belief_after(context))
        self._belief.mean[PLAIN] = plain
        self.elapse(NEXT_CLASS)
        self._belief.covariance[PLAIN, PLAIN] += NEXT_REPLY**2

    @property
    def plain_s(self) -> float:
        """Seconds of a step in a run of plain ones."""
        return math.exp(self._belief.mean[PLAIN]) * self._even_ratios.get((0, 0), 1.0)

    @property
    def plain_doubt(self) -> float:
        """The standard deviation of the logarithm of `plain_s`; from 1 on nothing is known of it."""
        return self._deviation(PLAIN)

    @property
    def lone(self) -> float:
        """The price of a plain step that is not submitted ahead. For several replies at once it is taken to be 1, and
        `_between` counts it where few of them draft."""
        return math.exp(self._belief.mean[LONE]) if self.replies == 1 else 1.0

    @property
    def replay(self) -> float:
        """What a round takes more if it repeats tokens after a refusal, as a share of its price."""
        return math.exp(self._belief.mean[REPLAY]) - 1

    def price(self, drafter: int, length: int) -> float:
        """Returns the price of a round with a draft of `length`, one of the lengths of this drafter's prior."""
        price = math.exp(self._belief.mean[self._place[drafter, length]])
        return (
            price * self._even_ratios[drafter, length] / self._even_ratios[drafter, 0] if self._even_ratios else price
        )

    def drafting(self, drafter: int, length: int) -> float:
        """Returns how long a draft takes without its verify pass, in plain steps: by the prior, as rounds show only the
        sum of the two, but never more than the learnt price leaves for it."""
        return min(max(0.0, self.price(drafter, length) - 1), self.drafters[drafter].drafting(length))

    def turn_price(self, drafts: Sequence[tuple[int, int]]) -> float:
        """Returns the price of a turn of several replies. drafts: drafter and tokens of each."""
        drafter, places, weights, ratio = self._parts_of_turn(drafts)
        mean = math.exp(float((self._belief.mean[places] * weights).sum())) if places else 1.0
        return mean * ratio / self._even_ratios[drafter, 0]

    def _parts_of_turn(self, drafts: Sequence[tuple[int, int]]) -> tuple[int, list[int], list[float], float]:
        """Returns the drafter that the others of a turn wait for, the one whose draft takes longest by the prior; the
        prices of the mean length and their shares, see `_between`; and the `turn_ratio`. drafts: as in `turn_price`."""
        made = [draft for draft in drafts if draft[1]]
        drafter = max(made, key=lambda draft: self.drafters[draft[0]].drafting(draft[1]))[0] if made else 0
        lengths = sorted(length for _, length in drafts)
        ratio = self.drafters[drafter].turn_ratio(tuple(lengths), replies_class(self.replies))
        return drafter, *self._between(drafter, sum(lengths) / len(lengths)), ratio

    def doubt(self, drafter: int, length: int) -> float:
        """Returns the standard deviation of the logarithm of a price."""
        return self._deviation(self._place[drafter, length]) if self.learns else 0.0

    def _deviation(self, place: int) -> float:
        return math.sqrt(max(0.0, self._belief.covariance[place, place]))

    @property
    def turns(self) -> JointTurns:
        """The turns of as many replies as these times are of, whether or not their rounds teach anything."""
        return self._alone._turns[replies_class(self.replies)]

    def begin_turn(self) -> None:
        """Begins a turn for this reply, and learns from the one before if it took part in that: from the pass that all
        shared. Replies that teach others learn from each turn once, and one that does not by itself."""
        turns, self._belief = self.turns, self.learnt.get(self._class, self._belief)
        turns.begin(self.replies)
        if self._clock.turns == turns.count or self._alone not in turns.last:
            return
        self._clock.turns = turns.count
        self.elapse()
        if turns.timed:
            rounds = list(turns.last.values())
            _, places, weights, ratio = self._parts_of_turn([one[:2] for one in rounds])
            # Those that report later have waited for what the first has submitted meanwhile.
            if self._observe([PLAIN, *places], rounds[0].seconds / ratio, np.array([1.0, *weights])) and places:
                turns.compare()

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

    def _between(self, drafter: int, length: float) -> tuple[list[int], list[float]]:
        """Returns the prices that make up that of a length, and their shares of it; a length of 0 has none. However few
        of several replies draft, their turn takes what a plain one does that is not submitted ahead."""
        known = [0, *self.drafters[drafter].prices]
        length = min(length, known[-1])
        if not length:
            return [], []
        below, above = next(pair for pair in pairwise(known) if length <= pair[1])
        upper = (length - below) / (above - below)
        places = [self._place[drafter, n] if n else LONE for n in (below, above)]
        return places, [1 - upper, upper]

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

    def _observe(self, places: list[int], seconds: float, weights: Any = 1.0) -> bool:
        """The filter's update by a measurement of the weighted sum of these logarithms. A round that is later than
        the filter and the clock allow for counts as if it had been measured less exactly. Returns whether the last
        rounds were all much later than that, or all much earlier."""
        if not self.learns or not 0 < seconds < math.inf:
            return False
        self.learnt[self._class] = self._belief
        mean, covariance, clock = self._belief.mean, self._belief.covariance, self._clock
        surprise = math.log(seconds) - float((mean[places] * weights).sum())
        both, kind = np.outer(weights, weights), int(max(places) >= FIRST_PRICE)
        noise = min(clock.noise[kind:])  # what delays plain rounds delays drafted ones too
        spread = math.sqrt(float((covariance[np.ix_(places, places)] * both).sum()) + noise**2)
        if jumped := self._has_jumped(surprise / (OUTLIER * spread)):
            covariance[PLAIN, PLAIN] += JUMP**2
            self.elapse(JUMP_DRIFT)
        towards = (covariance[:, places] * weights).sum(axis=1)
        variance = float((towards[places] * weights).sum())
        spread = math.sqrt(variance + noise**2)
        gain = towards / (variance + (noise * max(1.0, surprise / (OUTLIER * spread))) ** 2)
        mean += gain * surprise
        covariance -= np.outer(gain, towards)
        least = LONE + int(np.argmin(mean[LONE:]))
        if mean[least] < 0:  # nothing is quicker than a plain step within a run
            mean -= covariance[:, least] / covariance[least, least] * mean[least]
            mean[LONE:] = np.maximum(mean[LONE:], 0)
        own = noise**2 / (variance + noise**2)  # how much of a surprise is the clock's doing
        deviation = min(max(DEVIATION * abs(surprise), MIN_NOISE), OUTLIER * noise, MAX_NOISE)
        clock.noise[kind] = noise + NOISE_WEIGHT * own * (deviation - noise)
        return jumped

    def _has_jumped(self, surprise: float) -> bool:
        """Returns whether the last few rounds were all much longer, or all much shorter, than expected: then the
        machine has another speed now. surprise: beyond 1 or -1 where a round is an outlier."""
        clock = self._clock
        if abs(surprise) < 1:
            clock.outliers = 0
        else:
            clock.outliers = max(1, clock.outliers + 1) if surprise > 0 else min(-1, clock.outliers - 1)
        jumped = abs(clock.outliers) >= JUMP_ROUNDS
        clock.outliers = 0 if jumped else clock.outliers
        return jumped

    def place(self, drafter: int, length: int) -> int:
        """Returns the place of a price in the state."""
        return self._place[drafter, length]

    def belief_after(self, context: int) -> Belief:
        """Returns what was learnt after contexts of about this length, else the prior."""
        if not self.learnt:
            return self._prior(context)
        number = context_class(context)
        return self.learnt[min(self.learnt, key=lambda known: (abs(known - number), known))]

    def _prior(self, context: int) -> Belief:
        if self._alone is not self:
            return self._prior_of_several(self._alone.belief_after(context))
        prices = [price for prior in self.drafters for price in prior.prices.values()]
        mean = np.log(np.array([1.0, LONE_PRICE, 1.0, *prices]))
        covariance = _price_covariance(list(self._place))
        covariance[PLAIN, PLAIN] = UNKNOWN**2
        return Belief(mean, covariance)

    def _prior_of_several(self, alone: Belief) -> Belief:
        """Returns what is taken to hold for several replies, given what is known of one."""
        mean, covariance = alone.mean.copy(), _price_covariance(list(self._place))
        for drafter, prior in enumerate(self.drafters):
            known = {n: math.exp(alone.mean[self._place[drafter, n]]) for n in prior.prices}
            plain, *drafted = prior.for_replies(known, replies_class(self.replies)).values()
            for n, price in zip(known, drafted, strict=True):
                mean[self._place[drafter, n]] = math.log(price / plain)
            if drafter == 0:
                mean[PLAIN] += math.log(plain)
        covariance[PLAIN, PLAIN] = alone.covariance[PLAIN, PLAIN]
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


def replies_class(replies: int) -> int:
    """Returns the class of a number of replies at once: 1, 2, 4 for 3 and 4, 8 for 5 to 8, and so on."""
    return 1 << (max(1, replies) - 1).bit_length()


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
