"""`redline bench`: every drafter and temperature over a file of prompts, against plain decoding in the same process."""

from __future__ import annotations

import argparse
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from app.cli.decoding_options import (
    add_options,
    add_selection,
    add_servers,
    check_counts,
    read_draft_lengths,
    read_options,
    read_servers,
    read_temperatures,
)
from app.cli.terminal.output import output_console
from app.command_line import FAILURE, INTERRUPTED, OK, add_command, check_writable, notify
from app.inference.options import AUTO, Options
from app.remote.openai_client import WHAT_IS_SENT
from app.reply_statistics import count
from engine.errors import UsageError

if TYPE_CHECKING:
    from app.bench.bench_document import BenchDocument
    from app.bench.benchmark import Benchmark
    from app.bench.prompt_file import Question
    from app.bench.saved_results import SavedResults
    from app.bench.server_contestant import ServerContestant
    from app.command_line import Commands
    from app.inference.loaded_pair import LoadedPair

MAX_TOKENS = 128
_DESCRIPTION = "Compare drafters and temperatures with plain decoding on a file of prompts."
_EXAMPLES = """examples:
  redline bench                                                  twelve prompts with the automatic drafter
  redline bench PROMPTS.jsonl --drafter lookup --drafter FOLDER  compare two drafters
  redline bench --temperature 0 --temperature 1 --acceptance coupled --json results.json
  redline bench --peer mlx-lm                                    compare with mlx-lm's stream_generate
  redline bench --against http://127.0.0.1:8080                  compare with another program
  redline bench --draft-length auto --draft-length 1 --draft-length 4 --random
                                                                 check that auto is never slower
  redline bench --draft-length auto --draft-length 4 --random --without "random 4"
                                                                 skip one combination
  redline bench --exact                                          measure the cost of bit-identity
  redline bench PROMPTS.jsonl --json results.json --resume       continue an interrupted benchmark
  redline bench --from results.json --plot results.png           show and plot saved results
"""
_PROMPTS = "prompts in Spec-Bench's format (default: the twelve included)"
_HISTORY = "let lookup draft from the replies to earlier prompts of this run too; each prompt gets a seed of its own"
_WITHOUT = "skip drafters by their name in the table; * and ? are wildcards; may be repeated"


def add_parser(commands: Commands) -> None:
    parser = add_command(commands, "bench", run, _DESCRIPTION, _EXAMPLES)
    add = parser.add_argument
    add("prompts", nargs="?", type=Path, metavar="PROMPTS.jsonl", help=_PROMPTS)
    add_selection(parser)
    add("--turns", choices=("first", "all"), default="first", help="turns of each prompt to answer (default: first)")
    add("--repeats", type=int, default=1, metavar="N", help="repeat every prompt N times (default: 1)")
    add("--random", action="store_true", help="add a drafter with random weights, the worst case")
    add("--history", action="store_true", help=_HISTORY)
    add("--without", action="append", default=[], metavar="NAME", help=_WITHOUT)
    add("--peer", choices=("mlx-lm",), help="also run another engine on the same weights")
    add_servers(parser)
    add("--json", type=Path, metavar="FILE", help="save the results to FILE after every prompt")
    add("--resume", action="store_true", help="continue from the results in --json FILE")
    add("--plot", type=Path, metavar="FILE.png", help="plot speed-up, acceptance, round times and losses")
    add("--from", type=Path, dest="saved", metavar="FILE.json", help="show and plot saved results; measure nothing")
    add_options(parser, several=True, max_tokens=MAX_TOKENS)


def run(args: argparse.Namespace) -> int:
    """Measures, shows and saves. Returns 1 if a text differs from plain decoding's by more than a near-tie.

    Raises RedlineError.
    """
    from app.bench import bench_document

    options = read_options(args, random_seed=False)
    questions = _check(args, options)
    if args.saved is not None:
        return _show(args, bench_document.read_document(args.saved))
    benchmark, results = _load(args, options, questions)
    interrupted = _measure(benchmark, results, questions)
    try:  # show the table even if the disk is full
        return _show(args, results.document(interrupted))
    finally:  # save even if the pipe is closed
        results.save(interrupted)


