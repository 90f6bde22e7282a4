"""The tables of a benchmark, and the verdicts below them, made from the document alone."""

from collections.abc import Iterator, Sequence

from rich.console import Console
from rich.table import Table
from rich.text import Text

from app.bench.bench_document import BenchDocument, BenchRun, BenchSummary
from app.bench.contestants import PLAIN, PLAIN_EXACT
from app.bench.server_contestant import server_lines
from app.bench.verdicts import FLOOR, AutoVerdict, verdicts
from app.cli.terminal.output import ruled_table

_LEGEND = (
    "tok/s: decode speed. speed-up: over plain decoding of the same prompt; total: with the prompt. "
    "tau: tokens per pass. Speeds are medians over prompts. Draft length auto begins each reply with what was known "
    "when the benchmark began."
)
_VERDICTS = (
    "Draft length auto against plain decoding (speed-up, median over prompts; lowest: of one prompt) and against the "
    "best fixed length (share: median of auto's speed over its speed)."
)


def show(console: Console, about: str, value: BenchDocument) -> None:
    """Prints the tables and verdicts. about: what was measured, in one line."""
    console.print()
    console.print(Text(about, "dim"))
    console.print(_table(value.summary))
    console.print(Text(_LEGEND, "dim"))
    if found := verdicts(value.runs):
        console.print()
        console.print(_verdict_table(found))
        console.print(Text(_VERDICTS, "dim"))
        console.print(_never_slower(found))
    for line, style in (*server_lines(value), *_differences(value)):
        console.print(Text(line, style), soft_wrap=True)


def _table(summary: Sequence[BenchSummary]) -> Table:
    names = ["T", "tok/s", "speed-up", "total", "tau", "accepted"]
    table = ruled_table(["drafter"], names)
    table.add_column("same text", justify="right")
    temperature = None
    for row in summary:
        if temperature not in (None, row.temperature):
            table.add_section()
        temperature = row.temperature
        table.add_row(*_cells(row), style="" if row.drafter != PLAIN else "dim")
    return table


def _cells(row: BenchSummary) -> Iterator[str | Text]:
    plain = row.drafter == PLAIN
    yield row.drafter
    yield f"{row.temperature:g}"
    yield _number(row.tokens_per_s, ".1f")
    yield Text(_number(row.speedup, ".2f", "x"), "" if plain else "bold")
    yield _number(row.speedup_total, ".2f", "x")
    yield _number(row.mean_acceptance_length, ".2f")
    yield _number(row.acceptance_rate, ".0%")
    yield "" if plain else _sameness(row)


def _sameness(row: BenchSummary) -> Text:
    """Returns how many texts are identical; rejection sampling keeps only the distribution."""
    if row.identical is None or row.differences is None or row.near_ties is None:
        return Text("own noise" if row.acceptance_rule in (None, "sample-and-match") else "same distribution", "dim")
    if row.identical:
        return Text(f"{row.runs}/{row.runs}", "green")
    same, failures = row.runs - row.differences, row.differences - row.near_ties
    return Text(f"{same}/{row.runs}", "bold red" if failures else "yellow")


def _verdict_table(found: Sequence[AutoVerdict]) -> Table:
    """Returns the verdicts by category."""
    names = ["T", "prompts", "speed-up", "lowest", "best fixed", "share"]
    table = ruled_table(["drafter at auto", "category"], names)
    before = None
    for one in found:
        drafter = one.proposer, one.exact, one.temperature
        if before not in (None, drafter):
            table.add_section()
        best = "-" if one.best is None else f"{one.best}: {_number(one.best_speedup, '.2f', 'x')}"
        table.add_row(
            "" if drafter == before else one.proposer + " exact" * one.exact,
            one.category,
            f"{one.temperature:g}",
            str(one.prompts),
            Text(f"{one.speedup:.2f}x", "bold red" if one.slower else "bold"),
            f"{one.lowest:.2f}x",
            best,
            Text(_number(one.share, ".2f"), "red" if one.behind else ""),
        )
        before = drafter
    return table


def _never_slower(found: Sequence[AutoVerdict]) -> str:
    """Returns how often drafting was at least as fast as plain decoding and as the best fixed length."""
    slow, behind = sum(one.slower for one in found), sum(one.behind for one in found)
    known = sum(one.share is not None for one in found)
    best = f" · {known - behind} of {known} at least {FLOOR} of the best fixed length" if known else ""
    return f"{len(found) - slow} of {len(found)} medians at least {FLOOR} of plain decoding{best}"


def _differences(value: BenchDocument) -> Iterator[tuple[str, str]]:
    """Describes each text that differs, and the verdict, with their styles."""
    for row in value.runs:
        found = row.first_difference
        if found is not None and row.report is not None:
            gap = "" if found.gap_ulps is None else f", which the target prefers by {abs(found.gap_ulps):.3g} ULPs"
            tokens = f"token {found.other_token} in place of {found.plain_token}"
            yield f"{row.drafter}, {row.where}: differs at token {found.position} ({tokens}{gap})", "dim"
        elif found is not None:
            yield (
                f"{row.drafter}, {row.where}: {found}",
                "red" if row.failed else "yellow",
            )
        elif row.same_bits is False:
            yield f"{row.drafter}, {row.where}: same text, but not the same bits", "red"
    promised = [row for row in value.runs if row.matches_plain is not None and not row.peer and not _is_plain(row)]
    failures = sum(row.failed for row in promised)
    near = sum(not row.matches_plain and not row.failed for row in promised)
    if failures:
        count = f"{failures} of {len(promised)} replies"
        yield f"{count} differ from plain decoding by more than rounding: please report this", "bold red"
    elif promised:
        rest = f", {near} differ at a near-tie" if near else ", token by token"
        same = f"{len(promised) - near} of {len(promised)} replies are identical to plain decoding"
        yield f"{same}{rest}", "yellow" if near else "green"
    if bits := [row.same_bits for row in value.runs if row.same_bits is not None and not _is_plain(row)]:
        text = f"exact: {sum(bits)} of {len(bits)} replies have plain decoding's logits to the last bit"
        yield text, "green" if all(bits) else "bold red"
    if len(value.contestants) == 1:
        yield "nothing to compare: choose a --drafter", "yellow"


def _is_plain(row: BenchRun) -> bool:
    return row.drafter in (PLAIN, PLAIN_EXACT)


def _number(value: float | None, form: str, unit: str = "") -> str:
    return "-" if value is None else f"{value:{form}}{unit}"
