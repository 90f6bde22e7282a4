"""How good `redline predict` is: predicted against measured, drafter by drafter. For a quiet machine.

    python -m tests.predicted PROMPTS.jsonl [--drafter NAME ...] [--draft-length N|auto ...] [--temperature T ...]

First the prediction, from the target's own replies; then the benchmark on the same prompts, plain decoding and every
drafter alternated. Above temperature 0 the two see different noise, so no prediction is made from the text that is then
measured; at temperature 0 there is but one text, and tau should agree to the digit, near-ties apart.

A line each: tau and speed-up (all prompts together; in brackets the median over prompts), predicted with half the
width of its 95 % interval, measured, and how far off that is. Exit code 1 when a tau is off by more than 5 %, or a
speed-up by more than 10 %. Costs are measured anew unless --keep-costs. Twenty prompts with the defaults take two hours
on two cores; --every K takes one prompt in K.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import engine  # noqa: F401  (readies the backend before MLX is imported)
from app.bench import contestants
from app.bench.progress import progress
from app.bench.questions import Question, read_questions
from app.bench.tournament import Run, Tournament
from app.options import Options, read_draft_length
from app.pair import LONGEST_CHAIN, NamedDrafter, open_drafter, open_session, open_target
from app.predict.forecast import Forecast, Interval, Way, rules_at
from app.predict.foreseeing import Asked, Foreseer
from app.predict.table import named
from app.speedup import median
from engine.choice import RULES
from engine.session import Session
from engine.settings import Settings
from models.load import Loaded

TAU_OFF, SPEEDUP_OFF = 0.05, 0.10
OTHER_NOISE = 7_000_003  # added to the seed for what is predicted from


@dataclass(frozen=True)
class Line:
    """One drafter with one draft length under one law: what was said of it and what it did."""

    drafter: str
    way: Way
    forecast: Forecast
    runs: Sequence[Run]

    @property
    def tau(self) -> tuple[float, float]:
        """Predicted, measured."""
        tokens = sum(run.reply.metrics.tokens for run in self.runs)
        rounds = sum(run.reply.metrics.rounds for run in self.runs)
        return self.forecast.tally(self.way).tau, tokens / rounds if rounds else 1.0

    @property
    def speedup(self) -> tuple[float, float]:
        """Predicted, measured: the seconds that plain decoding takes for the same tokens over those that these took,
        first passes left out."""
        plain_s = other_s = 0.0
        for run in self.runs:
            metrics = run.reply.metrics
            if run.speedup and metrics.decode_s:
                other_s += metrics.decode_s
                plain_s += metrics.decode_s * run.speedup
        return self.forecast.speedup(self.way), plain_s / other_s if other_s else 1.0

    @property
    def middle(self) -> tuple[float, float]:
        """Predicted, measured: the median over prompts."""
        return self.forecast.middle_speedup(self.way), median(run.speedup for run in self.runs) or 1.0

    @property
    def good(self) -> bool:
        return abs(off(self.tau)) <= TAU_OFF and abs(off(self.speedup)) <= SPEEDUP_OFF

    def __str__(self) -> str:
        length = "auto" if self.way is None else str(self.way)
        tau, speedup = (
            f"{pair[0]:5.2f}{half(interval)} {pair[1]:5.2f} {off(pair):+6.1%}"
            for pair, interval in (
                (self.tau, self.forecast.tau_interval(self.way)),
                (self.speedup, self.forecast.speedup_interval(self.way)),
            )
        )
        middle = f"({self.middle[0]:.2f} {self.middle[1]:.2f} {off(self.middle):+.1%})"
        flag = "" if self.good else "  off"
        return f"{self.drafter:<16} {named(self.forecast):<15} {length:>4}   {tau}   {speedup} {middle}{flag}"

    def record(self) -> dict[str, Any]:
        """JSON-ready."""
        return {
            "drafter": self.drafter,
            "draft_length": "auto" if self.way is None else self.way,
            "temperature": self.forecast.settings.sampling.temperature,
            "acceptance_rule": self.forecast.rule,
            **{f"{name}_predicted": getattr(self, name)[0] for name in ("tau", "speedup", "middle")},
            **{f"{name}_measured": getattr(self, name)[1] for name in ("tau", "speedup", "middle")},
        }


def off(pair: tuple[float, float]) -> float:
    """Predicted over measured, less one."""
    return pair[0] / pair[1] - 1


def half(interval: Interval | None) -> str:
    return " " * 6 if interval is None else f" ±{(interval.high - interval.low) / 2:.2f}"


def forecasts_of(
    target: Loaded, session: Session, drafter: NamedDrafter, questions: Sequence[Question], args: argparse.Namespace
) -> list[Forecast]:
    """Of every law and rule."""
    foreseer = Foreseer(target, drafter, session, notice=tell)
    foreseer.lengths = sorted({length for length in args.lengths if length})
    chat = target.tokenizer.chat
    asked = [Asked(one, tuple(chat([{"role": "user", "content": one.turns[0]}]))) for one in questions]
    laws = [replace(one, sampling=replace(one.sampling, seed=one.sampling.seed + OTHER_NOISE)) for one in args.laws]
    rules = [rule for rule in args.rules if all(foreseer.can(replace(one, rule=rule)) for one in laws)]
    if not args.keep_costs:
        foreseer.forget_prices([replace(one, rule=rule) for one in laws for rule in rules])
    with progress(foreseer.steps(asked, laws)) as foreseer.step:
        foreseer.write(asked, laws)
        foreseer.measure(asked, laws, rules)
        return [forecast for one in laws for forecast in foreseer.foresee(asked, one, rules)]


def measured(
    target: Loaded, session: Session, options: Options, questions: Sequence[Question], laws: Sequence[Settings]
) -> list[Run]:
    """The benchmark's runs."""
    everyone = contestants.enter(options, target, session, False, tell)
    games = Tournament(session, everyone, laws)
    games.check(questions)
    games.warm_up(questions[0])
    with progress(games.replies(questions)) as games.progress:
        return [run for heat in games.play(questions) for run in heat]


