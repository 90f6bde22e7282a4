"""Draft length auto along real replies: which tokens a draft model a third of its target's size gets right, recorded.

    python -m tests.programs.recorded_pairs                   auto against fixed lengths, from three priors
    python -m tests.programs.recorded_pairs --tokens 64 --series 4    short replies, the first of which know nothing
    python -m tests.programs.recorded_pairs --tokens 64 --warm        as in a benchmark, each after the same warm-up
    python -m tests.programs.recorded_pairs --record FOLDER   records anew in half an hour, with models in FOLDER

The target is the built-in model, made four times as deep without changing its text; its draft models are itself under
noise of three strengths (`tests.toys.pairs`). 20 prompts of Spec-Bench, 264 tokens each, greedy and coupled at
temperature 1. A flag says whether the draft model, with everything before it as in the reply, picks the target's
token; so the rounds of any policy along these texts are those of decoding them. Times are those of this pair on 2 cores
and published ones of Apple Silicon (`tests.engine.policy.simulation`).
"""

import argparse
import json
from collections.abc import Callable, Iterator, Sequence
from copy import deepcopy
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from app.inference.measured_reply import warm_up
from engine.policy import Policy
from engine.policy.fixed import FixedLength
from engine.settings import SamplingSettings
from tests.engine.policy.machine_times import MachineTimes
from tests.engine.policy.simulation import CURVES, LONGEST, Learnt, adaptive, speed

DATA = Path(__file__).with_name("recorded_pairs.json")
NOISE = (0.03, 0.06, 0.1)  # of each matrix's spread
PROMPTS, TOKENS = 20, 264
GOAL = 0.97  # of the best fixed length
SHORTEST = 40  # tokens: shorter replies are left out
FACTORS = (1.0, 2.0, 0.5)  # by which the prior is wrong

# Of the pair on 2 cores, measured: a verify pass by rows, a draft by length, and a plain step, in passes of one row.
HERE = MachineTimes(
    ((1, 1.0), (2, 1.0), (3, 1.4), (4, 1.13), (5, 1.34), (6, 1.38), (7, 1.37), (8, 1.05), (9, 1.19)),
    ((0, 0.0), (1, 0.31), (8, 2.04)),
    plain=0.947,
)
MACHINES = {
    "here": HERE,
    **{
        f"{curve}, {each}": MachineTimes(CURVES[curve], ((0, 0.0), (1, each), (LONGEST, LONGEST * each)))
        for curve, each in (
            ("M4 Pro", 0.3),
            ("M4 Pro, 27B", 0.15),
            ("M5 Max, 70B", 0.2),
            ("27B hybrid", 0.1),
            ("M3 Max", 0.3),
        )
    },
}


@dataclass(frozen=True)
class Recorded:
    """One reply. right: by noise of the draft model, a flag a token."""

    question: int
    temperature: float
    right: dict[float, list[bool]]

    def tokens(self, most: int = TOKENS) -> int:
        return min(len(next(iter(self.right.values()))), TOKENS - LONGEST, most)


@dataclass(frozen=True)
class Result:
    """One draft model at one temperature on one machine. share: of the best one fixed length, for all replies together;
    hindsight: mean over replies, against the best length of each. slowest: against plain decoding."""

    noise: float
    temperature: float
    machine: str
    share: float
    hindsight: float
    slowest: float
    best: int
    speedup: float

    def __str__(self) -> str:
        return (
            f"noise {self.noise}, temperature {self.temperature:g}, {self.machine}: {self.share:.3f} of fixed "
            f"{self.best} ({self.speedup:.2f}x), {self.hindsight:.3f} in hindsight, slowest {self.slowest:.3f} of plain"
        )


def read_replies() -> list[Recorded]:
    """The recorded replies."""
    return [
        Recorded(
            one["question"],
            one["temperature"],
            {float(noise): [flag == "1" for flag in flags] for noise, flags in one["right"].items()},
        )
        for one in json.loads(DATA.read_text())
    ]


