"""The turns of several replies at once: what each of them plans, what came of it, and which turns tell a time."""

from __future__ import annotations

import math
from collections.abc import Hashable, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

UNSETTLED, PLAIN_TURNS, MAX_PLAIN = 4, 3, 14  # plain ones that tell nothing yet, those timed after them, and the most
PLAIN_EVERY, PLAIN_EVERY_IF_SURE = 64, 192  # from one run of plain ones to the next, and where drafts surely pay
QUIET_TURNS = 4  # in a row without drafts but probes, after which replies submit their rounds ahead
PROBE_EVERY = 8  # a draft that may not pay is made only in one of so many


@dataclass(frozen=True)
class PlanAmong:
    """What one of several replies at once is about to draft. drafter: by its place. drafted: tokens. expected: tokens
    that a round gives, the target's own included, by draft length. budget: plain steps that the reply may still lose.
    sure: whether the draft pays beyond reasonable doubt. probing: whether it may not pay."""

    drafter: int
    drafted: int
    expected: Mapping[int, float]
    budget: float
    sure: bool = True
    probing: bool = False

    def tokens(self, length: int) -> float:
        """Returns the expected tokens of a round with the longest draft that is not above `length`."""
        return self.expected[max(known for known in self.expected if known <= length)]


class RoundAmong(NamedTuple):
    """A round of one of several replies at once. drafter: by its place. drafted: tokens. seconds: since its last round,
    NaN where that is not what such a turn takes."""

    drafter: int
    drafted: int
    seconds: float


@dataclass
class Turns:
    """The rounds of several replies at once that were one pass. In each turn all plan that have no round submitted
    ahead, before any of them tells of its round. Keys are the replies: the `StepTimes` that each goes by when
    it is alone.

    current: rounds that have been told of. last: those of the turn before. planned: the latest plan of each reply that
    takes part, and the turn that it was for. replies: how many take part. ready: those that would submit their next
    round ahead; were_ready: those of the turn before. count: turns that are over. plain: the latest turns in a row in
    which nobody drafted; quiet: those in which nobody did so except as a probe. next_plain: the count at which the next
    run of plain turns begins. plain_left: how many turns of it must still be timed. sure: whether all drafts of the
    last turn that had any were sure to pay. tells: whether the last turn tells how long such turns take.
    """

    current: dict[Hashable, RoundAmong] = field(default_factory=dict)
    last: dict[Hashable, RoundAmong] = field(default_factory=dict)
    planned: dict[Hashable, tuple[int, PlanAmong]] = field(default_factory=dict)
    replies: int = 0
    ready: set[Hashable] = field(default_factory=set)
    were_ready: set[Hashable] = field(default_factory=set)
    count: int = 0
    plain: int = 0
    next_plain: int = 0
    plain_left: int = PLAIN_TURNS
    sure: bool = True
    quiet: int = 0
    tells: bool = False

    def begin(self, replies: int) -> None:
        """Begins a turn of so many replies, unless another of them has done so."""
        if self.current:
            self.current, self.last = {}, self.current
            self.ready, self.were_ready = set(), self.ready
            self.count += 1
            self.planned = {one: (turn, plan) for one, (turn, plan) in self.planned.items() if turn >= self.count - 1}
            self._judge_last()
        self.replies = replies

    def _judge_last(self) -> None:
        rounds = self.last.values()
        self.plain = 0 if any(one.drafted for one in rounds) else self.plain + 1
        timed = len(rounds) == self.replies and not any(math.isnan(one.seconds) for one in rounds)
        self.tells = timed and (self.plain == 0 or self.plain > UNSETTLED)
        timed_plain = self.plain > 0 and self.tells
        self.plain_left -= timed_plain
        drafted = [plan for _, plan in self.planned.values() if plan.drafted]
        self.sure = all(plan.sure for plan in drafted) if drafted else self.sure
        over = timed_plain and self.plain_left == 0  # a run of plain turns, after which all plan
        self.quiet = self.quiet + 1 if all(plan.probing for plan in drafted) and not over else 0
        if self.count >= self.next_plain + (MAX_PLAIN if self.plain_left > 0 else 0):
            self.next_plain = self.count + (PLAIN_EVERY_IF_SURE if self.sure else PLAIN_EVERY)
            self.plain_left = PLAIN_TURNS
