"""`redline predict`: forecasts what a drafter brings for a target on this machine; the pair generates nothing."""

from __future__ import annotations

import argparse
import sys
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from app.cli.decoding_options import add_sampling
from app.command_line import INTERRUPTED, OK
from app.inference.options import AUTO, BUILTIN, Options
from app.reply_statistics import count
from engine.errors import UsageError
from engine.settings import ACCEPTANCE_RULES

if TYPE_CHECKING:
    from app.bench.prompt_file import Question
    from app.forecast.forecast import Forecast
    from app.forecast.forecaster import Forecaster, QuestionPrompt
    from app.inference.pair_loader import NamedDrafter
    from engine.session import Session
    from engine.settings import AcceptanceRule, SamplingSettings

MAX_TOKENS = 128
_EXAMPLES = """examples:
  redline predict                                       the built-in model and the drafter chosen by auto
  redline predict TARGET DRAFTER                        two folders, or a drafter's name
  redline predict TARGET DRAFTER --prompts FILE         your own prompts, one per line or in Spec-Bench's format
  redline predict --temperature 0 --temperature 1       greedy, rejection and coupled sampling at temperature 1
"""


def add_parser(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Adds the command to the parser."""
    parser = subparsers.add_parser(
        "predict",
        description="Forecast what a drafter brings for a target on this machine: acceptance, tokens per pass, the "
        "best draft length and the speed-up, each with its sampling error. The target writes its replies to the "
        "prompts once and keeps them; both models then read them, and measured pass times give the speed-up.",
        epilog=_EXAMPLES,
    )
    add = parser.add_argument
    add("target", nargs="?", default=BUILTIN, metavar="TARGET", help="model folder (default: the built-in)")
    add("drafter", nargs="?", default=AUTO, metavar="DRAFTER", help="a drafter's name or folder (default: auto)")
    add(
        "--prompts",
        type=Path,
        metavar="FILE",
        help="one prompt per line, or Spec-Bench's format (default: the twelve included)",
    )
    add("--limit", type=int, metavar="N", help="use only the first N prompts")
    add("--every", type=int, default=1, metavar="K", help="use every Kth prompt (default: 1, all)")
    add("--json", type=Path, metavar="FILE", help="write the forecast to this file as JSON")
    _add_sampling(parser)
    parser.set_defaults(run=run)


def _add_sampling(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument_group("sampling and limits").add_argument
    add(
        "--acceptance",
        choices=ACCEPTANCE_RULES,
        help="acceptance rule above temperature 0 (default: both)",
    )
    add("--tree", action="store_true", help="draft trees if drafter and target support them; draft length counts nodes")
    add_sampling(add, several=True)
    add("--seed", type=int, default=0, metavar="N", help="random seed above temperature 0 (default: 0)")
    add("--max-tokens", type=int, default=MAX_TOKENS, metavar="N", help=f"longest reply (default: {MAX_TOKENS})")
    add("--context", type=int, metavar="N", help="maximum tokens of prompt and reply (default: the model's own limit)")
    add(
        "--cache-dir",
        type=Path,
        metavar="DIR",
        help="folder for models, replies and pass times (default: the user's cache)",
    )


def run(args: argparse.Namespace) -> int:
    """Makes the forecast, prints it and writes the file. Raises RedlineError."""
    options = _options(args)
    questions = _check(args, options)
    from app.forecast.forecaster import Forecaster
    from app.inference import environment, pair_loader
    from app.inference.options import target_name

    _report(f"loading {target_name(options)}")
    target = pair_loader.open_target(options)
    drafter = pair_loader.open_drafter(options.drafter, target, options.tree)
    if drafter.drafter is None:
        raise UsageError("drafter is none, which drafts nothing: name another drafter or a folder")
    if drafter.note:
        _report(drafter.note)
    session, note = pair_loader.open_session(target, options)
    if note:
        _report(note)
    forecaster = Forecaster(target, drafter, session, options.cache_root, _report)
    settings = [options.settings(temperature) for temperature in dict.fromkeys(options.temperatures)]
    rules = _rules(args, forecaster, settings)
    forecasts = _forecast(forecaster, _tokenize(session, questions), settings, rules)
    if forecasts is None:
        return INTERRUPTED
    _show(args, drafter, environment.describe(options, target), forecasts)
    return OK


def _options(args: argparse.Namespace) -> Options:
    """Returns the checked options. Raises UsageError."""
    return Options(
        target=args.target,
        drafters=(args.drafter,),
        temperatures=tuple(args.temperature or (0.0,)),
        tree=args.tree,
        rule=args.acceptance or ACCEPTANCE_RULES[0],
        top_p=args.top_p,
        top_k=args.top_k,
        min_p=args.min_p,
        repetition_penalty=args.repetition_penalty,
        seed=args.seed,
        max_tokens=args.max_tokens,
        context=args.context,
        cache_root=args.cache_dir,
    )


def _check(args: argparse.Namespace, options: Options) -> list[Question]:
    """Checks everything that can be wrong before a model is loaded. Raises UsageError."""
    for name, value in (("limit", args.limit), ("every", args.every)):
        if value is not None and value < 1:
            raise UsageError(f"{name} is {value}: give at least 1")
    if options.drafter == "none":
        raise UsageError("drafter is none, which drafts nothing: name another drafter or a folder")
    from app.command_line import check_writable
    from app.forecast.prompts import read

    if args.json is not None:
        check_writable(args.json, "--json")
    return read(args.prompts, args.limit, args.every)


def _tokenize(session: Session, questions: list[Question]) -> list[QuestionPrompt]:
    """Returns the first turns as ids. Raises ContextError if one does not fit, UsageError or ModelError if the
    tokenizer or the chat template refuses it."""
    from app.bench.benchmark import Benchmark
    from app.forecast.forecaster import QuestionPrompt

    Benchmark(session, [], [], turns=1).check(questions)
    chat = session.tokenizer.chat
    prompts = [QuestionPrompt(one, tuple(chat([{"role": "user", "content": one.turns[0]}]))) for one in questions]
    for one in prompts:
        if len(one.prompt) < 2:
            raise UsageError(f"question {one.question.id} is a single token: drafters need at least two")
    return prompts


def _rules(args: argparse.Namespace, forecaster: Forecaster, settings: list[SamplingSettings]) -> list[AcceptanceRule]:
    """Returns the rules to forecast. Raises UsageError if none of those requested can be."""
    requested = [rule for rule in ACCEPTANCE_RULES if args.acceptance in (None, rule)]
    possible = [
        rule for rule in requested if all(forecaster.can_simulate(replace(one, acceptance=rule)) for one in settings)
    ]
    if not possible:
        why = "trees cannot be forecast with rejection sampling"
        raise UsageError(f"{why}: use --acceptance coupled, or omit --tree")
    if len(possible) < len(requested):
        _report("trees cannot be forecast with rejection sampling: using coupled sampling only")
    return possible


def _forecast(
    forecaster: Forecaster, prompts: list[QuestionPrompt], settings: list[SamplingSettings], rules: list[AcceptanceRule]
) -> list[Forecast] | None:
    """Returns all forecasts; None after Ctrl-C, which keeps the replies already written."""
    from app.cli.terminal.progress import count_progress

    try:
        if missing_replies := forecaster.missing_replies(prompts, settings):
            _report(f"writing {missing_replies} of {len(prompts) * len(settings)} replies (once for all drafters)")
        with count_progress(forecaster.steps(prompts, settings)) as forecaster.step:
            forecaster.write(prompts, settings)
            forecaster.measure(prompts, settings, rules)
            return [forecast for one in settings for forecast in forecaster.forecast(prompts, one, rules)]
    except KeyboardInterrupt:
        whole = len(prompts) * len(settings)
        kept = whole - forecaster.missing_replies(prompts, settings)
        _report(f"stopped; {kept} of {whole} replies are kept for the next run")
        return None


def _show(
    args: argparse.Namespace, drafter: NamedDrafter, made_with: dict[str, Any], forecasts: list[Forecast]
) -> None:
    from rich.console import Console

    from app.bench.bench_document import write_document
    from app.forecast import forecast_document, forecast_table
    from app.inference import environment

    name = "+".join(part.name for part in drafter.parts)
    tokens = forecasts[0].totals(None).tokens
    about = (
        f"{name} · {count(len(forecasts[0].replies), 'prompt')}, {tokens:,} tokens · {environment.summary(made_with)}"
    )
    try:  # the table first: it is there even if the disk is full
        console = Console(width=None if sys.stdout.isatty() else 100, highlight=False)
        forecast_table.show(console, about, forecasts, drafter.branches)
    finally:
        if args.json is not None:
            write_document(args.json, forecast_document.document(made_with, name, drafter.branches, forecasts))


def _report(text: str) -> None:
    print(f"redline: {text}", file=sys.stderr, flush=True)
