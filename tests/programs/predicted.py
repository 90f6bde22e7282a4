"""How good `redline predict` is: predicted against measured, drafter by drafter. For a quiet machine.

    python -m tests.programs.predicted PROMPTS.jsonl [--drafter NAME ...] [--draft-length N|auto ...]
                                       [--temperature T ...]

First the benchmark, plain decoding and every drafter alternated, from which round times are learnt; then the prediction
from the target's own replies to the same prompts. Above temperature 0 the two see different noise, so no prediction is
made from the text that was measured; at temperature 0 there is but one text, and tau should agree to the digit,
near-ties apart.

A line each: tau and speed-up (all prompts together; in brackets the median over prompts), predicted with half the
width of its 95 % interval, measured, and how far off that is. Exit code 1 when a tau is off by more than 5 %, or a
speed-up by more than 10 %. Twenty prompts with the defaults take two hours on two cores; --every K takes one prompt in
K.
"""

import argparse
import json
import sys
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from app.bench import contestants
from app.bench.bench_document import BenchRun
from app.bench.benchmark import Benchmark
from app.bench.prompt_file import Question, read_questions
from app.cli.terminal.progress import count_progress
from app.forecast.forecast_report import half_width, sampling_label
from app.forecast.forecaster import Forecaster
from app.inference.loaded_pair import LoadedPair, open_target
from app.inference.options import Options, read_draft_length
from app.inference.pair_loader import NamedDrafter, open_drafter
from engine.metrics import median
from engine.session import Session
from engine.settings import ACCEPTANCE_RULES, SamplingSettings
from models.drafters.drafter_kind import LONGEST_CHAIN
from models.forecast.forecast import DraftLength, Forecast, Rates
from models.loader import Loaded

TAU_OFF, SPEEDUP_OFF = 0.05, 0.10
OTHER_NOISE = 7_000_003  # added to the seed for what is predicted from


@dataclass(frozen=True)
class Line:
    """One drafter with one draft length and one sampling setting: the forecast and the measured runs."""

    drafter: str
    length: DraftLength
    forecast: Forecast
    runs: Sequence[BenchRun]

    @property
    def rates(self) -> Rates:
        return self.forecast.rates[self.length]

    @property
    def tau(self) -> tuple[float, float]:
        """Predicted, measured."""
        tokens = sum(run.tokens for run in self.runs)
        rounds = sum(run.rounds for run in self.runs)
        return self.rates.tau, tokens / rounds if rounds else 1.0

    @property
    def speedup(self) -> tuple[float, float]:
        """Predicted, measured: the seconds that plain decoding takes for the same tokens over those that these took,
        first passes left out."""
        plain_s = other_s = 0.0
        for run in self.runs:
            if run.speedup and run.decode_s:
                other_s += run.decode_s
                plain_s += run.decode_s * run.speedup
        return self.rates.speedup, plain_s / other_s if other_s else 1.0

    @property
    def median_speedup(self) -> tuple[float, float]:
        """Predicted, measured: the median over prompts."""
        return self.rates.speedup_median, median(run.speedup for run in self.runs) or 1.0

    @property
    def good(self) -> bool:
        return abs(off(self.tau)) <= TAU_OFF and abs(off(self.speedup)) <= SPEEDUP_OFF

    def __str__(self) -> str:
        length = "auto" if self.length is None else str(self.length)
        tau, speedup = (
            f"{pair[0]:5.2f}{half_width(interval):6} {pair[1]:5.2f} {off(pair):+6.1%}"
            for pair, interval in (
                (self.tau, self.rates.tau_interval),
                (self.speedup, self.rates.speedup_interval),
            )
        )
        median_part = f"({self.median_speedup[0]:.2f} {self.median_speedup[1]:.2f} {off(self.median_speedup):+.1%})"
        flag = "" if self.good else "  off"
        name = f"{self.drafter:<16} {sampling_label(self.forecast):<15} {length:>4}"
        return f"{name}   {tau}   {speedup} {median_part}{flag}"

    def record(self) -> dict[str, Any]:
        """JSON-ready."""
        return {
            "drafter": self.drafter,
            "draft_length": "auto" if self.length is None else self.length,
            "temperature": self.forecast.settings.temperature,
            "acceptance_rule": self.forecast.rule,
            **{f"{name}_predicted": getattr(self, name)[0] for name in ("tau", "speedup", "median_speedup")},
            **{f"{name}_measured": getattr(self, name)[1] for name in ("tau", "speedup", "median_speedup")},
        }


def off(pair: tuple[float, float]) -> float:
    """Predicted over measured, less one."""
    return pair[0] / pair[1] - 1


