"""Replies of known acceptance on machines of known times, to judge a policy against the best fixed length in hindsight.

    python -m tests.engine.policy.simulation [--world NAME] [--factor X] [--tokens N] [--at-once N]

A text is a list of flags: whether a drafter that has everything before it right gets this token right. All policies
meet the same texts, so the best fixed length is that of this very text, luck included. Prices are in plain passes.
"""

from __future__ import annotations

import argparse
import math
import random
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from itertools import count, product
from statistics import mean

from engine.events import Round
from engine.policy import Policy
from engine.policy.adaptive import Adaptive, Candidate
from engine.policy.expected_length import AcceptanceCounts, ChainExpectedLength
from engine.policy.fixed import FixedLength
from engine.policy.step_times import CPU_PASSES, GPU_PASSES, PriorPrices, StepTimes
from tests.engine.policy.machine_times import MachineTimes

TOKENS, LONGEST = 256, 8
LATER = 2  # replies one after another, of several at once, that teach those that are judged
FLAT = MachineTimes(
    ((1, 1.0), (9, 1.1)), ((0, 0.0), (1, 0.02), (8, 0.16))
)  # rows and drafted tokens that cost next to nothing

# Verify pass of so many rows, the plain one being 1. The first eight as others have measured them on Apple Silicon, two
# of them whole models, the others a product of one; what they did not measure follows the steps of the kernels
# (engine/README.md, "How long passes take on Metal"). `here` is the built-in model on 2 cores of an AMD EPYC.
CURVES = {
    # ml-explore/mlx issue 4265, 5120 x 17408, before `qmv_wide`
    "M3 Ultra, 4 bit": ((1, 1.0), (2, 1.83), (4, 3.26), (7, 5.28), (8, 6.12), (9, 6.15)),
    # issue 3839, gate and up, and queries with keys and values, of an 8B model
    "M4 Pro": ((1, 1.0), (2, 1.03), (3, 1.22), (4, 1.47), (6, 2.07), (8, 2.69), (9, 3.0)),
    "M4 Pro, narrow": ((1, 1.0), (2, 1.25), (3, 1.48), (4, 1.14), (6, 1.47), (8, 1.73), (9, 1.95)),
    # issue 3852, 4 and 2 bits of a 27B model
    "M4 Pro, 27B": ((1, 1.0), (2, 1.0), (3, 1.13), (4, 1.43), (5, 1.75), (8, 2.84), (9, 3.6)),
    "M4 Pro, 2 bit": ((1, 1.0), (2, 1.30), (3, 1.82), (4, 2.34), (5, 2.86), (8, 4.53), (9, 5.9)),
    # pull request 3863, 5120 x 17408
    "M3 Max": ((1, 1.0), (2, 1.0), (4, 1.28), (6, 2.04), (8, 2.50), (9, 3.14)),
    # pull request 3791, the whole of a 70B model
    "M5 Max, 70B": ((1, 1.0), (3, 1.12), (5, 1.48), (8, 2.25), (9, 2.48)),
    # lablup/mlxcel pull request 1182, the whole of a 27B hybrid
    "27B hybrid": ((1, 1.0), (4, 1.29), (8, 2.46), (9, 2.5)),
    # no measurement: `qmv` reads the weights again for every row, and from 6 rows on `qmm` takes over
    "M1, M2": ((1, 1.0), (2, 1.7), (3, 2.4), (4, 3.1), (5, 3.8), (6, 4.0), (9, 4.0)),
    "here": ((1, 1.0), (2, 1.1), (6, 1.41), (17, 2.1)),
    "flat": ((1, 1.0), (9, 1.1)),
    "steep": ((1, 1.0), (2, 1.9), (3, 2.8), (9, 8.2)),
    "jump": ((1, 1.0), (2, 1.5), (9, 1.6)),  # from a product with a vector to one with a matrix
    "stepped": ((1, 1.0), (4, 1.05), (5, 2.0), (8, 2.05), (9, 3.0)),
}
# A plain step that is launched before the last has landed, where that was measured.
AHEAD = {"here": 0.85}
# A drafted token, of a plain pass.
DRAFTS = {"free": 0.0, "head": 0.05, "small model": 0.25, "as slow as the target": 1.0}
MIXED = ("20% right", "80% right", "0% right", "97% right")  # texts of replies at once
# The chance that a drafter gets token t of `TOKENS` right.
TEXTS: dict[str, Callable[[int], float]] = {
    **{f"{chance:.0%} right": lambda t, chance=chance: chance for chance in (0.0, 0.2, 0.3, 0.5, 0.7, 0.8, 0.9, 0.97)},  # type: ignore[misc]
    "drifting": lambda t: 0.5 + 0.45 * math.sin(t / TOKENS * 2 * math.pi),
    "bursts of 32": lambda t: 0.95 if (t // 32) % 2 else 0.05,
    "bursts of 64": lambda t: 0.95 if (t // 64) % 2 else 0.05,
}


@dataclass(frozen=True)
class Case:
    """One machine, drafter and kind of text, over replies that learn from each other. slowest: of them against plain
    decoding; first, later: the first one, and the mean from the third on, against the best fixed length of each text,
    its luck included."""

    curve: str
    draft: str
    text: str
    slowest: float
    first: float
    later: float

    def __str__(self) -> str:
        return (
            f"{self.first:.3f}, later {self.later:.3f} of the best fixed length, at least {self.slowest:.3f} of plain: "
            f"{self.curve}, drafter {self.draft}, {self.text}"
        )


def costs_of(curve: str, draft: str) -> MachineTimes:
    """The true times of rounds on this machine with this drafter."""
    each = DRAFTS[draft]
    return MachineTimes(CURVES[curve], ((0, 0.0), (1, each), (LONGEST, LONGEST * each)), plain=AHEAD.get(curve))


def flags(text: str, seed: int) -> list[bool]:
    """One text of this kind, a little longer than needed."""
    rng = random.Random(f"{text}/{seed}")
    return [rng.random() < TEXTS[text](t) for t in range(TOKENS + LONGEST)]


def round_of(drafted: int, accepted: int, time_s: float = 0.0) -> Round:
    """A round that was not cut."""
    chances = (1.0,) * (accepted + 1)
    return Round(0, tuple(range(accepted + 1)), tuple(range(drafted)), accepted, chances, (), drafted + 1, time_s)


def _on_time() -> float:
    return 1.0


def _always(share: float) -> float:
    return 1.0


@dataclass(frozen=True)
class World:
    """What the clock says beside the times of a machine. late: how much longer a round takes than on a machine that
    does nothing else. speed: by the share of the reply. rise: plain steps that a drafted token takes more at each 1,000
    tokens of context. refusal: plain steps that a round after a refusal takes more. spread: of the times of drafted
    rounds, which with experts depend on the tokens. unit_s: seconds of a plain pass."""

    late: Callable[[], float] = _on_time
    speed: Callable[[float], float] = _always
    rise: float = 0.0
    refusal: float = 0.0
    spread: float = 0.0
    random: random.Random = field(default_factory=lambda: random.Random(0))
    unit_s: float = 0.02

    @property
    def is_quiet(self) -> bool:
        """Whether rounds take the machine's times after a short context."""
        return self == World(random=self.random)

    def round_s(self, times: MachineTimes, length: int, context: int, lone: bool) -> float:
        plain = 1 + 0.05 * context / 1000
        if not length:
            return plain * (times.pass_s(1) if lone else times.plain_s)
        drafted = plain * times.round_s(length) + self.rise * context / 1000 * length
        return drafted * math.exp(self.random.gauss(0, self.spread)) if self.spread else drafted


QUIET = World()


def speed(
    policy: Policy,
    times: MachineTimes,
    right: Sequence[bool],
    lengths: list[int] | None = None,
    world: World = QUIET,
    tokens: int = TOKENS,
) -> float:
    """Returns the speed over the first `tokens` of a text, plain decoding being 1, by the time that the machine would
    take if it did nothing else. lengths: gets the draft length of each round.

    A drafter that was not asked for a while reads what it has missed first: as many rows at once as that, each no
    dearer than a 16th of a narrow pass of its own. As in the loop, a plain step that was not sure to be one waits for
    the last to land, and one that was is not planned.
    """
    at, spent_s, plain_s, clock_s, behind, sure, refused = 0, 0.0, 0.0, 0.0, 1, True, False
    policy.begin(tokens)
    while at < tokens:
        planned = not (at and sure)
        length = min(policy.plan().length, tokens - at - 1) if planned else 0
        accepted = 0
        while accepted < length and right[at + accepted]:
            accepted += 1
        if lengths is not None:
            lengths.append(length)
        round_s = world.round_s(times, length, at, lone=bool(at and planned))
        round_s += reading_s(times, behind) if length else 0.0
        replays = refused and world.refusal > 0
        round_s += world.refusal if replays else 0.0
        sure = length == 0 and policy.next_is_plain()
        plain_s += sum(world.round_s(times, 0, at + i, lone=False) for i in range(accepted + 1))
        clock_s += round_s * world.unit_s * world.late() * world.speed(at / tokens)
        spent_s += round_s
        behind = accepted + 1 + (0 if length else behind)
        at += accepted + 1
        refused = accepted < length
        round_ = round_of(length, accepted, clock_s)
        policy.observe(replace(round_, width=round_.width + 1) if replays else round_)
    return plain_s / spent_s


@dataclass
class _Reply:
    """One of several replies at once: at which token it is, what it drafts in this round, and whether it knows that the
    next round will be plain before this one is over."""

    policy: Policy
    right: Sequence[bool]
    at: int = 0
    length: int = 0
    sure: bool = False

    def plan(self) -> int:
        self.length = 0 if self.sure else min(self.policy.plan().length, TOKENS - self.at - 1)
        return self.length

    def look_ahead(self) -> None:
        """Asks whether the next round will be plain, while this one is on the device."""
        self.sure = self.length == 0 and self.policy.next_is_plain()

    def end_round(self, clock_s: float) -> int:
        """Returns how many tokens the round gave."""
        accepted = 0
        while accepted < self.length and self.right[self.at + accepted]:
            accepted += 1
        self.policy.observe(round_of(self.length, accepted, clock_s))
        self.at += accepted + 1
        return accepted + 1


def _turn_s(replies: Sequence[_Reply], costs: MachineTimes) -> float:
    """Has replies at once plan a turn; returns how long it takes. They draft and verify in joint passes."""
    drafted = [reply.plan() for reply in replies]
    for reply in replies:
        reply.look_ahead()
    seconds = costs.pass_s(len(replies) + sum(drafted))
    for step in range(max(drafted)):
        share = costs.pass_s(sum(length > step for length in drafted)) / costs.pass_s(1)
        seconds += (costs.draft_s(step + 1) - costs.draft_s(step)) * share
    return seconds


def together(
    make: Callable[[], Policy], costs: MachineTimes, text: str, at_once: int, lengths: list[int] | None = None
) -> float:
    """Returns the tokens a plain pass of `at_once` replies side by side, each of which is followed by another, while
    LATER of them end after as many. make: the policy of one reply. text: its
    kind, or "mixed" for one of each of `MIXED`. lengths: gets what was drafted."""
    seeds, clock_s, tokens, began, ended = count(), 0.0, 0, (0, 0.0), 0

    def new() -> _Reply:
        seed = next(seeds)
        reply = _Reply(make(), flags(MIXED[seed % len(MIXED)] if text == "mixed" else text, seed))
        reply.policy.begin(TOKENS)
        return reply

    replies = [new() for _ in range(at_once)]
    while ended < 2 * LATER * at_once:
        clock_s += _turn_s(replies, costs)
        drafted = [reply.length for reply in replies]
        tokens += sum(reply.end_round(clock_s) for reply in replies)
        ended += sum(reply.at >= TOKENS for reply in replies)
        replies = [new() if reply.at >= TOKENS else reply for reply in replies]
        if ended < LATER * at_once:
            began = tokens, clock_s
        elif lengths is not None:
            lengths += drafted
    return (tokens - began[0]) / (clock_s - began[1])


def batches(
    learnt: Learnt,
    costs: MachineTimes,
    text: str,
    at_once: int,
    number: int = 3,
    late: Callable[[], float] = _on_time,
) -> list[float]:
    """Returns how many times as fast as plain decoding `at_once` adaptive replies are that begin together and that
    nobody follows, until all are over; of so many such batches, one after another, by the time that the machine would
    take if it did nothing else. late: as in `World`."""
    found = []
    for batch in range(number):
        writing: list[_Reply] = []
        for place in range(at_once):
            kind = MIXED[place % len(MIXED)] if text == "mixed" else text
            policy = adaptive(learnt, at_once=lambda now=writing: len(now))  # type: ignore[misc]
            writing.append(_Reply(policy, flags(kind, batch * at_once + place)))
            policy.begin(TOKENS)
        clock_s = spent_s = 0.0
        while writing:
            turn_s = _turn_s(writing, costs)
            spent_s, clock_s = spent_s + turn_s, clock_s + turn_s * late()
            for reply in writing:
                reply.end_round(clock_s)
            writing[:] = [reply for reply in writing if reply.at < TOKENS]
        found.append(TOKENS * costs.pass_s(at_once) / spent_s)
    return found


def shares_together(
    at_once: int,
    drafts: Sequence[str] = tuple(DRAFTS),
    texts: Sequence[str] = (*TEXTS, "mixed"),
    teaches: bool = True,
) -> dict[tuple[str, str, str], float]:
    """Returns the speed of adaptive replies at once, that of the best fixed length for all of them being 1, on the
    curves that times begin with, by curve, drafter and text. teaches: whether they learn from each other; else each
    begins with what is usual."""
    found = {}
    for (name, curve), draft, text in product({"CPU": CPU_PASSES, "GPU": GPU_PASSES}.items(), drafts, texts):
        each = DRAFTS[draft]
        costs = MachineTimes(curve, ((0, 0.0), (1, each), (LONGEST, LONGEST * each)))
        found[name, draft, text] = _share_together(costs, text, at_once, teaches)
    return found


def _share_together(costs: MachineTimes, text: str, at_once: int, teaches: bool) -> float:
    learnt = Learnt(StepTimes([prior_of(costs)]))

    def policy() -> Adaptive:
        return adaptive(learnt if teaches else Learnt(learnt.times.copy()), at_once=at_once)

    found = together(policy, costs, text, at_once)
    return found / max(together(lambda length=n: FixedLength(length), costs, text, at_once) for n in range(LONGEST + 1))  # type: ignore[misc]


def best_fixed(costs: MachineTimes, text: str, seed: int) -> float:
    """Tokens a plain pass of the best fixed length for this text, as `speed` has it."""
    return max(_fixed_speeds(costs, text, seed))


def _fixed_speeds(costs: MachineTimes, text: str, seed: int) -> list[float]:
    """Tokens a plain pass by fixed length."""
    spent_s = []
    for length in range(LONGEST + 1):
        rounds = _fixed_rounds(text, seed, length).items()
        spent_s.append(sum(n * (costs.round_s(d) + (reading_s(costs, b) if d else 0.0)) for (d, b), n in rounds))
    return [TOKENS * costs.round_s(0) / s for s in spent_s]


@cache
def _fixed_rounds(text: str, seed: int, length: int) -> Counter[tuple[int, int]]:
    """How many rounds there are of each draft length and each number of tokens that the drafter is behind: whatever
    they cost, they are the same."""
    right, at, behind, rounds = flags(text, seed), 0, 1, Counter[tuple[int, int]]()
    while at < TOKENS:
        drafted, accepted = min(length, TOKENS - at - 1), 0
        while accepted < drafted and right[at + accepted]:
            accepted += 1
        rounds[drafted, behind if drafted else 0] += 1
        behind = accepted + 1 + (0 if drafted else behind)
        at += accepted + 1
    return rounds


def reading_s(costs: MachineTimes, behind: int) -> float:
    """What a drafter takes to read so many tokens more than the one that every draft begins with."""
    rows = costs.pass_s(behind) / costs.pass_s(1) - 1
    return costs.draft_s(1) * min(rows, (behind - 1) / 16)


def prior_of(times: MachineTimes, factor: float = 1.0, name: str = "drafter") -> PriorPrices:
    """Returns prices that are wrong by a factor, though no round is taken to be cheaper than a plain step."""
    prices = {n: max(1.01, factor * times.round_s(n) / times.plain_s) for n in range(1, LONGEST + 1)}
    return PriorPrices(name, prices, lambda rows: times.pass_s(rows) / times.pass_s(1))


def known(usual: Sequence[float] = (), **drafters: MachineTimes) -> Adaptive:
    """Returns a policy that is told the prices of its drafters, by name, and does not listen to the clock."""
    times = StepTimes([prior_of(times, name=name) for name, times in drafters.items()], learns=False)
    return Adaptive(
        [Candidate(name, ChainExpectedLength(LONGEST, AcceptanceCounts.of(usual))) for name in drafters], times
    )


@dataclass
class Learnt:
    """What the replies of one pair have taught."""

    times: StepTimes
    counts: AcceptanceCounts = field(default_factory=AcceptanceCounts)

    @classmethod
    def prior(cls, times: MachineTimes, factor: float = 1.0) -> Learnt:
        """Returns what is known before the first reply: prices that are wrong by a factor."""
        return cls(StepTimes([prior_of(times, factor)]))


def adaptive(learnt: Learnt, usual: Sequence[float] = (), at_once: int | Callable[[], int] = 1) -> Adaptive:
    """Returns the policy of one reply of `at_once`. usual: acceptance rates that the drafter's folder says."""
    number: Callable[[], int] = at_once if callable(at_once) else lambda: at_once
    learnt.counts.fade()
    expected = ChainExpectedLength(
        LONGEST, learnt.counts if learnt.counts.rates or not usual else AcceptanceCounts.of(usual)
    )
    times = learnt.times if at_once == 1 else learnt.times.for_reply()
    return Adaptive([Candidate("drafter", expected, learnt.counts)], times, at_once=number)


WORLDS: dict[str, Callable[[str], World]] = {
    "quiet": lambda name: World(),
    "noisy": lambda name: World(late=_every_fifth_late(name)),
    "interrupted": lambda name: World(late=interrupted(name)),
    "slowing": lambda name: World(speed=lambda share: 1.0 if share < 0.5 else 2.0),
    "attentive": lambda name: World(rise=0.3),
    "hybrid": lambda name: World(refusal=0.4),
    "experts": lambda name: World(spread=0.2, random=random.Random(name)),
}


def _every_fifth_late(name: str) -> Callable[[], float]:
    rng, number = random.Random(name), count()
    return lambda: math.exp(rng.gauss(0, 0.05)) * (2 if next(number) % 5 == 4 else 1)


def interrupted(name: str) -> Callable[[], float]:
    """Returns how much longer each round takes, as `World.late` does, where another program takes half of the machine
    for three of them, about once in 50."""
    rng, left = random.Random(name), 0

    def late() -> float:
        nonlocal left
        left = left - 1 if left else (3 if rng.random() < 1 / 50 else 0)
        return math.exp(rng.gauss(0, 0.07)) * (rng.uniform(1.5, 2.1) if left else 1)

    return late


def cases(
    world: str = "quiet",
    factor: float = 1.0,
    replies: int = 4,
    curves: Sequence[str] = tuple(CURVES),
    tokens: int = TOKENS,
) -> Iterator[Case]:
    """Every machine with every drafter and every kind of text, from a prior that is wrong by a factor. tokens: of each
    reply."""
    for curve in curves:
        for draft in DRAFTS:
            for text in TEXTS:
                yield _case(curve, draft, text, WORLDS[world](f"{curve}{draft}{text}"), factor, replies, tokens)


def _case(curve: str, draft: str, text: str, world: World, factor: float, replies: int, tokens: int) -> Case:
    times = costs_of(curve, draft)
    learnt, found = Learnt.prior(times, factor), list[tuple[float, float]]()
    for seed in range(replies):
        right = flags(text, seed)
        own = speed(adaptive(learnt), times, right, world=world, tokens=tokens)
        if world.is_quiet and tokens == TOKENS:
            best = best_fixed(times, text, seed)
        else:
            lengths = range(LONGEST + 1)
            best = max(speed(FixedLength(length), times, right, world=world, tokens=tokens) for length in lengths)
        found.append((own, own / best))
    later = [share for _, share in found[2:]] or [math.nan]
    return Case(curve, draft, text, min(own for own, _ in found), found[0][1], mean(later))


def summary(found: Sequence[Case]) -> str:
    """Returns the cases in a line."""
    slow = sum(case.slowest < 0.97 for case in found)
    return (
        f"{len(found)} cases: first reply {mean(case.first for case in found):.4f} of the best fixed length, from the "
        f"third on {mean(case.later for case in found):.4f} ({sum(case.later < 0.97 for case in found)} below 0.97); "
        f"slowest {min(case.slowest for case in found):.4f} of plain decoding, {slow} below 0.97"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description="Judge the adaptive policy in simulation.")
    parser.add_argument("--world", choices=WORLDS, action="append")
    parser.add_argument("--factor", type=float, action="append", help="by which the prior is wrong")
    parser.add_argument("--replies", type=int, default=4)
    parser.add_argument("--tokens", type=int, default=TOKENS, help="of each reply")
    parser.add_argument("--at-once", type=int, action="append", help="judge so many replies at once in place of one")
    args = parser.parse_args()
    for at_once in args.at_once or []:
        shares = sorted((share, *case) for case, share in shares_together(at_once).items())
        low = sum(share < 0.97 for share, *_ in shares)
        average = mean(share for share, *_ in shares)
        print(f"{at_once} at once, {len(shares)} cases: {average:.4f} of the best fixed length, {low} below 0.97")
        print(f"    least: {shares[:3]}", flush=True)
    if args.at_once:
        return
    for world in args.world or WORLDS:
        for factor in args.factor or (1.0, 2.0, 0.5):
            found = sorted(cases(world, factor, args.replies, tokens=args.tokens), key=lambda case: case.slowest)
            print(f"{world}, prior times {factor:g}: {summary(found)}", flush=True)
            for case in [*found[:2], *sorted(found, key=lambda case: case.later)[:2]]:
                print(f"    {case}")


if __name__ == "__main__":
    main()
