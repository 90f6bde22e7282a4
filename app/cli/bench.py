"""`redline bench`: every drafter and temperature over a file of prompts, against plain decoding in the same process."""

from __future__ import annotations

import argparse
import sys
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from app.cli.decoding_options import add_options, read_options
from app.command_line import FAILURE, INTERRUPTED, OK, check_writable
from app.inference.options import Options
from engine.errors import UsageError

if TYPE_CHECKING:
    from app.bench.bench_document import BenchDocument
    from app.bench.bench_results import BenchResults
    from app.bench.benchmark import Benchmark
    from app.bench.prompt_file import Question

MAX_TOKENS = 128
_EXAMPLES = """examples:
  redline bench                                                  twelve prompts with the automatic drafter
  redline bench PROMPTS.jsonl --drafter lookup --drafter FOLDER  compare two drafters
  redline bench --temperature 0 --temperature 1 --acceptance coupled --json results.json
  redline bench --peer mlx-lm                                    compare with mlx-lm's stream_generate
  redline bench --draft-length auto --draft-length 1 --draft-length 4 --random
                                                                 check that auto is never slower
  redline bench --draft-length auto --draft-length 4 --random --without "random 4"
                                                                 skip one combination
  redline bench --exact                                          measure the cost of bit-identity
  redline bench PROMPTS.jsonl --json results.json --resume       continue an interrupted benchmark
  redline bench --from results.json --plot results.png           show and plot saved results
"""


