"""`redline verify`: decodes every reply of an exported conversation plainly again, and reports what differs.

With --json, for programs:

{"format": "redline verification", "version": 1, "redline", "environment": {...}, "interrupted",
 "replies": [{"file", "message" (from 1), "target", "decoding": "greedy" | "coupled" | "rejection", "temperature",
              "seed", "tokens", "drafting" (why nothing or little was drafted),
              "verdict": "identical" | "possible" | "near-tie" | "failure" | null, "same_bits",
              "error",
              "reference" (what the architecture of the target was compared with),
              "differences": [{"position" (from 0), "plain_token", "other_token", "plain_text", "other_text",
                               "gap_ulps", "noise_ulps", "near_tie"}]}],
 "totals": {"replies", "tokens", "identical", "possible", "near_ties", "failures", "unchecked", "differences"}}
"""

from __future__ import annotations

import argparse
import json
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.console import Console
from rich.table import Table
from rich.text import Text

from app.cli.terminal.keyboard import ctrl_c
from app.cli.terminal.output import output_console, plain_table
from app.cli.terminal.progress import progress
from app.cli.terminal.token_style import add_theme
from app.command_line import FAILURE, INTERRUPTED, OK, add_command, add_common, print_json
from app.reply_statistics import count, drafting_in_words, sampling_in_words
from app.safe_text import safe
from engine.errors import UsageError
from models.package_versions import version_of

if TYPE_CHECKING:
    from app.command_line import Commands
    from app.receipts.exported_replies import Case, Export, Result

_EXAMPLES = """\
A greedy or coupled reply must equal plain decoding token by token, for the same prompt and seed. Where two
tokens almost tie, a pass of another width may round the other way: the difference is reported as a near-tie,
with its gap, and is not a failure. Rejection sampling keeps the distribution, not the tokens: there, each
token must be possible. Verify on the machine that wrote the reply: another machine or another version of MLX
rounds differently.

exit status: 0 if nothing failed, 1 if something failed or a reply could not be checked

examples:
  redline verify chat.json                    every reply in it, including versions that are not shown
  redline verify chat.json --message 4        the fourth message, a reply
  redline verify *.json --json > report.json  several files, for a program
  redline verify chat.json --write            and save the receipts in the file
"""
_DESCRIPTION = "Decode the replies in exported conversations again with plain decoding, and report every difference."
FORMAT, VERSION = "redline verification", 1
_EXCERPT = 28  # characters of a reply that are shown
_LISTED = 8  # differences of a reply that are shown
_STYLES = {"identical": "green", "possible": "", "near-tie": "yellow", "failure": "bold red"}


def add_parser(commands: Commands) -> None:
    parser = add_command(commands, "verify", run, _DESCRIPTION, _EXAMPLES)
    add = parser.add_argument
    add("files", nargs="+", type=Path, metavar="EXPORT.json", help="conversations exported from the window as JSON")
    add("--message", type=int, metavar="N", help="check only message N, as numbered in the table")
    add("--target", metavar="FOLDER", help="model folder to check with, if it is not where it was recorded")
    add("--write", action="store_true", help="save each receipt with its reply in the file")
    add_common(parser)
    add_theme(parser)


def run(args: argparse.Namespace) -> int:
    """Verifies the replies, reports, and saves the receipts with --write. Raises RedlineError."""
    from app.receipts.exported_replies import chosen, read_export

    if args.message is not None and len(args.files) > 1:
        raise UsageError(f"--message needs a single file, but {len(args.files)} were given")
    exports = [read_export(path) for path in args.files]
    cases = chosen(exports, args.message)
    results = _check(cases, args.target, args.cache_dir)
    stopped = len(results) < len(cases)
    if args.json:
        print_json(document(results, stopped))
    else:
        show(output_console(wide=True), results, len(cases) if stopped else None)
    if args.write:
        _write(exports, results)
    if stopped:
        return INTERRUPTED
    return OK if all(result.sound for result in results) else FAILURE


