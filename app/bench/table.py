"""The benchmark's table for people, and what it has to say below it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

from app.bench.contestants import PLAIN
from app.bench.document import groups
from app.bench.tournament import Run

_LEGEND = (
    "tok/s: decode speed. speed-up: over plain decoding of the same prompt, which is not in it; total: prompt and all. "
    "ideal: what pass costs measured in isolation allow. tau: tokens a pass. Speeds are medians over prompts."
)


def show(console: Console, about: str, value: dict[str, Any], runs: Sequence[Run]) -> None:
    """about: what was measured, in a line. value: the document."""
    console.print()
    console.print(Text(about, "dim"))
    console.print(_table(value["summary"]))
    console.print(Text(_LEGEND, "dim"))
    for line, style in _differences(runs):
        console.print(Text(line, style), soft_wrap=True)


def _table(summary: Sequence[dict[str, Any]]) -> Table:
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    table.add_column("drafter", overflow="fold")
    table.add_column("T", justify="right")
    for name in ("tok/s", "speed-up", "ideal", "total", "tau", "accepted"):
        table.add_column(name, justify="right", no_wrap=True)
    table.add_column("same text", justify="right")
    temperature = None
    for row in summary:
        if temperature not in (None, row["temperature"]):
            table.add_section()
        temperature = row["temperature"]
        table.add_row(*_cells(row), style="" if row["drafter"] != PLAIN else "dim")
    return table


def _cells(row: dict[str, Any]) -> Iterator[str | Text]:
    plain = row["drafter"] == PLAIN
    yield row["drafter"]
    yield f"{row['temperature']:g}"
    yield _number(row["tokens_per_s"], ".1f")
    yield Text(_number(row["speedup"], ".2f", "x"), "" if plain else "bold")
    yield "" if plain else _number(row["speedup_ideal"], ".2f", "x")
    yield _number(row["speedup_total"], ".2f", "x")
    yield _number(row["mean_acceptance_length"], ".2f")
    yield _number(row["acceptance_rate"], ".0%")
    yield "" if plain else _sameness(row)


def _sameness(row: dict[str, Any]) -> Text:
    """Identical, or how many differ; the law alone is kept under rejection sampling."""
    if row["identical"] is None:
        return Text("own noise" if row["acceptance_rule"] in (None, "sample-and-match") else "same law", "dim")
    if row["identical"]:
        return Text(f"{row['runs']}/{row['runs']}", "green")
    same, failures = row["runs"] - row["differences"], row["differences"] - row["near_ties"]
    return Text(f"{same}/{row['runs']}", "bold red" if failures else "yellow")


def _differences(runs: Sequence[Run]) -> Iterator[tuple[str, str]]:
    """A line for each text that differs, and the verdict."""
    differing = [run for run in runs if run.receipt is not None and not run.receipt.identical]
    for run in differing:
        turn = f", turn {run.turn + 1}" if run.turn else ""
        where = f"question {run.question.id}{turn}, T {run.settings.sampling.temperature:g}"
        yield f"{run.contestant}, {where}: {run.receipt}", "red" if run.failed else "yellow"
    promised = [run for run in runs if run.receipt is not None and not run.peer and run.contestant != PLAIN]
    failures = sum(run.failed for run in promised)
    near = sum(run.receipt is not None and run.receipt.near_tie for run in promised)
    if failures:
        count = f"{failures} of {len(promised)} replies"
        yield f"{count} differ from plain decoding, and not by rounding: a bug", "bold red"
    elif promised:
        rest = f", {near} part at a near-tie" if near else ", token by token"
        same = f"{len(promised) - near} of {len(promised)} replies are identical to plain decoding"
        yield f"{same}{rest}", "yellow" if near else "green"
    if len(groups(runs)) == 1:
        yield "nothing to compare: name a --drafter", "yellow"


def _number(value: float | None, form: str, unit: str = "") -> str:
    return "-" if value is None else f"{value:{form}}{unit}"
