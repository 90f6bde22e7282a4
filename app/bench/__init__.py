"""`redline bench`: every drafter and temperature over a file of prompts, against plain decoding in the same process."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from app.cli import FAILURE, INTERRUPTED, OK
from app.options import Options, add_options, read_options
from engine.errors import UsageError

if TYPE_CHECKING:
    from app.bench.questions import Question
    from app.bench.tournament import Run, Tournament

MAX_TOKENS = 128
_EXAMPLES = """examples:
  redline bench                                                  twelve prompts, the drafter that auto takes
  redline bench PROMPTS.jsonl --drafter lookup --drafter FOLDER  two drafters on the same prompts
  redline bench --temperature 0 --temperature 1 --acceptance coupled --json results.json
  redline bench --peer mlx-lm                                    with mlx-lm's stream_generate beside it
"""


def add_parser(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the command to the tree."""
    parser = subparsers.add_parser(
        "bench",
        description="Every drafter and temperature over a file of prompts, against plain decoding in the same process.",
        epilog=_EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    add = parser.add_argument
    add("prompts", nargs="?", type=Path, metavar="PROMPTS.jsonl", help="Spec-Bench's format (default: our own twelve)")
    add("--limit", type=int, metavar="N", help="only the first N prompts")
    add("--every", type=int, default=1, metavar="K", help="only one prompt in K, for a share of every kind (1: all)")
    add("--turns", choices=("first", "all"), default="first", help="which turns of a prompt are answered")
    add("--peer", choices=("mlx-lm",), help="another engine beside ours, on the same weights")
    add("--json", type=Path, metavar="FILE", help="write everything measured to this file")
    add_options(parser, several=True, max_tokens=MAX_TOKENS)
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Measure, tell, write. 1 if a text of ours differs from plain decoding's by more than a near-tie.

    Raises RedlineError.
    """
    options = read_options(args, random_seed=False)
    questions = _check(args, options)
    from app import environment, pair
    from app.bench import contestants, document, table, tournament
    from app.conversation import target_name

    _tell(f"loading {target_name(options)}")
    target = pair.open_target(options)
    session = pair.open_session(target, options)
    everyone = contestants.enter(options, target, session, args.peer is not None, _tell)
    settings = [options.settings(temperature) for temperature in dict.fromkeys(options.temperatures)]
    games = tournament.Tournament(session, everyone, settings, None if args.turns == "all" else 1, notice=_tell)
    runs, interrupted = _play(games, questions)
    made_with = environment.describe(options, target)
    value = document.document(made_with, runs, interrupted)
    from rich.console import Console

    about = f"{_about(runs, options)} · {environment.summary(made_with)}"
    try:  # the table first: it is there even if the disk is full
        table.show(Console(width=None if sys.stdout.isatty() else 100, highlight=False), about, value, runs)
    finally:  # and a closed pipe must not cost the document
        if args.json is not None:
            document.write(args.json, value)
    if any(one.failed for one in runs):
        return FAILURE
    return INTERRUPTED if interrupted else OK


def _check(args: argparse.Namespace, options: Options) -> list[Question]:
    """Everything that can be wrong before a model is loaded. Raises UsageError."""
    from app.bench import document, questions

    for name, value in (("limit", args.limit), ("every", args.every)):
        if value is not None and value < 1:
            raise UsageError(f"{name} is {value}: give at least 1")
    if args.peer and options.stop:
        raise UsageError("--peer mlx-lm knows no stop strings: leave out --stop, or the peer")
    if args.json is not None:
        document.check_writable(args.json)
    return questions.read_questions(args.prompts, args.limit, args.every)


def _play(games: Tournament, questions: list[Question]) -> tuple[list[Run], bool]:
    """All runs, and whether Ctrl-C cut them short: what is there by then counts."""
    from app.bench.progress import progress

    games.check(questions)
    runs: list[Run] = []
    try:
        _tell("warming up")
        games.warm_up(questions[0])
        with progress(games.replies(questions)) as games.progress:
            for heat in games.play(questions):
                runs += heat
    except KeyboardInterrupt:
        if not runs:
            raise
        return runs, True
    return runs, False


def _about(runs: list[Run], options: Options) -> str:
    replies = len({(run.question.id, run.turn) for run in runs})
    seed = f", seed {options.seed}" if any(options.temperatures) else ""
    lengths = " ".join("auto" if length is None else str(length) for length in options.draft_lengths)
    prompts = f"{replies} prompt{'' if replies == 1 else 's'}"
    trees = " (trees)" if options.tree else ""
    return f"{prompts}, at most {options.max_tokens} tokens each, draft length {lengths}{trees}{seed}"


def _tell(text: str) -> None:
    print(f"redline: {text}", file=sys.stderr, flush=True)