def results(
    replies: Sequence[Recorded], factor: float = 1.0, most: int = TOKENS, series: int = PROMPTS, warm: bool = False
) -> list[Result]:
    """Every draft model at every temperature on every machine: auto learns from one reply to the next. factor: by which
    the prior is wrong. most: tokens of each reply. series: replies after which auto forgets all. warm: whether every
    reply begins with what a warm-up before all of them has taught, as in a benchmark."""
    found = []
    for noise in NOISE:
        for temperature in (0.0, 1.0):
            mine = [one for one in replies if one.temperature == temperature and one.tokens() >= SHORTEST]
            found += [_result(mine, noise, temperature, machine, (factor, most, series, warm)) for machine in MACHINES]
    return found


def _result(
    replies: Sequence[Recorded], noise: float, temperature: float, machine: str, how: tuple[float, int, int, bool]
) -> Result:
    times, (factor, most, series, warm) = MACHINES[machine], how
    counts = [one.tokens(most) for one in replies]
    padded = [[*one.right[noise], *[False] * LONGEST] for one in replies]

    def speeds(policy: Callable[[], Policy]) -> list[float]:
        return [speed(policy(), times, right, tokens=tokens) for tokens, right in zip(counts, padded, strict=True)]

    def together(each: Sequence[float]) -> float:
        return sum(counts) / sum(tokens / s for tokens, s in zip(counts, each, strict=True))

    begun = [Learnt.prior(times, factor) for _ in range(0, len(replies), series)]
    learnt: Iterator[Learnt] = iter([each for each in begun for _ in range(series)])
    if warm:
        taught, settings = begun[0], warm_up(SamplingSettings(max_tokens=most))
        speed(adaptive(taught), times, padded[0], tokens=replies[0].tokens(settings.max_tokens))
        learnt = (deepcopy(taught) for _ in replies)
    own = speeds(lambda: adaptive(next(learnt)))
    fixed = [speeds(lambda length=length: FixedLength(length)) for length in range(LONGEST + 1)]  # type: ignore[misc]
    best = max(range(LONGEST + 1), key=lambda length: together(fixed[length]))
    hindsight = np.mean([mine / max(each) for mine, each in zip(own, zip(*fixed, strict=True), strict=True)])
    speedup = together(fixed[best])
    return Result(noise, temperature, machine, together(own) / speedup, float(hindsight), min(own), best, speedup)


def summary(name: str, found: Sequence[Result]) -> str:
    """The results in a line."""
    return (
        f"{name}: {sum(one.share < GOAL for one in found)} of {len(found)} below {GOAL} of the best fixed length, "
        f"mean {np.mean([one.share for one in found]):.4f}, least {min(one.share for one in found):.3f}; in "
        f"hindsight {sum(one.hindsight < GOAL for one in found)} below, mean "
        f"{np.mean([one.hindsight for one in found]):.4f}; slowest {min(one.slowest for one in found):.3f} of plain"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--record", type=Path, metavar="FOLDER")
    parser.add_argument("--prompts", type=Path, default=Path("../shared/data/spec_bench_dev.jsonl"))
    parser.add_argument("--tokens", type=int, default=TOKENS, help="of each reply")
    parser.add_argument("--series", type=int, default=PROMPTS, help="replies after which auto forgets what it learnt")
    parser.add_argument("--warm", action="store_true", help="every reply begins with what a warm-up has taught")
    args = parser.parse_args()
    if args.record is not None:
        from tests.engine.policy.record_pairs import record

        DATA.write_text(json.dumps(record(args.record, args.prompts), indent=1) + "\n")
    replies = read_replies()
    for factor in FACTORS:
        _show(f"prior times {factor:g}", results(replies, factor, args.tokens, args.series, args.warm))


def _show(name: str, found: Sequence[Result]) -> None:
    for one in found:
        print(f"{name}: {one}")
    print(summary(name, found), flush=True)


if __name__ == "__main__":
    main()
