"""Which drafter drafts how many tokens in each round, so that a reply is fast and at worst slightly slower than plain
decoding.

Each round takes the draft with the most expected tokens for its price. Prices are in plain steps: 1.0 is the time of
one step in a run of plain ones. They are learnt from the rounds (`StepTimes`), and so are the expected tokens
(`ExpectedLength`). What may be lost in finding out is bounded by a budget. Where drafting does not pay, a drafter is
probed now and then, less and less often as probes fail; where it seems to pay, plain steps are, as long as it is in
doubt.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from engine import together
from engine.events import Round
from engine.policy import Plan
from engine.policy.expected_length import AcceptanceCounts, ChainExpectedLength, ExpectedLength
from engine.policy.joint_turns import PlanAmong, RoundAmong
from engine.policy.step_times import StepTimes

BUDGET_SHARE = 0.01  # of the tokens so far, what drafting may lose
BUDGET_START, MAX_BUDGET_START = 0.03, 3.0  # of the tokens of the whole reply, and at most this many plain steps
MAX_BUDGET = 15.0  # plain steps that gains may add up to
AT_ONCE = 0.5  # of the budget that one round may risk where a shorter draft pays too: one refusal must not end drafting
PROBE_SOONEST, PROBE_LATEST = 1.0, 16.0  # rounds between probes
PROBE_BACKOFF = 2.0
PLAIN_SOONEST, PLAIN_LATEST = 8, 64  # drafted rounds after which plain steps are due where drafting may not pay
PLAIN_RUN = 5  # steps then, and at the beginning where nobody knows what one takes
TELLING_RUN = 3  # steps where drafting surely pays: the shortest run that has a step within it, which is timed exactly
# A reply of at most so many tokens begins with one plain step in place of a run. Where drafts begin to pay after others
# did not, its first comparison comes after twice as many of them.
SHORT_REPLY = 100
SURE_FOR = 100  # drafted rounds more where drafting pays: what a plain step takes may have changed meanwhile
SHORT_RUN = 2  # plain steps that are timed together, as none of them is within a run
HOPE = 1.0  # standard deviations by which a price is taken to be lower than expected: what is unknown is worth a try
HORIZON = 256  # tokens; a shorter reply, which has less to gain, hopes for less when it chooses a draft length
DOUBT = 2.0  # standard deviations within which drafting must pay, or plain steps are due
SETTLED = 0.08  # standard deviation that more rounds hardly make smaller: no reason to hope
MUCH_DOUBT = 0.25  # about a price: the first round, which nobody can time, is then better a plain one
TOLD = 0.15  # how well a plain step must be known to be told, as a logarithm
READING, MAX_READING = 1 / 16, 8.0  # of drafting the first token: for a token that was missed; for all
BEST_ACCEPTANCE = 0.97  # a drafter that does not pay even then is not used, so it need not read the prompt
TOO_RISKY = "a refused draft would slow this short reply down too much"
PROBING = "probing: is drafting worth it again?"
COMPARING = "comparing: how long does a plain step take?"
NOT_WORTHWHILE = "drafting is not worthwhile here"


class SlowdownBudget:
    """What drafting may still lose against plain decoding, in plain steps.

    A round is drafted only if what is left covers the worst case, no token accepted. So a reply of n tokens takes
    longer than plain decoding by hardly more than BUDGET_SHARE * n + MAX_BUDGET_START steps. tokens: that the reply may
    have at most.
    """

    def __init__(self, tokens: float = math.inf) -> None:
        self.left = min(BUDGET_START * tokens, MAX_BUDGET_START)

    def book(self, tokens: int, price: float) -> None:
        """Books a round that had this price and gave this many tokens."""
        self.left = min(self.left + tokens * (1 + BUDGET_SHARE) - price, MAX_BUDGET)


@dataclass
class Candidate:
    """A drafter that a round may use. counts: of its accepted tokens, over replies; None where none are kept, as in
    simulations."""

    name: str
    expected_length: ExpectedLength = field(default_factory=ChainExpectedLength)
    counts: AcceptanceCounts | None = None

    def __post_init__(self) -> None:
        self.lengths = [length for length in self.expected_length.expected(None) if length]
        self.unread = 1  # committed tokens that it has not read: the last one, and those of rounds without it
        self.until_probe = self.probe_interval = PROBE_SOONEST  # in rounds

    def drafted(self, round_: Round, may_pay: bool = True) -> None:
        """Sets when the next probe may be, by what came of a draft. may_pay: False for a probe that did not pay, even
        if all of it was accepted, and for every probe of several replies at once."""
        later = min(self.probe_interval * PROBE_BACKOFF, PROBE_LATEST)
        self.probe_interval = PROBE_SOONEST if round_.accepted and may_pay else later
        self.until_probe, self.unread = self.probe_interval, len(round_.tokens)


@dataclass(frozen=True)
class _Choice:
    """A draft that could be made. speed: expected tokens for its price, plain decoding being 1. sure: whether it is
    above 1 beyond reasonable doubt."""

    drafter: int = 0
    length: int = 0
    speed: float = 0.0
    probing: bool = False
    sure: bool = True


class Adaptive:
    """The policy of one reply after a prompt of `context` tokens. times: of its candidates, in this order. at_once:
    tells how many replies take part in rounds now.

    Once `next_is_plain` said so, a plain round is submitted before the one before it is known. Nobody plans it then:

        round        1 drafted   2 plain    3 plain    4 plain    5 drafted
        planned      yes         yes        no         no         yes
        followed     no          yes        yes        no         no
        price        its own     lone       1          1          its own
    """

    def __init__(
        self,
        candidates: Sequence[Candidate],
        times: StepTimes,
        context: int = 0,
        at_once: Callable[[], int] = lambda: 1,
    ) -> None:
        self._candidates, self._times, self._context = list(candidates), times, context
        self._alone, self._at_once = times, at_once
        times.begin(context)
        self._hints: Sequence[float | None] = [None] * len(self._candidates)
        self._budget, self._hope, self._first_run = SlowdownBudget(), HOPE, PLAIN_RUN
        self._choice = _Choice()
        self._time_s = math.nan  # of the last round
        self._planned = False  # whether this round was planned, or submitted since `next_is_plain` said so
        self._followed = False  # whether a round was submitted before this one was waited for
        self._tried = False  # whether this reply has had a draft
        self._until_plain = self._plain_interval = self._soonest = PLAIN_SOONEST  # drafted rounds
        self._plain_left = 0  # rounds of a run of plain ones
        self._run, self._run_s, self._run_replayed = 0, 0.0, False  # plain rounds in a row, and their seconds

    @property
    def plain_s(self) -> float | None:
        """Seconds of a plain step as the rounds so far tell; None where they do not tell it well."""
        return self._times.plain_s if self._times.plain_doubt < TOLD else None

    @property
    def is_useful(self) -> bool:
        """Whether any draft may pay if nearly all of it is accepted."""
        return any(self._useful(drafter) for drafter in range(len(self._candidates)))

    def begin(self, tokens: int) -> None:
        self._budget, self._tried = SlowdownBudget(tokens), False
        self._hope = HOPE * min(1.0, tokens / HORIZON)
        is_short = tokens <= SHORT_REPLY
        self._first_run, self._soonest = (1, 2 * PLAIN_SOONEST) if is_short else (PLAIN_RUN, PLAIN_SOONEST)
        self._follow_replies()

    @property
    def _replies(self) -> int:
        """How many replies take part now; 1 where the rounds of this one must repeat, as it then asks nobody."""
        return max(1, self._at_once()) if self._alone.learns else 1

    def _follow_replies(self) -> None:
        """Goes by the times for as many replies as take part now."""
        if self._replies != self._times.replies:
            self._times, self._time_s = self._alone.for_replies(self._replies), math.nan
            self._times.begin(self._context)

    def plan(self, hints: Sequence[float | None] = ()) -> Plan:
        self._follow_replies()
        if self._times.replies > 1:
            self._times.begin_turn()
        plan = self._plan(hints)
        if self._times.replies > 1:
            drafter, probing = self._choice.drafter, self._choice.probing
            expected = self._tokens(drafter) if self._hints[drafter] != 0 else {0: 1.0}
            sure = self._choice.sure and not probing
            among = PlanAmong(drafter, plan.length, expected, self._budget.left, sure, probing)
            self._times.turns.plan(self._alone, among)
        return plan

    def _plan(self, hints: Sequence[float | None]) -> Plan:
        self._hints, self._planned = hints or [None] * len(self._candidates), True
        choices = [self._best(drafter) for drafter in range(len(self._candidates))]
        choice = max(choices, key=lambda one: (one.length > 0, not one.probing, one.speed))
        if choice.length and self._should_compare(choice):
            self._choice = _Choice(choice.drafter)
            self._plain_left = self._plain_run(choice)
            return Plan(0, COMPARING)
        self._choice = choice
        if not choice.length:
            return Plan(0, TOO_RISKY if self._is_too_risky() else NOT_WORTHWHILE)
        reason = PROBING if choice.probing else f"expects {choice.speed:.2f}x plain speed"
        if len(self._candidates) == 1:
            return Plan(choice.length, reason)
        return Plan(choice.length, f"{self._candidates[choice.drafter].name}: {reason}", choice.drafter)

    def observe(self, round_: Round) -> None:
        if not self._planned:
            self._choice = _Choice(self._choice.drafter)
        self._observe_time(round_)
        self._budget.book(len(round_.tokens), self._price(round_))
        self._learn(round_)
        self._end(round_)

    def _end(self, round_: Round) -> None:
        self._planned = self._followed = False
        self._plain_left -= 1
        self._context += len(round_.tokens)
        self._times.reach(self._context)

    def _pass_tokens(self, round_: Round) -> None:
        """Lets the tokens of a round pass for every candidate."""
        for each in self._candidates:
            each.unread += len(round_.tokens)
            each.until_probe -= 1
            each.expected_length.elapse(len(round_.tokens))

    def skip(self, round_: Round) -> None:
        self._time_s = round_.time_s
        if self._times.replies > 1:
            self._times.turns.current[self._alone] = RoundAmong(0, len(round_.drafted), math.nan)
        else:
            self._times.elapse()
        self._pass_tokens(round_)
        self._end(round_)

    def next_is_plain(self, hints: Sequence[float | None] = ()) -> bool:
        if max(self._replies, self._times.replies) > 1:
            self._followed = self._replies == self._times.replies and self._goes_ahead(hints)
            return self._followed
        known = [hint for hint in hints if hint is not None]
        has_nothing = bool(known) and not any(known)
        drafters = range(len(self._candidates))
        self._followed = self._plain_left > 1 or not any(self._may_draft_next(one, has_nothing) for one in drafters)
        return self._followed

    def _goes_ahead(self, hints: Sequence[float | None]) -> bool:
        """Returns whether this one of several replies submits its next round ahead. It is ready for that unless a
        drafter has found something that would pay, or would draft two turns from now, when drafts may be tried."""
        follows, turns = not self._planned, self._times.turns
        if follows:
            self._times.begin_turn()
            turns.keep_plan(self._alone)
            self._hints = hints or self._hints
        may_probe = turns.may_probe(2)
        has_news = [hint != 0 and (may_probe or (follows and hint is not None)) for hint in self._hints]
        ready = not any(news and self._best(drafter, rounds=2).length for drafter, news in enumerate(has_news))
        return turns.goes_ahead(self._alone, ready)

    def _may_draft_next(self, drafter: int, has_nothing: bool) -> bool:
        """Returns whether the round after this plain one may be drafted. It is not yet known what a drafter that
        gives hints will say then, unless `has_nothing`, so it may if the budget covers it."""
        if self._hints[drafter] is None:
            return self._best(drafter, rounds=1).length > 0
        return not has_nothing and bool(self._affordable(drafter))

    def _best(self, drafter: int, rounds: int = 0) -> _Choice:
        """Returns the best draft of this drafter this many plain rounds from now; of length 0 if none pays and none is
        due as a probe."""
        candidate, hint = self._candidates[drafter], self._hints[drafter]
        lengths = self._affordable(drafter) if hint != 0 else []
        if not lengths:
            return _Choice(drafter)
        expected = self._tokens(drafter)
        if self._times.replies > 1:
            best = self._length_among(drafter, expected, lengths)
        else:
            refusals = {n: self._refusal(n, expected[n]) for n in lengths}
            hopes = {n: expected[n] / (self._round_price(drafter, n, self._hope) + refusals[n]) for n in lengths}
            paying = [n for n in lengths if expected[n] > self._round_price(drafter, n, HOPE) + refusals[n]]
            hope = HOPE if self._tried else -HOPE  # a first draft may take longer than expected
            modest = [n for n in self._affordable(drafter, AT_ONCE, hope) if n in paying]
            best = max(modest or paying, key=lambda n: hopes[n], default=0)
        if best:
            speed = expected[best] / self._round_price(drafter, best)
            sure = speed * math.exp(-DOUBT * self._times.doubt(drafter, best)) > 1
            return _Choice(drafter, best, speed, sure=sure)
        if candidate.until_probe > rounds or not (self._times.replies == 1 or self._times.turns.may_probe(rounds)):
            return _Choice(drafter)
        least = min(lengths, key=lambda n: self._round_price(drafter, n) - expected[n])
        return _Choice(drafter, least, expected[least] / self._round_price(drafter, least), probing=True)

    def _length_among(self, drafter: int, own: Mapping[int, float], lengths: Sequence[int]) -> int:
        """Returns the draft length that brings several replies at once most tokens for the time of their pass, if the
        others draft what they planned last, or if all with this drafter draft the same: since each knows what the
        others expect, they come to the same choice. own: the tokens that this reply expects, by draft length.

        Most is the highest geometric mean over the replies, so that no reply becomes quicker by a share while others
        become slower by more: proportional fairness (Kelly 1997, "Charging and rate control for elastic traffic")."""
        plans = self._times.turns.others(self._alone)
        unknown = [(drafter, 0)] * (self._times.replies - 1 - len(plans))  # begin in this turn, and wait for no draft

        def speed(length: int, theirs: list[tuple[int, int]]) -> float:
            tokens = [own[length], *(plan.tokens(n) for plan, (_, n) in zip(plans, theirs, strict=True))]
            drafts = [(drafter, length), *theirs, *unknown]
            return math.prod(tokens) ** (1 / len(drafts)) / self._times.turn_price(drafts)

        planned = [(plan.drafter, plan.drafted) for plan in plans]
        same = [plan.drafter == drafter or not plan.drafted for plan in plans]

        def alike(length: int) -> list[tuple[int, int]]:
            return [(drafter, length) if one else plan for one, plan in zip(same, planned, strict=True)]

        choices = {n: max(speed(n, planned), speed(n, alike(n))) for n in (0, *lengths)}
        return max(choices, key=lambda n: choices[n])

    def _tokens(self, drafter: int) -> dict[int, float]:
        """Returns the expected tokens of a round of this reply by draft length, 0 being a plain one."""
        return {0: 1.0, **self._candidates[drafter].expected_length.expected(self._hints[drafter])}

    def _should_compare(self, choice: _Choice) -> bool:
        """Returns whether a plain step is due: nobody knows how long one takes, or drafting may not pay."""
        if self._times.replies > 1:
            return self._times.turns.all_plain
        if math.isnan(self._time_s):  # the first round cannot be timed, as it reads the prompt too
            return self._times.doubt(choice.drafter, choice.length) > MUCH_DOUBT
        due = self._until_plain <= (-SURE_FOR if choice.sure and self.plain_s is not None else 0)
        return self._times.learns and (due or self._times.plain_doubt >= 1)

    def _plain_run(self, choice: _Choice) -> int:
        """Returns how many plain steps are due in place of this draft."""
        if self._times.replies > 1:
            return 1
        if self._times.plain_doubt >= 1:
            return self._first_run
        if not (choice.sure and self._tried):
            return PLAIN_RUN
        return 1 if self.plain_s is not None else TELLING_RUN

    def _useful(self, drafter: int) -> list[int]:
        """Returns the draft lengths that may pay if nearly all of them are accepted."""
        most = {n: (1 - BEST_ACCEPTANCE ** (n + 1)) / (1 - BEST_ACCEPTANCE) for n in self._candidates[drafter].lengths}
        return [n for n, tokens in most.items() if tokens > self._hopeful_price(drafter, n, DOUBT)]

    def _affordable(self, drafter: int, share: float = 1.0, hope: float = HOPE) -> list[int]:
        """Returns the useful draft lengths that this share of the budget covers, with the plain step after such a
        round, which takes longer than one in a run. A round brings at least one token, which is worth 1. hope: as in
        `_round_price`; below 0 prices are taken to be higher."""
        next_step = self._times.lone * (1 + self._times.replay) - 1
        most = 1 + share * self._budget_left() - next_step - self._reading_at_most(drafter)
        return [n for n in self._useful(drafter) if self._hopeful_price(drafter, n, hope) <= most]

    def _budget_left(self) -> float:
        """Returns what a draft may lose, in plain steps: of several replies at once the mean, as it is not likely that
        the drafts of all are refused."""
        others = self._times.turns.others(self._alone) if self._times.replies > 1 else []
        return (self._budget.left + sum(one.budget for one in others)) / (1 + len(others))

    def _is_too_risky(self) -> bool:
        """Whether nothing was drafted so far because the budget of this reply covers no refused draft."""
        useful = [drafter for drafter, hint in enumerate(self._hints) if hint != 0 and self._useful(drafter)]
        return bool(useful) and not self._tried and not any(map(self._affordable, useful))

    def _round_price(self, drafter: int, length: int, hope: float = 0.0) -> float:
        """Returns the price of a round, with what the drafter must read first. hope: standard deviations by which it
        is taken to be lower than expected."""
        return self._hopeful_price(drafter, length, hope) + self._reading(drafter)

    def _hopeful_price(self, drafter: int, length: int, hope: float) -> float:
        doubt = max(0.0, self._times.doubt(drafter, length) - SETTLED)
        return self._times.price(drafter, length) * math.exp(-hope * doubt)

    def _refusal(self, length: int, expected: float) -> float:
        """Returns how many plain steps longer the next round is expected to take after refusals, where layers repeat
        tokens then."""
        return self._times.replay * max(0.0, 1 - (expected - 1) / length)

    def _reading(self, drafter: int) -> float:
        """Returns the price of reading the tokens that a drafter has missed, which is that of this reply alone."""
        return self._missed(drafter) * self._alone.drafting(drafter, self._candidates[drafter].lengths[0])

    def _reading_at_most(self, drafter: int) -> float:
        """Returns what `_reading` would be if all that a draft adds to a plain step were the drafter's own time."""
        first = self._alone.price(drafter, self._candidates[drafter].lengths[0]) - 1
        return self._missed(drafter) * max(0.0, first)

    def _missed(self, drafter: int) -> float:
        """Returns how many times as long as drafting its first token a drafter reads what it has missed."""
        return min(READING * (self._candidates[drafter].unread - 1), MAX_READING)

    def _price(self, round_: Round) -> float:
        """Returns the price of a round as it came out: a drafter may propose less than was planned."""
        first, replays = math.isnan(self._time_s), 1 + self._times.replay * _has_replay(round_)
        if not self._choice.length:
            return (self._times.lone if self._planned and not first else 1.0) * replays
        length = self._drafted_length(round_)
        if not length:
            return self._times.lone * replays
        return self._times.price(self._choice.drafter, length) * replays + self._reading(self._choice.drafter)

    def _drafted_length(self, round_: Round) -> int:
        """Returns the largest known draft length that is not above that of a round."""
        lengths = self._candidates[self._choice.drafter].lengths
        return max((n for n in lengths if n <= len(round_.drafted)), default=0)

    def _observe_time(self, round_: Round) -> None:
        """Learns from the time since the last round of this reply. Where submitting waits for the device, the first of
        a run of plain rounds is reported a pass late and the last a pass early."""
        seconds, self._time_s = round_.time_s - self._time_s, round_.time_s
        drafter, replayed = self._choice.drafter, _has_replay(round_)
        if self._times.replies > 1:
            # Of rounds that are submitted ahead, the first is reported a pass late and the last a pass early.
            is_first_or_last = self._planned == self._followed
            if is_first_or_last or together.others_read() or self._replies != self._times.replies:
                seconds = math.nan
            self._times.turns.current[self._alone] = RoundAmong(drafter, len(round_.drafted), seconds)
            return
        self._times.elapse()
        if math.isnan(seconds):
            return
        if self._choice.length:
            self._run = SHORT_RUN  # if it came out plain, it took more, and so does the run that it begins
            length, reading = self._drafted_length(round_), self._reading(drafter)
            if length and self._times.observe_draft(drafter, length, seconds, replayed, reading):
                self._until_plain = -SURE_FOR  # a plain step tells whether drafts or all rounds take another time
        else:
            self._observe_plain(seconds, replayed)

    def _observe_plain(self, seconds: float, replayed: bool) -> None:
        """Learns from a plain round: by itself within a long run, else from the whole run once it ends."""
        if self._planned:
            self._run, self._run_s, self._run_replayed = 0, 0.0, replayed
        self._run, self._run_s = self._run + 1, self._run_s + seconds
        if self._followed and self._run > 1:
            self._times.observe_plain(seconds)
        elif not self._followed and self._run <= SHORT_RUN:
            self._times.observe_run(self._run, self._run_s, self._run_replayed)

    def _learn(self, round_: Round) -> None:
        """Learns how many tokens a draft brings, and when the next probe is due."""
        candidate, hint = self._candidates[self._choice.drafter], self._hints[self._choice.drafter]
        if round_.drafted:
            candidate.expected_length.learn(round_, hint)
            if candidate.counts is not None and hint is None:
                candidate.counts.add(round_)
        paid = self._times.replies == 1 and len(round_.tokens) > self._price(round_)
        self._pass_tokens(round_)
        if round_.drafted:
            self._tried = True
            candidate.drafted(round_, may_pay=paid or not self._choice.probing)
            self._until_plain -= 1
        elif self._planned:
            if self._plain_left > 0:
                self._plain_interval = min(2 * self._plain_interval, PLAIN_LATEST)
            elif not self._choice.length and hint != 0:  # there could have been a draft, but none paid
                self._plain_interval = self._soonest
            self._until_plain = self._plain_interval


def _has_replay(round_: Round) -> bool:
    """Returns whether the pass of a round repeated tokens after a refusal. Fixed blocks have other rows too."""
    return round_.width > len(round_.drafted) + 1 and not round_.fingerprints
