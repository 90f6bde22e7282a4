"""What a verification found: a table with totals for people, a document for programs.

{"format": "redline verification", "version": 1, "redline", "environment": {...}, "interrupted",
 "replies": [{"file", "message" (from 1), "target", "law": "greedy" | "coupled" | "rejection", "temperature", "seed",
              "tokens", "verdict": "identical" | "possible" | "near-tie" | "failure" | null, "same_bits", "error",
              "differences": [{"position" (from 0), "plain_token", "other_token", "plain_text", "other_text",
                               "gap_ulps", "noise_ulps", "near_tie"}]}],
 "totals": {"replies", "tokens", "identical", "possible", "near_ties", "failures", "unchecked", "differences"}}
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from importlib.metadata import version
from typing import Any, TextIO

from rich.console import Console
from rich.table import Table
from rich.text import Text

from app.cli.terminal.safe_text import safe
from app.cli.terminal.token_style import Look
from app.host.server import ready
from app.protocol import SamplingSettings
from app.receipts.exported_replies import Result
from app.reply_statistics import count

FORMAT, VERSION = "redline verification", 1
_BEGINNING = 28  # characters of a reply that are shown
_LISTED = 8  # differences of one reply that are
_PIPED = 100  # columns where there is no terminal
_STYLES = {"identical": "green", "possible": "", "near-tie": "yellow", "failure": "bold red"}


def document(results: Sequence[Result], interrupted: bool) -> str:
    """As JSON."""
    report = {
        "format": FORMAT,
        "version": VERSION,
        "redline": version("redline"),
        "environment": {"mlx": ready().mlx, "device": ready().device},
        "interrupted": interrupted,
        "replies": [_reply(result) for result in results],
        "totals": totals(results),
    }
    return json.dumps(report, indent=1, ensure_ascii=False, allow_nan=False)


def totals(results: Sequence[Result]) -> dict[str, int]:
    """Counts of replies by their verdict; of tokens and differences, over those that were checked."""
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


def to_text(out: TextIO, look: Look, results: Sequence[Result], of: int | None = None) -> None:
    """of: so many there would have been, had it not been stopped."""
    console = Console(file=out, width=None if look.escapes else _PIPED, highlight=False, no_color=not look.escapes)
    several = len({result.case.export.path for result in results}) > 1
    console.print(_table(results, several))
    for result in results:
        if result.error:
            which = _place(result, several) if several else f"message {result.case.number}"
            console.print(Text(f"{which} is not checked: {safe(result.error)}", "red"), soft_wrap=True)
    if any(result.kept is not None and result.kept.receipt.differences for result in results):
        console.print()
        console.print(_differences(results, several))
    console.print()
    for text, style in _sentences(results, of):
        console.print(Text(text, style), soft_wrap=True)


def sentence(results: Sequence[Result]) -> str:
    """The totals in a line."""
    found = totals(results)
    parts = [f"{found['identical']} identical"]
    parts += [f"{found['possible']} possible for the target"] if found["possible"] else []
    parts += [count(found["near_ties"], "near-tie"), count(found["failures"], "failure")]
    parts += [f"{found['unchecked']} not checked"] if found["unchecked"] else []
    replies = "1 reply" if found["replies"] == 1 else f"{found['replies']} replies"
    return f"{replies}, {found['tokens']:,} tokens: {', '.join(parts)}"


def sampling_text(sampling: SamplingSettings | None) -> str:
    """How a reply was drawn."""
    if sampling is None:
        return "unknown"
    return f"{sampling.acceptance}, T {sampling.temperature:g}" if sampling.temperature else "greedy"


def _table(results: Sequence[Result], several: bool) -> Table:
    """A row a reply. several: files, which are named then."""
    table = _empty(several)
    table.add_column("reply", no_wrap=True, overflow="ellipsis", max_width=_BEGINNING // (2 if several else 1))
    table.add_column("sampling", no_wrap=True)
    table.add_column("tokens", justify="right")
    table.add_column("receipt", overflow="fold", min_width=26)
    for result in results:
        case = result.case
        beginning = safe(" ".join(case.message.text.split())[: 2 * _BEGINNING])
        words = [_place(result, several), beginning, sampling_text(case.message.sampling), str(case.tokens)]
        table.add_row(*(Text(word) for word in words), _verdict(result))
    return table


def _verdict(result: Result) -> Text:
    if result.kept is None:
        return Text("not checked", "red")
    receipt = result.kept.receipt
    return Text(receipt.summary, _STYLES[receipt.verdict])


def _differences(results: Sequence[Result], several: bool) -> Table:
    """A row a difference, the first _LISTED of each reply."""
    table = _empty(several)
    table.add_column("token", justify="right")
    table.add_column("plain")
    table.add_column("reply")
    table.add_column("gap/ULP", justify="right", no_wrap=True)
    table.add_column("noise/ULP", justify="right", no_wrap=True)
    table.add_column("", no_wrap=True)
    for result in results:
        differences = result.kept.receipt.differences if result.kept is not None else ()
        for one in differences[:_LISTED]:
            none = "ends" if one.ends else "another"
            texts = [_token(one.plain_token, one.plain_text, none), _token(one.other_token, one.other_text, none)]
            sizes = [_size(one.gap_ulps), _size(one.noise_ulps)]
            verdict = Text("near-tie", _STYLES["near-tie"]) if one.near_tie else Text("failure", _STYLES["failure"])
            words = [_place(result, several), str(one.position), *texts, *sizes]
            table.add_row(*(Text(word) for word in words), verdict)
        if len(differences) > _LISTED:
            more = Text(f"and {len(differences) - _LISTED} more", "dim")
            table.add_row(Text(_place(result, several)), Text(), more)
    return table


def _empty(several: bool) -> Table:
    table = Table(box=None, pad_edge=False, header_style="dim", padding=(0, 2, 0, 0))
    table.add_column("message", justify="left" if several else "right", overflow="fold", min_width=7)
    return table


def _place(result: Result, several: bool) -> str:
    number = str(result.case.number)
    return f"{safe(result.case.export.path.name)}:{number}" if several else number


def _token(token: int | None, text: str, none: str) -> str:
    """none: what no token means."""
    if token is None:
        return none
    return repr(safe(text)) if text else f"id {token}"


def _size(ulps: float | None) -> str:
    return "-" if ulps is None else f"{ulps:.3g}"


def _sentences(results: Sequence[Result], of: int | None) -> Iterator[tuple[str, str]]:
    failed = not all(result.sound for result in results)
    yield sentence(results), "bold red" if failed else "bold"
    if totals(results)["possible"]:
        yield (
            "Rejection sampling keeps the distribution, not the tokens: each token of those replies was possible.",
            "dim",
        )
    if of is not None:
        yield f"Stopped: {of - len(results)} of {of} are left.", "yellow"


def _reply(result: Result) -> dict[str, Any]:
    case, receipt = result.case, result.kept.receipt if result.kept is not None else None
    sampling = case.message.sampling
    return {
        "file": case.export.path.name,
        "message": case.number,
        "target": case.pair.target,
        "law": None if sampling is None else ("greedy" if not sampling.temperature else sampling.acceptance),
        "temperature": None if sampling is None else sampling.temperature,
        "seed": None if sampling is None else sampling.seed,
        "tokens": case.tokens,
        "verdict": None if receipt is None else receipt.verdict,
        "same_bits": None if receipt is None else receipt.same_bits,
        "error": result.error or None,
        "differences": [] if receipt is None else [asdict(one) for one in receipt.differences],
    }
