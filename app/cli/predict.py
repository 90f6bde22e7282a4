"""`redline predict`: forecasts how a drafter performs for a target on this machine; the pair generates nothing."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING, Any

from app.cli.decoding_options import add_sampling, add_selection, check_counts, read_options, read_temperatures
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
    from app.forecast.forecaster import Forecaster
    from models.forecast.forecast import Forecast

MAX_TOKENS = 128
_NOTHING_DRAFTED = "drafter is none, which drafts nothing: name another drafter or a folder"
_DESCRIPTION = (
    "Predict how well a drafter works for a target on this machine: acceptance, tokens per pass, the best draft length "
    "and the speed-up, each with its sampling error. The target's replies to the prompts are written once and kept; "
    "both models then read them. The speed-up is from the round times learnt on this machine, or from typical ones."
)
_EXAMPLES = """examples:
  redline predict                                       the built-in model and the drafter chosen by auto
  redline predict TARGET DRAFTER                        two folders, or a drafter's name
  redline predict TARGET DRAFTER --prompts FILE         your own prompts, one per line or in Spec-Bench's format
  redline predict --temperature 0 --temperature 1       greedy, rejection and coupled sampling at temperature 1
"""
_PROMPTS = "one prompt per line, or Spec-Bench's format (default: the twelve included)"


def add_parser(commands: Commands) -> None:
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
    from app.bench.benchmark import Benchmark
    from app.forecast.forecaster import Forecaster
    from app.inference import environment, pair_loader
    from app.inference.options import target_name

    notify(f"loading {target_name(options)}")
    target = pair_loader.open_target(options)
    drafter = pair_loader.open_drafter(options.drafter, target, options.tree, options.cache_root)
    if drafter.drafter is None:
        raise UsageError(_NOTHING_DRAFTED)
    session, note, _ = pair_loader.open_session(target, options)
    forecaster = Forecaster(target, drafter, session, options.cache_root)
    learnt = all(one.learnt for one in forecaster.times)
    prior = "" if learnt else "this pair has not replied on this machine yet: speed-ups are from typical round times"
    for text in filter(None, (drafter.note, note, prior)):
        notify(text)
    Benchmark(session, [], [], turns=1).check(questions)
    forecasts = _forecast(args, options, forecaster, questions)
    if forecasts is None:
        return INTERRUPTED
    about = {
        "environment": environment.describe(options, target),  # as in `app.bench.bench_document`
        "drafter": "+".join(part.name for part in drafter.parts),  # its name, or that of its folder
        "tree": drafter.branches,  # whether it drafts trees; draft lengths are then numbers of nodes
        "times_learnt": learnt,  # whether round times are of this machine
    }
    _show(args, about, forecasts)
    return OK


def _check(args: argparse.Namespace, options: Options) -> list[Question]:
    """Checks everything that can be wrong before a model is loaded, and returns the questions. Raises UsageError."""
    from app.bench.prompt_file import read_questions_or_lines
    from app.command_line import check_writable

    check_counts(args, "limit", "every")
    if options.drafter == "none":
        raise UsageError(_NOTHING_DRAFTED)
    if args.json is not None:
        check_writable(args.json, "--json")
    return read_questions_or_lines(args.prompts, args.limit, args.every)


def _forecast(
    args: argparse.Namespace, options: Options, forecaster: Forecaster, questions: list[Question]
) -> list[Forecast] | None:
    """Returns all forecasts; None after Ctrl-C, which keeps the replies already written."""
    from app.cli.terminal.progress import count_progress

    settings = read_temperatures(args, options)
    rules = [rule for rule in ACCEPTANCE_RULES if args.acceptance in (None, rule)]
    if options.tree and args.acceptance is None and not all(one.greedy for one in settings):
        notify("trees: using coupled sampling only; with --acceptance rejection those of fixed tokens can be forecast")
        rules = ["coupled"]
    whole = len(questions) * len(settings)
    try:
        if missing := forecaster.missing_replies(questions, settings):
            notify(f"writing {missing} of {whole} replies (once for all drafters)")
        with count_progress(missing + whole) as forecaster.step:
            return [forecast for one in settings for forecast in forecaster.forecast(questions, one, rules)]
    except KeyboardInterrupt:
        kept = whole - forecaster.missing_replies(questions, settings)
        notify(f"stopped; {kept} of {whole} replies are kept for the next run")
        return None


def _show(args: argparse.Namespace, about: dict[str, Any], forecasts: list[Forecast]) -> None:
    from app.bench.bench_document import write_document
    from app.forecast import forecast_report
    from app.inference import environment

    replies = f"{count(len(forecasts[0].replies), 'prompt')}, {forecasts[0].tokens:,} tokens"
    line = f"{about['drafter']} · {replies} · {environment.summary(about['environment'])}"
    try:  # show the table even if the disk is full
        forecast_report.show(output_console(wide=True), line, forecasts, about["tree"], about["times_learnt"])
    finally:
        if args.json is not None:
            write_document(args.json, forecast_report.document(about, forecasts))