def lines_of(
    drafters: Sequence[NamedDrafter], told: Sequence[list[Forecast]], runs: Sequence[Run], args: argparse.Namespace
) -> list[Line]:
    found = []
    names = list(dict.fromkeys(run.contestant.name for run in runs))[1:]
    for place, drafter in enumerate(drafters):
        for forecast in told[place]:
            for number, way in enumerate(args.lengths):
                name = names[place * len(args.lengths) + number]
                mine = [
                    run for run in runs if run.contestant.name == name and same_law(run.settings, forecast.settings)
                ]
                found.append(Line(drafter.name, way, forecast, mine))
    return found


def same_law(one: Settings, other: Settings) -> bool:
    """But for the noise; at temperature 0 whatever the rule."""
    laws = [replace(each.sampling, seed=0) for each in (one, other)]
    return laws[0] == laws[1] and (one.sampling.greedy or one.rule == other.rule)


def tell(text: str) -> None:
    print(f"predicted: {text}", file=sys.stderr, flush=True)


def main(arguments: Sequence[str] | None = None) -> int:
    args = parse(arguments)
    questions = read_questions(args.prompts, args.limit, args.every)
    options = Options(
        target=args.target,
        drafters=tuple(args.drafter or ("lookup", "eagle3", "draft", "auto")),
        temperatures=tuple(args.temperature or (0.0, 1.0)),
        draft_lengths=tuple(args.lengths),
        tree=args.tree,
        seed=args.seed,
        max_tokens=args.max_tokens,
    )
    target = open_target(options)
    session, _ = open_session(target, options)
    args.laws = [options.settings(temperature) for temperature in options.temperatures]
    drafters = [open_drafter(spec, target, args.tree) for spec in options.drafters]
    told = [forecasts_of(target, session, drafter, questions, args) for drafter in drafters]
    rules = [replace(law, rule=rule) for law in args.laws for rule in rules_at(law, args.rules)]
    lines = lines_of(drafters, told, measured(target, session, options, questions, rules), args)
    print(f"{'drafter':<16} {'law':<15} {'k':>4}   tau: predicted, measured     speed-up: predicted, measured (median)")
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
    add("--acceptance", action="append", dest="rules", choices=RULES, help="default: both")
    add("--tree", action="store_true")
    add("--limit", type=int)
    add("--every", type=int, default=1)
    add("--max-tokens", type=int, default=128)
    add("--seed", type=int, default=0)
    add("--keep-costs", action="store_true")
    add("--json", type=Path)
    args = parser.parse_args(arguments)
    args.lengths = list(dict.fromkeys(args.lengths or [2, 5, None]))
    if any(length is not None and not 1 <= length <= LONGEST_CHAIN for length in args.lengths) and not args.tree:
        parser.error(f"--draft-length: give auto or a number from 1 to {LONGEST_CHAIN}, which is how far predict looks")
    args.rules = list(dict.fromkeys(args.rules or RULES))
    return args


if __name__ == "__main__":
    raise SystemExit(main())
