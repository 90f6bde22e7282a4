"""`redline predict`: forecasts how a drafter performs for a target on this machine; the pair generates nothing."""

from __future__ import annotations

import argparse
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from app.cli.decoding_options import add_sampling, add_selection, check_counts, read_options
from app.cli.terminal.output import output_console
from app.command_line import INTERRUPTED, OK, add_command, notify
from app.inference.options import AUTO, Options
from app.reply_statistics import count
from engine.errors import UsageError
from engine.settings import ACCEPTANCE_RULES
from models.paths import BUILTIN

if TYPE_CHECKING:
    from app.bench.prompt_file import Question
    from app.command_line import Commands
    from app.forecast.forecast import Forecast
    from app.forecast.forecaster import Forecaster, QuestionPrompt
    from app.inference.pair_loader import NamedDrafter
    from engine.session import Session
    from engine.settings import AcceptanceRule, SamplingSettings

MAX_TOKENS = 128
_DESCRIPTION = (
    "Predict how well a drafter works for a target on this machine: acceptance, tokens per pass, the best draft length "
    "and the speed-up, each with its sampling error. The target's replies to the prompts are written once and kept; "
    "both models then read them, and measured pass times give the speed-up."
)
_EXAMPLES = """examples:
  redline predict                                       the built-in model and the drafter chosen by auto
  redline predict TARGET DRAFTER                        two folders, or a drafter's name
  redline predict TARGET DRAFTER --prompts FILE         your own prompts, one per line or in Spec-Bench's format
  redline predict --temperature 0 --temperature 1       greedy, rejection and coupled sampling at temperature 1
"""
_PROMPTS = "one prompt per line, or Spec-Bench's format (default: the twelve included)"


def add_parser(commands: Commands) -> None:
    """Adds the command."""
    parser = add_command(commands, "predict", run, _DESCRIPTION, _EXAMPLES)
    add = parser.add_argument
    add("target", nargs="?", default=BUILTIN, metavar="TARGET", help="model folder (default: the built-in model)")
    add("drafter", nargs="?", default=AUTO, metavar="DRAFTER", help="a drafter's name or folder (default: auto)")
    add("--prompts", type=Path, metavar="FILE", help=_PROMPTS)
    add_selection(parser)
    add("--json", type=Path, metavar="FILE", help="write the forecast to this file as JSON")
    group = parser.add_argument_group("sampling and limits")
    add = group.add_argument
    add("--acceptance", choices=ACCEPTANCE_RULES, help="acceptance rule above temperature 0 (default: both)")
    add_sampling(group, several=True, max_tokens=MAX_TOKENS)
    add("--seed", type=int, default=0, metavar="N", help="random seed above temperature 0 (default: 0)")
    parser.set_defaults(draft_length=None, exact=False, stop=(), kv_bits=None, hosts=None)


def run(args: argparse.Namespace) -> int:
    """Makes the forecast, prints it and writes the file. Raises RedlineError."""
    args.drafter = [args.drafter]
    options = read_options(args, random_seed=False)
    questions = _check(args, options)
    from app.forecast.forecaster import Forecaster
    from app.inference import environment, pair_loader
    from app.inference.options import target_name

    notify(f"loading {target_name(options)}")
    target = pair_loader.open_target(options)
    drafter = pair_loader.open_drafter(options.drafter, target, options.tree, options.cache_root)
    if drafter.drafter is None:
        raise UsageError("drafter is none, which drafts nothing: name another drafter or a folder")
    session, note, _ = pair_loader.open_session(target, options)
    for text in filter(None, (drafter.note, note)):
        notify(text)
    forecaster = Forecaster(target, drafter, session, options.cache_root, notify)
    settings = [options.settings(temperature) for temperature in dict.fromkeys(options.temperatures)]
    rules = _rules(args, forecaster, settings)
    forecasts = _forecast(forecaster, _tokenize(session, questions), settings, rules)
    if forecasts is None:
        return INTERRUPTED
    _show(args, drafter, environment.describe(options, target), forecasts)
    return OK


def _check(args: argparse.Namespace, options: Options) -> list[Question]:
    """Checks everything that can be wrong before a model is loaded, and returns the questions. Raises UsageError."""
    from app.bench.prompt_file import read_questions_or_lines
    from app.command_line import check_writable

    check_counts(args, "limit", "every")
    if options.drafter == "none":
        raise UsageError("drafter is none, which drafts nothing: name another drafter or a folder")
    if args.json is not None:
        check_writable(args.json, "--json")
    return read_questions_or_lines(args.prompts, args.limit, args.every)


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
    why = "trees cannot be forecast with rejection sampling"
    if not possible:
        raise UsageError(f"{why}: use --acceptance coupled, or omit --tree")
    if len(possible) < len(requested):
        notify(f"{why}: using coupled sampling only")
    return possible


def _forecast(
    forecaster: Forecaster, prompts: list[QuestionPrompt], settings: list[SamplingSettings], rules: list[AcceptanceRule]
) -> list[Forecast] | None:
    """Returns all forecasts; None after Ctrl-C, which keeps the replies already written."""
    from app.cli.terminal.progress import count_progress

    whole = len(prompts) * len(settings)
    try:
        if missing_replies := forecaster.missing_replies(prompts, settings):
            notify(f"writing {missing_replies} of {whole} replies (once for all drafters)")
        with count_progress(forecaster.steps(prompts, settings)) as forecaster.step:
            forecaster.write(prompts, settings)
            forecaster.measure(prompts, settings, rules)
            return [forecast for one in settings for forecast in forecaster.forecast(prompts, one, rules)]
    except KeyboardInterrupt:
        kept = whole - forecaster.missing_replies(prompts, settings)
        notify(f"stopped; {kept} of {whole} replies are kept for the next run")
        return None


def _show(
    args: argparse.Namespace, drafter: NamedDrafter, made_with: dict[str, Any], forecasts: list[Forecast]
) -> None:
    from app.bench.bench_document import write_document
    from app.forecast import forecast_table
    from app.forecast.forecast import document
    from app.inference import environment

    name = "+".join(part.name for part in drafter.parts)
    replies = f"{count(len(forecasts[0].replies), 'prompt')}, {forecasts[0].totals(None).tokens:,} tokens"
    about = f"{name} · {replies} · {environment.summary(made_with)}"
    try:  # show the table even if the disk is full
        forecast_table.show(output_console(wide=True), about, forecasts, drafter.branches)
    finally:
        if args.json is not None:
            write_document(args.json, document(made_with, name, drafter.branches, forecasts))
