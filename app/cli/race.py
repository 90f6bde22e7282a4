"""`redline race`: two ways of decoding on one loaded target; both texts as they were timed, and the receipt."""

from __future__ import annotations

import argparse
import os
import secrets
import sys
import time
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from app.cli.decoding_options import add_options, add_servers, check_single, read_options, read_servers
from app.cli.terminal.keyboard import ctrl_c, key_presses
from app.cli.terminal.output import output_console
from app.cli.terminal.progress import Status
from app.cli.terminal.token_style import add_theme, choose_look, output_look
from app.command_line import FAILURE, INTERRUPTED, OK, add_command, check_writable, notify, print_json
from app.inference.options import Options
from app.protocol.race_messages import PLAIN, SIDES, Race, Side
from app.race.race_document import RaceDocument, RaceDocumentBuilder, RaceError, open_race, race_json, write_file
from app.race.race_page import race_page
from app.race.race_replay import SPEEDS
from app.race.race_text import read_side, write_side
from engine.errors import UsageError

if TYPE_CHECKING:
    from app.command_line import Commands

RUNS, MAX_TOKENS = 3, 128
_EXAMPLES = """examples:
  redline race --prompt "List the months and the days of each."
  redline race --prompt "Tell me a story." --drafter FOLDER --temperature 0.7 --acceptance coupled
  redline race --prompt "Why is the sky blue?" --side eagle3:2 --side eagle3:8:tree --runs 5
  redline race --prompt "Why is the sky blue?" --save race.json --png race.png --animation race.gif
  redline race --prompt "Why is the sky blue?" --against http://127.0.0.1:8080 --page race.html
  redline race --replay race.json
"""
_DESCRIPTION = (
    "Race plain decoding against speculative decoding, or any two sides, on the same loaded target. "
    "The sides are measured one after the other and then replayed side by side. "
    "A side may be another program that speaks OpenAI's protocol; only the prompt is sent, to its address alone."
)
_SIDE = (
    "a side: DRAFTER[:LENGTH][:tree][:rejection|coupled], where none is plain decoding; give two, or one to "
    "race against plain decoding (default: plain decoding against --drafter)"
)
_SPEED = f"speed of the replay: {', '.join(f'{speed:g}' for speed in SPEEDS)} (default: 1)"


def add_parser(commands: Commands) -> None:
    parser = add_command(commands, "race", run, _DESCRIPTION, _EXAMPLES)
    add = parser.add_argument
    add("--prompt", metavar="TEXT", help="prompt for both sides")
    add("--side", action="append", default=[], metavar="SPEC", help=_SIDE)
    add_servers(parser)
    add("--runs", type=int, default=RUNS, metavar="N", help=f"runs of each side, alternated (default: {RUNS})")
    add("--replay", type=Path, metavar="FILE", help="replay a saved race; nothing is loaded or measured")
    add("--save", type=Path, metavar="FILE", help="save the race as JSON for --replay")
    add("--page", type=Path, metavar="FILE", help="save the race as a web page that plays it offline")
    add("--png", type=Path, metavar="FILE", help="save a picture of the result")
    add("--animation", type=Path, metavar="FILE", help="save an animation of the race: .gif, .png or .webp")
    add("--speed", type=float, choices=SPEEDS, default=1.0, metavar="TIMES", help=_SPEED)
    add("--no-animation", action="store_true", help="print the texts at once instead of replaying them")
    add("--json", action="store_true", help="print the race as one JSON document")
    add_theme(parser, "the terminal and of pictures")
    add_options(parser, max_tokens=MAX_TOKENS)


def run(args: argparse.Namespace) -> int:
    """Runs or opens a race, saves it, shows it and draws it. Returns 1 if a promise was broken. Raises RedlineError."""
    _check_files(args)
    document, stopped = (open_race(args.replay), False) if args.replay is not None else _run_race(args)
    try:
        if args.save is not None:
            write_file(args.save, race_json(document))
        if args.page is not None:
            write_file(args.page, race_page(document))
    finally:  # show what was measured even if the disk is full
        _show(document, args, stopped)
    if args.png is not None or args.animation is not None:
        from app.race.race_export import export_pictures

        scheme = choose_look(True, os.environ, args.theme).theme
        with Status(sys.stderr) as status:
            export_pictures(
                document, args.png, args.animation, scheme, lambda done, total: status(f"drawing: {done} of {total}")
            )
    if any(receipt.failed for receipt in document.receipts):
        return FAILURE
    return INTERRUPTED if stopped else OK