def add_parser(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Adds the command."""
    parser = subparsers.add_parser(
        "bench",
        description="Compare drafters and temperatures with plain decoding on a file of prompts.",
        epilog=_EXAMPLES,
    )
    add = parser.add_argument
    add("prompts", nargs="?", type=Path, metavar="PROMPTS.jsonl", help="in Spec-Bench's format (default: 12 built-in)")
    add("--limit", type=int, metavar="N", help="use only the first N prompts")
    add("--every", type=int, default=1, metavar="K", help="use one prompt in K (default: 1)")
    add("--turns", choices=("first", "all"), default="first", help="turns of each prompt to answer (default: first)")
    add("--repeats", type=int, default=1, metavar="N", help="repeat every prompt N times (default: 1)")
    add("--random", action="store_true", help="add a drafter with random weights, the worst case")
    without = "skip drafters by their name in the table; * and ? match; may be repeated"
    add("--without", action="append", default=[], metavar="NAME", help=without)
    add("--peer", choices=("mlx-lm",), help="add another engine on the same weights")
    add("--json", type=Path, metavar="FILE", help="save the results to FILE after every prompt")
    add("--resume", action="store_true", help="continue from the results in --json FILE")
    add("--plot", type=Path, metavar="FILE.png", help="plot speed-up, acceptance, costs and losses")
    add("--from", type=Path, dest="kept", metavar="FILE.json", help="show and plot saved results; measure nothing")
    add_options(parser, several=True, max_tokens=MAX_TOKENS)
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Measures, shows and saves. Returns 1 if a text differs from plain decoding's by more than a near-tie.

    Raises RedlineError.
    """
    from app.bench import bench_document

    options = read_options(args, random_seed=False)
    questions = _check(args, options)
    if args.kept is not None:
        kept = bench_document.read_document(args.kept)
        _show(args, kept)
        return _code(kept)
    benchmark, results = _load(args, options, questions)
    interrupted = _measure(benchmark, results, questions)
    value = results.document(interrupted)
    try:  # show the table even if the disk is full
        _show(args, value)
    finally:  # save even if the pipe is closed
        results.save(interrupted)
    return _code(value)


def _check(args: argparse.Namespace, options: Options) -> list[Question]:
    """Checks the options before a model is loaded, and returns the questions. Raises UsageError."""
    from app.bench import prompt_file

    for name in ("limit", "every", "repeats"):
        value = getattr(args, name)
        if value is not None and value < 1:
            raise UsageError(f"--{name} is {value}: use at least 1")
    if args.peer and options.stop:
        raise UsageError("--peer mlx-lm does not support stop strings: leave out --stop or --peer")
    if args.resume and args.json is None:
        raise UsageError("--resume needs the results to continue: add --json FILE")
    if args.kept is not None and (args.json is not None or args.prompts is not None or args.without):
        raise UsageError("--from measures nothing: leave out --json, --without and the prompts")
    for path, option in ((args.json, "--json"), (args.plot, "--plot")):
        if path is not None:
            check_writable(path, option)
    return [] if args.kept is not None else prompt_file.read_questions(args.prompts, args.limit, args.every)


def _load(args: argparse.Namespace, options: Options, questions: list[Question]) -> tuple[Benchmark, BenchResults]:
    """Loads the models and the results so far. Raises RedlineError."""
    from app.bench import bench_document, bench_results, benchmark, contestants
    from app.inference import environment
    from app.inference.loaded_pair import open_target
    from app.inference.options import target_name

    before = bench_document.read_document(args.json) if args.resume and args.json.exists() else None
    _print_notice(f"loading {target_name(options)}")
    pair = open_target(options)
    if pair.note:
        _print_notice(pair.note)
    everyone = contestants.make_contestants(options, pair, args.peer is not None, _print_notice, args.random)
    chosen = contestants.leave_out(everyone, args.without)
    plain = replace(options, exact=False)  # each contestant has its own mode
    settings = [plain.settings(temperature) for temperature in dict.fromkeys(options.temperatures)]
    turns = None if args.turns == "all" else 1
    names = [contestant.name for contestant in chosen]
    about = {**environment.describe(options, pair.target), "weights": environment.weights(options, pair.target)}
    results = bench_results.BenchResults(args.json, about, names, turns, args.repeats, _print_notice)
    if before is not None:
        results.resume(before, questions, settings)
        _print_notice(f"continuing after {len(results.rows)} replies")
    return benchmark.Benchmark(
        pair.session, chosen, settings, turns, notice=_print_notice, repeats=args.repeats, begun=results.replies_each
    ), results


def _measure(benchmark: Benchmark, results: BenchResults, questions: list[Question]) -> bool:
    """Measures what is missing. Returns whether Ctrl-C interrupted it; the results so far count."""
    from app.cli.terminal.progress import count_progress

    benchmark.check(questions)
    left = benchmark.replies(questions, results.done)
    if not left:
        return False
    try:
        _print_notice("warming up")
        benchmark.warm_up(questions[0])
        with count_progress(left) as benchmark.progress:
            for runs in benchmark.run(questions, results.done):
                results.add(runs)
    except KeyboardInterrupt:
        if not results.rows:
            raise
        return True
    return False


def _show(args: argparse.Namespace, value: BenchDocument) -> None:
    """Shows the tables and writes the plot. Raises RedlineError when it cannot be written."""
    from rich.console import Console

    from app.bench import bench_table, plot
    from app.inference import environment

    console = Console(width=None if sys.stdout.isatty() else 100, highlight=False)
    bench_table.show(console, f"{_about(value)} · {environment.summary(value.environment)}", value)
    if args.plot is not None:
        plot.write_plot(args.plot, value)


def _code(value: BenchDocument) -> int:
    if any(row.failed for row in value.runs):
        return FAILURE
    return INTERRUPTED if value.interrupted else OK


def _about(value: BenchDocument) -> str:
    made = value.environment
    replies = len({(row.question_id, row.turn) for row in value.runs})
    times = max((row.repeat for row in value.runs), default=0) + 1
    seeds = sorted({row.seed for row in value.runs if row.temperature})
    seed = f", seed {seeds[0]}" if seeds else ""
    lengths = " ".join(map(str, made["draft_lengths"]))
    prompts = f"{replies} prompt{'' if replies == 1 else 's'}{f', {times} times' if times > 1 else ''}"
    trees = " (trees)" if made["tree"] else ""
    return f"{prompts}, at most {made['max_tokens']} tokens each, draft length {lengths}{trees}{seed}"


def _print_notice(text: str) -> None:
    print(f"redline: {text}", file=sys.stderr, flush=True)