def _check(args: argparse.Namespace, options: Options) -> list[Question]:
    """Checks the options before a model is loaded, and returns the questions. Raises UsageError."""
    from app.bench import prompt_file

    check_counts(args, "limit", "every", "repeats")
    read_servers(args)
    if args.peer and options.sampling.stop:
        raise UsageError("--peer mlx-lm does not support stop strings: leave out --stop or --peer")
    if args.resume and args.history:
        raise UsageError("--history drafts from the replies of this run: leave out --resume")
    if args.resume and args.json is None:
        raise UsageError("--resume needs the results to continue: add --json FILE")
    if args.saved is not None and (args.json is not None or args.prompts is not None or args.without):
        raise UsageError("--from measures nothing: leave out --json, --without and the prompts")
    for path, option in ((args.json, "--json"), (args.plot, "--plot")):
        if path is not None:
            check_writable(path, option)
    return [] if args.saved is not None else prompt_file.read_questions(args.prompts, args.limit, args.every)


def _load(args: argparse.Namespace, options: Options, questions: list[Question]) -> tuple[Benchmark, SavedResults]:
    """Loads the models and the results so far. Raises RedlineError."""
    from app.bench import bench_document, benchmark, contestants, saved_results
    from app.inference import environment
    from app.inference.loaded_pair import open_target
    from app.inference.options import target_name

    before = bench_document.read_document(args.json) if args.resume and args.json.exists() else None
    notify(f"loading {target_name(options)}")
    pair = open_target(options)
    if pair.note:
        notify(pair.note)
    lengths = read_draft_lengths(args)
    everyone = contestants.make_contestants(options, lengths, pair, args.peer is not None, notify, args.random)
    everyone += _servers(args, pair)
    chosen = contestants.leave_out(everyone, args.without)
    settings = [replace(one, exact=False) for one in read_temperatures(args, options)]  # each contestant has a mode
    turns = None if args.turns == "all" else 1
    names = [contestant.name for contestant in chosen]
    about = {**environment.describe(options, pair.target), "weights": environment.weights(options, pair.target)}
    about["draft_lengths"] = [AUTO if length is None else length for length in lengths]
    order_seed = args.order_seed or 0
    if args.against:
        about |= {"order_seed": order_seed, "pause_s": args.pause}
    results = saved_results.SavedResults(args.json, about, names, turns, args.repeats, notify)
    if before is not None:
        results.resume(before, questions, settings)
        notify(f"continuing after {len(results.rows)} replies")
    return benchmark.Benchmark(
        pair.session,
        chosen,
        settings,
        turns,
        notice=notify,
        repeats=args.repeats,
        begun=results.replies_each,
        learn=args.history,
        order_seed=order_seed,
        pause_s=args.pause,
    ), results


def _servers(args: argparse.Namespace, pair: LoadedPair) -> list[ServerContestant]:
    """Returns the servers that are named, which must answer. Raises UsageError or ServerError."""
    from app.bench.server_contestant import ServerContestant
    from app.remote.openai_client import ServerClient

    found: dict[str, ServerContestant] = {}
    for server in read_servers(args):
        client = ServerClient(server)
        if client.name in found:
            raise UsageError(f"{client.name} is named twice: name each server and model once")
        found[client.name] = ServerContestant(client.name, client, pair.target.tokenizer)
    if found:
        notify(f"{WHAT_IS_SENT}: {', '.join(found)}")
    return list(found.values())


def _measure(benchmark: Benchmark, results: SavedResults, questions: list[Question]) -> bool:
    """Measures what is missing. Returns whether Ctrl-C interrupted it; the results so far count."""
    from app.cli.terminal.progress import count_progress

    benchmark.check(questions)
    left = benchmark.replies(questions, results.done)
    if not left:
        return False
    try:
        notify("warming up")
        benchmark.warm_up(questions[0])
        with count_progress(left) as benchmark.progress:
            for runs in benchmark.run(questions, results.done):
                results.add(runs)
        results.drift = benchmark.drift(questions[0], results.rows)
    except KeyboardInterrupt:
        if not results.rows:
            raise
        return True
    return False


def _show(args: argparse.Namespace, value: BenchDocument) -> int:
    """Shows the tables, writes the plot and returns the exit code. Raises RedlineError when it cannot be written."""
    from app.bench import bench_table, plot
    from app.inference import environment

    bench_table.show(output_console(wide=True), f"{_about(value)} · {environment.summary(value.environment)}", value)
    if args.plot is not None:
        plot.write_plot(args.plot, value)
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
    prompts = f"{count(replies, 'prompt')}{f', {times} times' if times > 1 else ''}"
    trees = " (trees)" if made["tree"] else ""
    return f"{prompts}, at most {made['max_tokens']} tokens each, draft length {lengths}{trees}{seed}"
