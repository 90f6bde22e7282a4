"""`redline bench`: every drafter and temperature over a file of prompts, against plain decoding in the same process."""

from __future__ import annotations

import argparse
import sys
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from app.cli import FAILURE, INTERRUPTED, OK
from app.files import check_writable
from app.options import Options, add_options, read_options
from engine.errors import UsageError

if TYPE_CHECKING:
    from app.bench.ledger import Ledger
    from app.bench.questions import Question
    from app.bench.rows import Document
    from app.bench.tournament import Tournament

MAX_TOKENS = 128
_EXAMPLES = """examples:
  redline bench                                                  twelve prompts, the drafter that auto takes
  redline bench PROMPTS.jsonl --drafter lookup --drafter FOLDER  two drafters on the same prompts
  redline bench --temperature 0 --temperature 1 --acceptance coupled --json results.json
  redline bench --peer mlx-lm                                    with mlx-lm's stream_generate beside it
  redline bench --draft-length auto --draft-length 1 --draft-length 4 --random
                                                                 is auto ever slower, or far from the best length?
  redline bench --draft-length auto --draft-length 4 --random --without "random 4"
                                                                 what is not worth its time is left out
  redline bench --exact                                          what bit-identity costs
  redline bench PROMPTS.jsonl --json results.json --resume       go on where it was cut off
  redline bench --from results.json --plot results.png           tables and picture again, nothing measured
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
    add("--repeats", type=int, default=1, metavar="N", help="every reply N times, in an order that rotates (1)")
    add("--random", action="store_true", help="a drafter of random weights too: what is lost with a useless one")
    without = "leave these out, by their name in the table, * and ? as in a shell; may be repeated"
    add("--without", action="append", default=[], metavar="NAME", help=without)
    add("--peer", choices=("mlx-lm",), help="another engine beside ours, on the same weights")
    add("--json", type=Path, metavar="FILE", help="write everything measured to this file, prompt by prompt")
    add("--resume", action="store_true", help="go on from what --json FILE holds already")
    add("--plot", type=Path, metavar="FILE.png", help="draw it: speed-up by category, acceptance, costs, losses")
    add("--from", type=Path, dest="kept", metavar="FILE.json", help="measure nothing: show and plot this document")
    add_options(parser, several=True, max_tokens=MAX_TOKENS)
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Measure, tell, write. 1 if a text of ours differs from plain decoding's by more than a near-tie.

    Raises RedlineError.
    """
    from app.bench import document

    options = read_options(args, random_seed=False)
    questions = _check(args, options)
    if args.kept is not None:
        kept = document.read(args.kept)
        _show(args, kept)
        return _code(kept)
    games, ledger = _ready(args, options, questions)
    interrupted = _play(games, ledger, questions)
    value = ledger.document(interrupted)
    try:  # the table first: it is there even if the disk is full
        _show(args, value)
    finally:  # and a closed pipe must not cost the document
        ledger.save(interrupted)
    return _code(value)


def _check(args: argparse.Namespace, options: Options) -> list[Question]:
    """Everything that can be wrong before a model is loaded. Raises UsageError."""
    from app.bench import questions

    for name in ("limit", "every", "repeats"):
        value = getattr(args, name)
        if value is not None and value < 1:
            raise UsageError(f"{name} is {value}: give at least 1")
    if args.peer and options.stop:
        raise UsageError("--peer mlx-lm knows no stop strings: leave out --stop, or the peer")
    if args.resume and args.json is None:
        raise UsageError("--resume goes on from a document: name it with --json FILE")
    if args.kept is not None and (args.json is not None or args.prompts is not None or args.without):
        raise UsageError("--from measures nothing: leave out --json, --without and the prompts, or --from")
    for path, option in ((args.json, "--json"), (args.plot, "--plot")):
        if path is not None:
            check_writable(path, option)
    return [] if args.kept is not None else questions.read_questions(args.prompts, args.limit, args.every)


def _ready(args: argparse.Namespace, options: Options, questions: list[Question]) -> tuple[Tournament, Ledger]:
    """Load everyone, and what was measured before. Raises RedlineError."""
    from app import environment, pair
    from app.bench import contestants, document, ledger, tournament
    from app.conversation import target_name

    before = document.read(args.json) if args.resume and args.json.exists() else None
    _tell(f"loading {target_name(options)}")
    target = pair.open_target(options)
    session, said = pair.open_session(target, options)
    if said:
        _tell(said)
    entered = contestants.enter(options, target, session, args.peer is not None, _tell, args.random)
    everyone = contestants.leave_out(entered, args.without)
    usual = replace(options, exact=False)  # each contestant has its own mode
    settings = [usual.settings(temperature) for temperature in dict.fromkeys(options.temperatures)]
    turns = None if args.turns == "all" else 1
    names = [contestant.name for contestant in everyone]
    about = {**environment.describe(options, target), "weights": environment.weights(options, target)}
    kept = ledger.Ledger(args.json, about, names, turns, args.repeats, _tell)
    if before is not None:
        kept.take_up(before, questions, settings)
        _tell(f"going on behind {len(kept.rows)} replies")
    games = tournament.Tournament(session, everyone, settings, turns, notice=_tell, repeats=args.repeats)
    games.begun = kept.heats
    return games, kept


def _play(games: Tournament, ledger: Ledger, questions: list[Question]) -> bool:
    """All runs, but for those that are there; whether Ctrl-C cut them short: what is there by then counts."""
    from app.bench.progress import progress

    games.check(questions)
    left = games.replies(questions, ledger.done)
    if not left:
        return False
    try:
        _tell("warming up")
        games.warm_up(questions[0])
        with progress(left) as games.progress:
            for heat in games.play(questions, ledger.done):
                ledger.add(heat)
    except KeyboardInterrupt:
        if not ledger.rows:
            raise
        return True
    return False


def _show(args: argparse.Namespace, value: Document) -> None:
    """Tables, and the picture where one is asked for. Raises RedlineError where it cannot be written."""
    from rich.console import Console

    from app import environment
    from app.bench import plot, table

    console = Console(width=None if sys.stdout.isatty() else 100, highlight=False)
    table.show(console, f"{_about(value)} · {environment.summary(value.environment)}", value)
    if args.plot is not None:
        plot.write(args.plot, value)


def _code(value: Document) -> int:
    if any(row.failed for row in value.runs):
        return FAILURE
    return INTERRUPTED if value.interrupted else OK


def _about(value: Document) -> str:
    made = value.environment
    replies = len({(row.question_id, row.turn) for row in value.runs})
    times = max((row.repeat for row in value.runs), default=0) + 1
    seeds = sorted({row.seed for row in value.runs if row.temperature})
    seed = f", seed {seeds[0]}" if seeds else ""
    lengths = " ".join(map(str, made["draft_lengths"]))
    prompts = f"{replies} prompt{'' if replies == 1 else 's'}{f', {times} times' if times > 1 else ''}"
    trees = " (trees)" if made["tree"] else ""
    return f"{prompts}, at most {made['max_tokens']} tokens each, draft length {lengths}{trees}{seed}"


def _tell(text: str) -> None:
    print(f"redline: {text}", file=sys.stderr, flush=True)
