"""`redline race`: two ways of decoding on one loaded target; both texts as they were timed, and the receipt."""

from __future__ import annotations

import argparse
import os
import sys
import time
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from app.cli.decoding_options import add_options, read_options
from app.cli.terminal.keyboard import Status, ctrl_c, key_presses
from app.cli.terminal.safe_text import safe
from app.cli.terminal.token_style import THEMES, choose_look
from app.command_line import FAILURE, INTERRUPTED, OK
from app.inference.options import Options
from app.protocol import SamplingSettings
from app.protocol.race_messages import PLAIN, SIDES, Race, Side
from app.race.race_document import RaceDocument, RaceDocumentBuilder, RaceError, open_race, race_json, write_file
from app.race.race_replay import SPEEDS
from app.race.race_text import read_side, write_side
from app.writable_file import check_writable
from engine.errors import UsageError

if TYPE_CHECKING:
    from app.race.contest import RaceOptions

RUNS = 3
_SPEEDS = ", ".join(f"{speed:g}" for speed in SPEEDS)
MAX_TOKENS = 128
_EXAMPLES = """examples:
  redline race --prompt "List the months and the days of each."
  redline race --prompt "Tell me a story." --drafter FOLDER --temperature 0.7 --acceptance coupled
  redline race --prompt "Why is the sky blue?" --side eagle3:2 --side eagle3:8:tree --runs 5
  redline race --prompt "Why is the sky blue?" --save race.json --png race.png --animation race.gif
  redline race --replay race.json
"""