def _check(cases: list[Case], target: str | None, cache_root: Path | None) -> list[Result]:
    """Returns the results in order; fewer if Ctrl-C stopped it."""
    from app.receipts.checker import TargetCache, results_of

    total = sum(case.tokens for case in cases)
    with ctrl_c() as cancelled, progress(total, "tokens", "loading the model") as step:
        return list(results_of(cases, TargetCache(target, cache_root), step, cancelled))


def _write(exports: list[Export], results: list[Result]) -> None:
    """Saves the receipts in every file that can be written. Raises WriteError for the others."""
    from app.receipts.exported_replies import WriteError, write_receipts

    refused: list[WriteError] = []
    for export in exports:
        try:
            write_receipts(export, results)
        except WriteError as error:
            refused.append(error)
    if refused:
        more = f" (and {len(refused) - 1} more of the files)" if len(refused) > 1 else ""
        raise WriteError(f"{refused[0]}{more}")


# --- for programs


def document(results: Sequence[Result], interrupted: bool) -> str:
    """Returns the results as JSON."""
    from app.host.server import ready

    report = {
        "format": FORMAT,
        "version": VERSION,
        "redline": version_of("redline"),
        "environment": {"mlx": ready().mlx, "device": ready().device},
        "interrupted": interrupted,
        "replies": [_reply(result) for result in results],
        "totals": totals(results),
    }
    return json.dumps(report, indent=1, ensure_ascii=False, allow_nan=False)


def totals(results: Sequence[Result]) -> dict[str, int]:
    """Counts replies by their verdict, and the tokens and differences of those that were checked."""
    receipts = [result.kept.receipt for result in results if result.kept is not None]
    verdicts = Counter(receipt.verdict for receipt in receipts)
    return {
        "replies": len(results),
        "tokens": sum(receipt.tokens for receipt in receipts),
        "identical": verdicts["identical"],
        "possible": verdicts["possible"],
        "near_ties": verdicts["near-tie"],
        "failures": verdicts["failure"],
        "unchecked": len(results) - len(receipts),
        "differences": sum(len(receipt.differences) for receipt in receipts),
    }


def _reply(result: Result) -> dict[str, Any]:
    case, receipt = result.case, result.kept.receipt if result.kept is not None else None
    sampling = case.message.sampling
    return {
        "file": case.export.path.name,
        "message": case.number,
        "target": case.pair.target,
        "decoding": None if sampling is None else ("greedy" if not sampling.temperature else sampling.acceptance),
        "temperature": None if sampling is None else sampling.temperature,
        "seed": None if sampling is None else sampling.seed,
        "sampling": None if sampling is None else sampling_in_words(sampling),
        "tokens": case.tokens,
        "drafting": drafting_in_words(case.message.statistics) if case.message.statistics else "",
        "verdict": None if receipt is None else receipt.verdict,
        "same_bits": None if receipt is None else receipt.same_bits,
        "error": result.error or None,
        "reference": None if result.kept is None else result.kept.reference,
        "differences": [] if receipt is None else [asdict(one) for one in receipt.differences],
    }


# --- for people


def show(console: Console, results: Sequence[Result], of: int | None = None) -> None:
    """Prints the tables and the totals. of: how many replies there are, if it was stopped."""
    several = len({result.case.export.path for result in results}) > 1
    console.print(_replies(results, several))
    for result in results:
        if result.error:
            which = _place(result, several) if several else f"message {result.case.number}"
            console.print(Text(f"{which} is not checked: {safe(result.error)}", "red"), soft_wrap=True)
    if any(result.kept is not None and result.kept.receipt.differences for result in results):
        console.print()
        console.print(_differences(results, several))
    console.print()
    for line in dict.fromkeys(result.kept.reference for result in results if result.kept is not None):
        console.print(Text(f"architecture {safe(line)}", "dim"), soft_wrap=True)
    sound = all(result.sound for result in results)
    console.print(Text(summary(results), "bold" if sound else "bold red"), soft_wrap=True)
    if totals(results)["possible"]:
        kept = "Rejection sampling keeps the distribution, not the tokens: each token of those replies was possible."
        console.print(Text(kept, "dim"), soft_wrap=True)
    if of is not None:
        console.print(Text(f"Stopped: {of - len(results)} of {of} replies were not checked.", "yellow"), soft_wrap=True)