def forecasts_of(
    target: Loaded, session: Session, drafter: NamedDrafter, questions: Sequence[Question], args: argparse.Namespace
) -> list[Forecast]:
    """Returns a forecast for all sampling settings and rules."""
    forecaster = Forecaster(target, drafter, session)
    forecaster.lengths = sorted({length for length in args.lengths if length})
    samplings = [replace(one, seed=(one.seed or 0) + OTHER_NOISE) for one in args.samplings]
    steps = forecaster.missing_replies(questions, samplings) + len(samplings) * len(questions)
    with count_progress(steps) as forecaster.step:
        return [forecast for one in samplings for forecast in forecaster.forecast(questions, one, args.rules)]


def benchmark_runs(
    pair: LoadedPair,
    options: Options,
    questions: Sequence[Question],
    samplings: Sequence[SamplingSettings],
    args: argparse.Namespace,
) -> list[BenchRun]:
    """The benchmark's runs."""
    everyone = contestants.make_contestants(options, args.lengths, pair, False, tell)
    games = Benchmark(pair.session, everyone, samplings)
    games.check(questions)
    games.warm_up(questions[0])
    with count_progress(games.replies(questions)) as games.progress:
        return [run for heat in games.run(questions) for run in heat]


def lines_of(
    drafters: Sequence[NamedDrafter],
    forecasts: Sequence[list[Forecast]],
    runs: Sequence[BenchRun],
    args: argparse.Namespace,
) -> list[Line]:
    found = []
    names = list(dict.fromkeys(run.drafter for run in runs))[1:]
    for place, drafter in enumerate(drafters):
        for forecast in forecasts[place]:
            for number, length in enumerate(args.lengths):
                name = names[place * len(args.lengths) + number]
                sampling = name, forecast.settings.temperature, forecast.rule
                mine = [run for run in runs if (run.drafter, run.temperature, run.acceptance_rule) == sampling]
                found.append(Line(drafter.name, length, forecast, mine))
    return found


def tell(text: str) -> None:
    print(f"predicted: {text}", file=sys.stderr, flush=True)


def main(arguments: Sequence[str] | None = None) -> int:
    args = parse(arguments)
    questions = read_questions(args.prompts, args.limit, args.every)
    options = Options(
        target=args.target,
        drafters=tuple(args.drafter or ("lookup", "eagle3", "draft", "auto")),
        tree=args.tree,
        sampling=SamplingSettings(seed=args.seed, max_tokens=args.max_tokens),
    )
    pair = open_target(options)
    args.samplings = [replace(options.sampling, temperature=one) for one in args.temperature or (0.0, 1.0)]
    drafters = [open_drafter(spec, pair.target, args.tree) for spec in options.drafters]
    rules = [
        replace(one, acceptance=rule) for one in args.samplings for rule in args.rules[: 1 if one.greedy else None]
    ]
    runs = benchmark_runs(pair, options, questions, rules, args)
    forecasts = [forecasts_of(pair.target, pair.session, drafter, questions, args) for drafter in drafters]
    lines = lines_of(drafters, forecasts, runs, args)
    print(
        f"{'drafter':<16} {'sampling':<15} {'k':>4}   tau: predicted, measured     "
        "speed-up: predicted, measured (median)"
    )
    for line in lines:
        print(line)
    if args.json is not None:
        args.json.write_text(json.dumps([line.record() for line in lines], indent=1) + "\n")
    good = sum(line.good for line in lines)
    print(f"{good} of {len(lines)} within {TAU_OFF:.0%} of tau and {SPEEDUP_OFF:.0%} of the speed-up")
    return int(good < len(lines))


def parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    add = parser.add_argument
    add("prompts", type=Path)
    add("--target", default="builtin")
    add("--drafter", action="append")
    add("--draft-length", action="append", dest="lengths", type=read_draft_length, help="default: 2, 5 and auto")
    add("--temperature", action="append", type=float, help="default: 0 and 1")
    add("--acceptance", action="append", dest="rules", choices=ACCEPTANCE_RULES, help="default: both")
    add("--tree", action="store_true")
    add("--limit", type=int)
    add("--every", type=int, default=1)
    add("--max-tokens", type=int, default=128)
    add("--seed", type=int, default=0)
    add("--json", type=Path)
    args = parser.parse_args(arguments)
    args.lengths = list(dict.fromkeys(args.lengths or [2, 5, None]))
    if any(length is not None and not 1 <= length <= LONGEST_CHAIN for length in args.lengths) and not args.tree:
        parser.error(f"--draft-length: give auto or a number from 1 to {LONGEST_CHAIN}, which is how far predict looks")
    args.rules = list(dict.fromkeys(args.rules or ACCEPTANCE_RULES))
    return args


if __name__ == "__main__":
    raise SystemExit(main())
