"""The turns of several replies at once, which share one pass each: what every reply plans, what came of it, and which
turns are timed."""

from __future__ import annotations

import math
from collections.abc import Hashable, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

UNSETTLED, PLAIN_TURNS, MAX_PLAIN = 4, 3, 14  # plain turns that are not timed yet, those timed after them, and the most
PLAIN_EVERY, PLAIN_EVERY_IF_SURE = 64, 192  # turns from one run of plain ones to the next, and where drafts surely pay
QUIET_TURNS = 4  # in a row without drafts other than probes, after which replies submit their rounds ahead
PROBE_EVERY = 16  # a draft that may not pay is made only in one of so many


@dataclass(frozen=True)
class PlanAmong:
    """What one of several replies at once is about to draft. drafter: by its place. drafted: tokens. expected: tokens
    that a round gives, the target's own included, by draft length. budget: plain steps that the reply may still lose.
    sure: whether the draft pays beyond reasonable doubt. probing: whether it is a probe."""

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
    NaN if something other than one such turn lies in between."""

    drafter: int
    drafted: int
    seconds: float


@dataclass
class JointTurns:
    """The turns of several replies whose number is of one class. In each turn, those that have no round submitted ahead
    plan before any reply reports its round. Keys are the replies: the `StepTimes` that each goes by when it is alone.

    current: rounds that have been reported. last: those of the turn before. planned: the latest plan of each reply that
    takes part, and the turn that it was for. replies: how many take part. ready: those that would submit their next
    round ahead; were_ready: those of the turn before. count: turns that are over. plain: the latest turns in a row in
    which nobody drafted; quiet: those in which nobody did so except as a probe. next_plain: the count at which the next
    run of plain turns begins. plain_left: how many turns of it must still be timed. sure: whether all drafts of the
    last turn that had any were sure to pay. timed: whether the last turn shows how long such turns take.
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
    timed: bool = False

    @property
    def all_plain(self) -> bool:
        """Whether it is time for all to go without drafts in the same turns, which shows what a plain one takes."""
        return self.count >= self.next_plain

    def may_probe(self, turns: int) -> bool:
        """Whether the turn that comes so many turns from now may hold a draft that may not pay: all wait for it, so
        they probe in the same turns."""
        return (self.count + turns) % PROBE_EVERY == 0

    def compare(self) -> None:
        """Begins a run of plain turns, if none is under way: the machine seems to have another speed now."""
        self.next_plain = min(self.next_plain, self.count)

    def plan(self, reply: Hashable, plan: PlanAmong) -> None:
        """Takes what a reply plans for this turn, so that the others can choose what serves all of them best."""
        self.planned[reply] = self.count, plan

    def keep_plan(self, reply: Hashable) -> None:
        """Takes the last plan of a reply for this turn too, as its round was submitted ahead."""
        if reply in self.planned:
            self.plan(reply, self.planned[reply][1])

    def others(self, reply: Hashable) -> list[PlanAmong]:
        """Returns what the other replies planned last: those that plan before this one, already for the turn that it
        plans for. So each improves on what the others do, and their choices settle."""
        return [plan for other, (_, plan) in self.planned.items() if other is not reply]

    def goes_ahead(self, reply: Hashable, ready: bool) -> bool:
        """Takes whether a reply is ready to submit its next round ahead, and returns whether it does: if nobody has
        drafted for some turns except as a probe, and all were ready in the turn before. So all go ahead in the same
        turns and plan again in the same: one that went ahead alone would have a pass to itself, which reads all weights
        for one row."""
        if ready:
            self.ready.add(reply)
        drafts = any(plan.drafted for _, plan in self.planned.values())
        return self.quiet >= QUIET_TURNS and not drafts and len(self.were_ready) >= self.replies

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
        complete = len(rounds) == self.replies and not any(math.isnan(one.seconds) for one in rounds)
        self.timed = complete and (self.plain == 0 or self.plain > UNSETTLED)
        timed_plain = self.timed and self.plain > 0
        self.plain_left -= timed_plain
        drafted = [plan for _, plan in self.planned.values() if plan.drafted]
        self.sure = all(plan.sure for plan in drafted) if drafted else self.sure
        run_ends = timed_plain and self.plain_left == 0  # then all plan again
        self.quiet = self.quiet + 1 if all(plan.probing for plan in drafted) and not run_ends else 0
        if self.count >= self.next_plain + (MAX_PLAIN if self.plain_left > 0 else 0):
            self.next_plain = self.count + (PLAIN_EVERY_IF_SURE if self.sure else PLAIN_EVERY)
            self.plain_left = PLAIN_TURNS