def summary(results: Sequence[Result]) -> str:
    """Returns the totals in one line."""
    found = totals(results)
    parts = [f"{found['identical']} identical"]
    parts += [f"{found['possible']} possible for the target"] if found["possible"] else []
    parts += [count(found["near_ties"], "near-tie"), count(found["failures"], "failure")]
    parts += [f"{found['unchecked']} not checked"] if found["unchecked"] else []
    replies = "1 reply" if found["replies"] == 1 else f"{found['replies']} replies"
    return f"{replies}, {found['tokens']:,} tokens: {', '.join(parts)}"


def _replies(results: Sequence[Result], several: bool) -> Table:
    """Returns a table with a row per reply. several: whether to name their files."""
    table = _messages_table(several)
    table.add_column("reply", no_wrap=True, overflow="ellipsis", max_width=_EXCERPT // (2 if several else 1))
    table.add_column("sampling", no_wrap=True)
    table.add_column("tokens", justify="right")
    table.add_column("receipt", overflow="fold", min_width=26)
    for result in results:
        case, sampling = result.case, result.case.message.sampling
        excerpt = safe(" ".join(case.message.text.split())[: 2 * _EXCERPT])
        drawn = "unknown" if sampling is None else "greedy"
        if sampling is not None and sampling.temperature:
            drawn = f"{sampling.acceptance}, T {sampling.temperature:g}"
        verdict = Text("not checked", "red")
        if result.kept is not None:
            verdict = Text(result.kept.receipt.summary, _STYLES[result.kept.receipt.verdict])
        table.add_row(*map(Text, (_place(result, several), excerpt, drawn, str(case.tokens))), verdict)
    return table


def _differences(results: Sequence[Result], several: bool) -> Table:
    """Returns a table with a row per difference, the first _LISTED of each reply."""
    table = _messages_table(several)
    table.add_column("token", justify="right")
    table.add_column("plain")
    table.add_column("reply")
    table.add_column("gap/ULP", justify="right", no_wrap=True)
    table.add_column("noise/ULP", justify="right", no_wrap=True)
    table.add_column("", no_wrap=True)
    for result, row in _difference_rows(results):
        table.add_row(Text(_place(result, several)), *row)
    return table


def _difference_rows(results: Sequence[Result]) -> Iterator[tuple[Result, list[Text]]]:
    for result in results:
        differences = result.kept.receipt.differences if result.kept is not None else ()
        for one in differences[:_LISTED]:
            missing = "ends" if one.ends else "a different token"
            texts = [_token(one.plain_token, one.plain_text, missing), _token(one.other_token, one.other_text, missing)]
            sizes = ["-" if ulps is None else f"{ulps:.3g}" for ulps in (one.gap_ulps, one.noise_ulps)]
            verdict = "near-tie" if one.near_tie else "failure"
            yield result, [*map(Text, (str(one.position), *texts, *sizes)), Text(verdict, _STYLES[verdict])]
        if len(differences) > _LISTED:
            yield result, [Text(), Text(f"and {len(differences) - _LISTED} more", "dim")]


def _messages_table(several: bool) -> Table:
    table = plain_table([])
    table.add_column("message", justify="left" if several else "right", overflow="fold", min_width=7)
    return table


def _place(result: Result, several: bool) -> str:
    number = str(result.case.number)
    return f"{safe(result.case.export.path.name)}:{number}" if several else number


def _token(token: int | None, text: str, missing: str) -> str:
    """Returns a token in words. missing: what to say if there is none."""
    if token is None:
        return missing
    return repr(safe(text)) if text else f"id {token}"
