"""`redline race`: plain, then speculative, on one loaded target; both texts as they were timed, and the receipt."""

from __future__ import annotations

import argparse
import json
import os
import sys
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from app.cli import FAILURE, OK
from app.keyboard import Status
from app.options import Options, add_options, read_options
from app.style import THEMES, choose_look
from engine.errors import UsageError

if TYPE_CHECKING:
    from app.contest import Contest

RUNS = 3
MAX_TOKENS = 128
_EXAMPLES = """examples:
  redline race --prompt "List the months and the days of each."
  redline race --prompt "Tell me a story." --drafter FOLDER --temperature 0.7 --acceptance coupled
  redline race --prompt "Why is the sky blue?" --runs 5 --json
"""


def add_parser(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the command to the tree."""
    parser = subparsers.add_parser(
        "race",
        description="Plain against speculative decoding on the same loaded target, one after the other, side by side.",
        epilog=_EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    add = parser.add_argument
    add("--prompt", required=True, metavar="TEXT", help="what both answer")
    add(
        "--runs", type=int, default=RUNS, metavar="N", help=f"runs of each, alternated; medians count (default: {RUNS})"
    )
    add("--no-animation", action="store_true", help="print the texts at once, not as they were timed")
    add("--json", action="store_true", help="print one JSON document")
    add("--theme", choices=THEMES, default="auto", help="the terminal's background (default: auto)")
    add_options(parser, max_tokens=MAX_TOKENS)
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Race, tell. 1 if the texts differ by more than a near-tie. Raises RedlineError."""
    options = _check(args)
    from app.contest import hold

    status = Status(sys.stderr)
    try:
        contest = hold(options, args.prompt, args.runs, status)
    finally:
        status.clear()
    if args.json:
        print(json.dumps(_document(contest, args.prompt, options), indent=1, ensure_ascii=False, allow_nan=False))
    else:
        _show(contest, args)
    return FAILURE if contest.failed else OK


def _check(args: argparse.Namespace) -> Options:
    """Everything that can be wrong before a model is loaded. Raises UsageError."""
    options = read_options(args, random_seed=True)
    for name, values in (("drafter", options.drafters), ("temperature", options.temperatures)):
        if len(values) > 1:
            raise UsageError(f"--{name} is given {len(values)} times: race takes one, `redline bench` compares several")
    if options.drafter == "none":
        raise UsageError("--drafter none would race plain decoding against itself: name a drafter")
    if not args.prompt.strip():
        raise UsageError("the prompt is empty: say something to answer")
    if args.runs < 1:
        raise UsageError(f"runs is {args.runs}: give at least 1")
    return options if options.temperatures[0] else replace(options, seed=args.seed or 0)


def _show(contest: Contest, args: argparse.Namespace) -> None:
    from rich.console import Console

    from app.race_view import replay, show

    if contest.said:
        print(f"redline: {contest.said}", file=sys.stderr)
    look = choose_look(sys.stdout.isatty(), os.environ, args.theme)
    console = Console(width=None if look.escapes else 100, highlight=False)
    if look.escapes and not args.no_animation:
        replay(console, look, contest)
    show(console, look, contest)


def _document(contest: Contest, prompt: str, options: Options) -> dict[str, Any]:
    from app.measure import receipt_record, reply_record

    sides = (("none", contest.plain), (contest.drafter, contest.other))
    return {
        "environment": contest.environment,
        "prompt": prompt,
        "acceptance_rule": "greedy" if not options.temperatures[0] else options.rule,
        "temperature": options.temperatures[0],
        "seed": options.seed,
        "runs": [
            {"drafter": drafter, "run": number, **reply_record(reply), "text": reply.text}
            for drafter, side in sides
            for number, reply in enumerate(side.replies)
        ],
        "speedup": contest.speedup,
        "speedup_total": contest.speedup_total,
        **receipt_record(contest.receipt),
    }