def sides_of(args: argparse.Namespace, options: Options) -> tuple[Side, ...]:
    """Returns the two sides. Raises UsageError."""
    named = [read_side(text) for text in args.side]
    servers = [Side(server=server) for server in read_servers(args)]
    if len(named) + len(servers) > SIDES:
        raise UsageError(f"--side and --against name {len(named) + len(servers)} sides: a race is between {SIDES}")
    if named and (args.drafter or args.draft_length or args.tree):
        raise UsageError("--side describes a whole side: leave --drafter, --draft-length and --tree out")
    if len(named) + len(servers) == SIDES:
        return *servers, *named
    if named:
        return PLAIN, named[0]
    if options.drafter == "none" and not servers:
        raise UsageError("--drafter none would race plain decoding against itself: name a drafter")
    length, rule = options.sampling.draft_length, options.sampling.acceptance
    other = Side(drafter=options.drafter, tree=options.tree, draft_length=length, acceptance=rule)
    return servers[0] if servers else PLAIN, other


def _check_files(args: argparse.Namespace) -> None:
    """Raises UsageError for what can be wrong before anything is loaded."""
    if args.replay is not None and (args.prompt is not None or args.side or args.against):
        raise UsageError("--replay shows a saved race: leave --prompt, --side and --against out")
    if args.replay is None and args.prompt is None:
        raise UsageError("there is nothing to race: give --prompt, or --replay with a saved race")
    if args.animation is not None:
        from app.race.race_animation import ANIMATIONS

        if args.animation.suffix.lower() not in ANIMATIONS:
            raise UsageError(f"{args.animation.name}: an animation ends in {', '.join(ANIMATIONS)}")
    for option in ("save", "page", "png", "animation"):
        if (path := getattr(args, option)) is not None:
            check_writable(path, f"--{option}")


def _run_race(args: argparse.Namespace) -> tuple[RaceDocument, bool]:
    """Loads the models and runs the race. Returns its document and whether Ctrl-C cut it short.

    Raises RedlineError, or KeyboardInterrupt if no pair of runs was completed.
    """
    options = read_options(args, random_seed=True)
    check_single(args, "--side names two sides, `redline bench` compares several")
    if options.sampling.greedy:
        options = replace(options, sampling=replace(options.sampling, seed=args.seed or 0))
    from app.inference.loaded_pair import open_target
    from app.inference.options import target_name
    from app.race.race_runs import RaceOptions, RaceRuns, level

    sides = level(sides_of(args, options))
    order_seed = secrets.randbelow(2**31) if args.order_seed is None else args.order_seed
    race = RaceOptions(1, args.prompt, options, sides, args.runs, order_seed, args.pause)
    with Status(sys.stderr) as status:
        status(f"loading {target_name(options)}")
        pair = open_target(options)
        status(pair.note)
        asked = Race(
            id=race.number,
            prompt=race.prompt,
            sampling=options.sampling,
            sides=sides,
            runs=race.runs,
            order_seed=race.order_seed,
            pause_s=race.pause_s,
        )
        builder = RaceDocumentBuilder(asked, time.time())
        with ctrl_c() as stopped:
            for answer in RaceRuns(pair, race, stopped).answers():
                builder.hear(answer)
                if progress := builder.progress:
                    side = f": {write_side(sides[progress.side])}" if progress.run else ""
                    status(f"{progress.message}{side}")
    return _document(builder), _stopped(builder)


def _document(builder: RaceDocumentBuilder) -> RaceDocument:
    document = builder.document()
    if document is not None:
        return document
    if _stopped(builder):
        raise KeyboardInterrupt
    raise RaceError("the results of the runs contradict each other: race again, and report it if that does not help")


def _stopped(builder: RaceDocumentBuilder) -> bool:
    """Returns whether Ctrl-C cut the race short."""
    return builder.done is not None and builder.done.stopped


def _show(document: RaceDocument, args: argparse.Namespace, stopped: bool) -> None:
    from app.cli.race_view import play, show

    if args.json:
        print_json(race_json(document).decode())
    else:
        for one in document.sides:
            if one.note:
                notify(one.note)
        look, console = output_look(args.theme), output_console(wide=True)
        if look.escapes and not args.no_animation:
            with key_presses(sys.stdin) as keys:
                play(console, look, document, args.speed, keys=keys)
        show(console, look, document)
    if stopped:
        notify(f"stopped before the last of {args.runs} runs: only complete runs count")
