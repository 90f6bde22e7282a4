"""`redline verify`: every reply of an exported conversation decoded plainly again, and what that says of each."""

from __future__ import annotations

import argparse
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from app.cli.terminal.keyboard import ctrl_c
from app.cli.terminal.token_style import THEMES, choose_look
from app.command_line import FAILURE, INTERRUPTED, OK
from engine.errors import UsageError

if TYPE_CHECKING:
    from app.receipts.exported_replies import Case, Export, Result

_EXAMPLES = """\
A greedy or coupled reply must equal plain decoding token by token, for the same prompt and seed. Where two
tokens almost tie, a pass of another width may round the other way: this is reported as a near-tie, with its
gap, and is not a failure. Rejection sampling keeps the distribution, not the tokens: there, each token must
be possible. Verify on the machine that wrote the reply: another machine or another version of MLX rounds
differently.

exit status: 0 if nothing failed, 1 if something failed or a reply could not be checked

examples:
  redline verify chat.json                    every reply in it, including versions that are not shown
  redline verify chat.json --message 4        the fourth message, a reply
  redline verify *.json --json > report.json  several, for a program
  redline verify chat.json --write            and keep the receipts in the file
"""


def add_parser(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the command to the tree."""
    parser = subparsers.add_parser(
        "verify",
        description="Decode the replies of exported conversations again by plain decoding, and report what differs.",
        epilog=_EXAMPLES,
    )
    add = parser.add_argument
    add("files", nargs="+", type=Path, metavar="EXPORT.json", help="conversations exported from the window as JSON")
    add("--message", type=int, metavar="N", help="check only message N, as numbered in the table")
    add("--target", metavar="FOLDER", help="model folder to check with, if it is not where it was recorded")
    add("--write", action="store_true", help="save each receipt with its reply in the file")
    add("--json", action="store_true", help="print one JSON document")
    add("--theme", choices=THEMES, default="auto", help="background of the terminal (default: auto)")
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Verifies the replies, reports, and saves the receipts with --write. Raises RedlineError."""
    from app.cli.verify_report import document, to_text
    from app.receipts.exported_replies import chosen, read_export

    if args.message is not None and len(args.files) > 1:
        raise UsageError(f"--message is of one file, and {len(args.files)} are given: give one")
    exports = [read_export(path) for path in args.files]
    cases = chosen(exports, args.message)
    results = _check(cases, args.target)
    stopped = len(results) < len(cases)
    if args.json:
        print(document(results, stopped))
    else:
        look = choose_look(sys.stdout.isatty(), os.environ, args.theme)
        to_text(sys.stdout, look, results, len(cases) if stopped else None)
    if args.write:
        _write(exports, results)
    if stopped:
        return INTERRUPTED
    return OK if all(result.sound for result in results) else FAILURE


def _check(cases: list[Case], target: str | None) -> list[Result]:
    """What comes of them, in order; of fewer where Ctrl-C ended it."""
    from app.receipts.check_progress import progress
    from app.receipts.checker import results_of

    with ctrl_c() as cancelled, progress(cases) as step:
        return list(results_of(cases, target, step, cancelled))


def _write(exports: list[Export], results: list[Result]) -> None:
    """Into each file that takes them. Raises WriteError: which one does not, and how many others."""
    from app.receipts.receipt_writer import WriteError, write_receipts

    refused: list[WriteError] = []
    for export in exports:
        try:
            write_receipts(export, results)
        except WriteError as error:
            refused.append(error)
    if refused:
        more = f" (and {len(refused) - 1} more of the files)" if len(refused) > 1 else ""
        raise WriteError(f"{refused[0]}{more}")