def add_parser(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the command to the tree."""
    parser = subparsers.add_parser(
        "race",
        description="Race plain decoding against speculative decoding, or any two sides, on the same loaded target. "
        "The sides are measured one after the other and then replayed side by side.",
        epilog=_EXAMPLES,
    )
    add = parser.add_argument
    add("--prompt", metavar="TEXT", help="prompt for both sides")
    add(
        "--side",
        action="append",
        default=[],
        metavar="SPEC",
        help="a side: DRAFTER[:LENGTH][:tree][:rejection|coupled], where none is plain decoding; give two, or one to "
        "race against plain decoding (default: plain decoding against --drafter)",
    )
    add("--runs", type=int, default=RUNS, metavar="N", help=f"runs of each side, alternated (default: {RUNS})")
    add("--replay", type=Path, metavar="FILE", help="replay a saved race; nothing is loaded or measured")
    add("--save", type=Path, metavar="FILE", help="save the race as JSON for --replay")
    add("--png", type=Path, metavar="FILE", help="save a picture of the result")
    add("--animation", type=Path, metavar="FILE", help="save an animation of the race: .gif, .png or .webp")
    add(
        "--speed",
        type=float,
        choices=SPEEDS,
        default=1.0,
        metavar="TIMES",
        help=f"speed of the replay: {_SPEEDS} (default: 1)",
    )
    add("--no-animation", action="store_true", help="print the texts at once instead of replaying them")
    add("--json", action="store_true", help="print the race as one JSON document")
    add("--theme", choices=THEMES, default="auto", help="background of the terminal and of pictures (default: auto)")
    add_options(parser, max_tokens=MAX_TOKENS)
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Runs or opens a race, saves it, shows it and draws it. Returns 1 if a promise was broken. Raises RedlineError."""
    _check_files(args)
    document, stopped = (open_race(args.replay), False) if args.replay is not None else _held(args)
    try:
        if args.save is not None:
            write_file(args.save, race_json(document))
    finally:  # it was measured, whatever the disk says
        _tell(document, args, stopped)
    if args.png is not None or args.animation is not None:
        from app.race.race_export import export_pictures

        status, scheme = Status(sys.stderr), choose_look(True, os.environ, args.theme).theme
        export_pictures(
            document, args.png, args.animation, scheme, lambda done, total: status(f"drawing: {done} of {total}")
        )
    if any(receipt.failed for receipt in document.receipts):
        return FAILURE
    return INTERRUPTED if stopped else OK


def sides_of(args: argparse.Namespace, options: Options) -> tuple[Side, ...]:
    """The two sides. Raises UsageError."""
    named = [read_side(text) for text in args.side]
    if len(named) > SIDES:
        raise UsageError(f"--side is given {len(named)} times: a race is between {SIDES}")
    if named and (args.drafter or args.draft_length or args.tree):
        raise UsageError("--side says all of a side: leave --drafter, --draft-length and --tree out")
    if named:
        return tuple(named) if len(named) == SIDES else (PLAIN, named[0])
    if options.drafter == "none":
        raise UsageError("--drafter none would race plain decoding against itself: name a drafter")
    other = Side(drafter=options.drafter, tree=options.tree, draft_length=options.draft_length, acceptance=options.rule)
    return PLAIN, other


def _check_files(args: argparse.Namespace) -> None:
    """What can be wrong before anything is loaded. Raises UsageError."""
    if args.replay is not None and (args.prompt is not None or args.side):
        raise UsageError("--replay shows a race that was held: leave --prompt and --side out")
    if args.replay is None and args.prompt is None:
        raise UsageError("there is nothing to race: give --prompt, or --replay with a race that was saved")
    if args.animation is not None:
        from app.race.race_export import ANIMATIONS

        if args.animation.suffix.lower() not in ANIMATIONS:
            raise UsageError(f"{args.animation.name}: an animation ends in {', '.join(ANIMATIONS)}")
    for option, path in (("--save", args.save), ("--png", args.png), ("--animation", args.animation)):
        if path is not None:
            check_writable(path, option)


def _held(args: argparse.Namespace) -> tuple[RaceDocument, bool]:
    """Load what it takes, and race; whether Ctrl-C cut it short. Raises RedlineError; KeyboardInterrupt where that left
    no pair of runs."""
    options = _options(args)
    from app.race.contest import RaceOptions, level

    sides = level(sides_of(args, options))
    race = RaceOptions(1, args.prompt, options, sides, args.runs)
    status = Status(sys.stderr)
    try:
        return _race(race, options, status)
    finally:
        status.clear()


def _options(args: argparse.Namespace) -> Options:
    """Everything that can be wrong before a model is loaded. Raises UsageError."""
    options = read_options(args, random_seed=True)
    for name, values in (
        ("drafter", options.drafters),
        ("temperature", options.temperatures),
        ("draft-length", options.draft_lengths),
    ):
        if len(values) > 1:
            raise UsageError(
                f"--{name} is given {len(values)} times: --side names two sides, `redline bench` compares several"
            )
    return options if options.temperatures[0] else replace(options, seed=args.seed or 0)


def _race(race: RaceOptions, options: Options, status: Status) -> tuple[RaceDocument, bool]:
    from app.inference.loaded_pair import open_target
    from app.inference.options import target_name
    from app.race.contest import Contest

    status(f"loading {target_name(options)}")
    pair = open_target(options)
    if pair.note:
        status(pair.note)
    builder = RaceDocumentBuilder(
        Race(id=race.number, prompt=race.prompt, sampling=sampling_of(options), sides=race.sides, runs=race.runs),
        time.time(),
    )
    with ctrl_c() as stopped:
        for answer in Contest(pair, race, stopped).answers():
            builder.hear(answer)
            progress = builder.progress
            if progress is not None:
                status(
                    f"{progress.message}: {write_side(race.sides[progress.side])}" if progress.run else progress.message
                )
    document, was_stopped = builder.document(), builder.done is not None and builder.done.stopped
    if document is None and was_stopped:
        raise KeyboardInterrupt
    if document is None:
        raise RaceError(
            "the results of the runs contradict each other: race again, and report it if that does not help"
        )
    return document, was_stopped


def sampling_of(options: Options) -> SamplingSettings:
    """What both sides share."""
    return SamplingSettings(
        temperature=options.temperatures[0],
        top_p=options.top_p,
        top_k=options.top_k,
        min_p=options.min_p,
        repetition_penalty=options.repetition_penalty,
        seed=options.seed,
        max_tokens=options.max_tokens,
        stop=options.stop,
        exact=options.exact,
    )


def _tell(document: RaceDocument, args: argparse.Namespace, stopped: bool) -> None:
    if args.json:
        sys.stdout.write(race_json(document).decode())
    else:
        _show(document, args)
    if stopped:
        print(f"redline: stopped before the last of {args.runs} runs: what was whole by then counts", file=sys.stderr)


def _show(document: RaceDocument, args: argparse.Namespace) -> None:
    from rich.console import Console

    from app.cli.race_view import play, show

    for one in document.contestants:
        if one.note:
            print(f"redline: {safe(one.note)}", file=sys.stderr)
    look = choose_look(sys.stdout.isatty(), os.environ, args.theme)
    console = Console(width=None if look.escapes else 100, highlight=False)
    if look.escapes and not args.no_animation:
        with key_presses(sys.stdin) as keys:
            play(console, look, document, args.speed, keys=keys)
    show(console, look, document)
