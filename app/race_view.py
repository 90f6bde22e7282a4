"""The two texts of a race side by side, replayed as they were timed, and the numbers below them.

The runs were made one after the other; a replay shows them from a common start, each token when it came. Anything that
is not a terminal gets one text after the other.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import replace

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.rule import Rule
from rich.style import Style
from rich.table import Table
from rich.text import Text

from app.contest import Contest, Side
from app.measure import Reply
from app.safe_text import safe
from app.style import TEXT, TINTS, Look
from app.terminal import legend_line
from engine.events import Origin

FRAMES_PER_S = 20
_GAP = 3
_ROOM = 8  # lines that a terminal needs for what is not text


def show(console: Console, look: Look, contest: Contest) -> None:
    """Both texts, whole, then the numbers and the receipt."""
    sides = (contest.plain, contest.other)
    if look.escapes:
        texts = [_text(side.middle, look, _tinted(side, contest)) for side in sides]
        console.print(_columns(console, list(zip(map(_title, sides), texts, strict=True))))
        console.print(Text.from_ansi(f"\n{legend_line(replace(look, dotted=False))}\n"))
    else:
        for side in sides:
            console.out(f"--- {_title(side)} ---\n{safe(side.middle.text)}\n")
    console.print(_numbers(contest))
    for line, style in _verdict(contest):
        console.print(Text(line, style), soft_wrap=True)


def replay(console: Console, look: Look, contest: Contest) -> None:
    """Show the middle run of each side from a common start, at the recorded times. Ctrl-C goes to the end."""
    sides = (contest.plain, contest.other)
    end_s = max(side.middle.metrics.last_s or 0.0 for side in sides)
    began_s = time.monotonic()
    with Live(console=console, auto_refresh=False, transient=True) as live:
        try:
            while (now_s := time.monotonic() - began_s) < end_s:
                live.update(_frame(console, look, contest, now_s), refresh=True)
                time.sleep(1 / FRAMES_PER_S)
        except KeyboardInterrupt:
            return


def _frame(console: Console, look: Look, contest: Contest, now_s: float) -> RenderableType:
    """What had come by `now_s` on either side, the newest lines of it."""
    columns = []
    for side in (contest.plain, contest.other):
        text = _text(side.middle, look, _tinted(side, contest), now_s)
        lines = text.wrap(console, _column_width(console))
        columns.append((_clock(side, now_s), Text("\n").join(lines[-max(console.height - _ROOM, 4) :])))
    about = Text("a replay of two runs that were made one after the other; Ctrl-C skips", "dim")
    return Group(_columns(console, columns), Text(), about)


def _columns(console: Console, columns: list[tuple[str, Text]]) -> Table:
    width = _column_width(console)
    grid = Table.grid(padding=(0, _GAP, 0, 0))
    for _ in columns:
        grid.add_column(width=width)
    grid.add_row(*(Text(title, "bold") for title, _ in columns))
    grid.add_row(*(Rule(style="dim") for _ in columns))
    grid.add_row(*(text for _, text in columns))
    return grid


def _column_width(console: Console) -> int:
    return max((console.width - 2 * _GAP) // 2, 16)


def _clock(side: Side, now_s: float) -> str:
    """A column's heading during the replay."""
    reply = side.middle
    tokens = sum(len(round_.tokens) for round_ in reply.rounds if round_.time_s <= now_s)
    end_s = reply.metrics.last_s or 0.0
    return f"{side.name}  {min(now_s, end_s):5.1f} s  {tokens} tokens{'  done' if now_s >= end_s else ''}"


def _title(side: Side) -> str:
    return f"{side.name}, {side.middle.metrics.last_s or 0.0:.1f} s"


def _tinted(side: Side, contest: Contest) -> bool:
    return side is contest.other


def _text(reply: Reply, look: Look, tinted: bool, until_s: float | None = None) -> Text:
    """The reply, or what had come by `until_s`, each token of a round that drafted in its tint."""
    text = Text()
    for round_ in reply.rounds:
        if until_s is not None and round_.time_s > until_s:
            return text
        for piece, origin in zip(round_.texts, round_.origins, strict=True):
            text.append(safe(piece), _style(look, origin) if tinted and round_.drafted else "")
    return text.append(safe(reply.tail))


def _style(look: Look, origin: Origin) -> Style:
    """`look` in rich's terms, which know no dotted underline: bonus is in italics."""
    cues = Style(underline=origin == "corrected", italic=origin == "bonus")
    if look.depth == "none":
        return cues
    text, tint = TEXT[look.theme], TINTS[look.theme][origin]
    if look.depth == "256":
        return cues + Style(color=f"color({text.indexed})", bgcolor=f"color({tint.indexed})")
    return cues + Style(color=text.rgb, bgcolor=tint.rgb)


def _numbers(contest: Contest) -> Table:
    """A row a side: medians of all runs."""
    table = Table(box=None, pad_edge=False, header_style="dim", padding=(0, 3, 0, 0))
    table.add_column("")
    for name in ("tokens", "tok/s", "TTFT", "total", "passes", "tokens a pass"):
        table.add_column(name, justify="right")
    for side in (contest.plain, contest.other):
        metrics = side.middle.metrics
        table.add_row(
            side.name,
            str(metrics.tokens),
            _number(side.tokens_per_s, ".1f"),
            _number(side.ttft_s, ".2f", " s"),
            _number(side.total_s, ".2f", " s"),
            str(metrics.rounds),
            _number(metrics.mean_acceptance_length, ".2f"),
        )
    return table


def _verdict(contest: Contest) -> Iterator[tuple[str, str]]:
    """Speed-up and receipt, each a line with its style."""
    runs = len(contest.plain.replies)
    of = f"medians of {runs} runs each, alternated" if runs > 1 else "one run each"
    yield "", ""
    decode, total = _number(contest.speedup, ".2f", "x"), _number(contest.speedup_total, ".2f", "x")
    yield f"speed-up {decode} decoding, {total} with the prompt ({of})", "bold"
    receipt = contest.receipt
    if receipt is None:
        yield "receipt: none; rejection sampling keeps the law, not the text. --acceptance coupled keeps both", ""
    elif receipt.identical:
        yield f"receipt: {receipt}", "green"
    else:
        yield f"receipt: {receipt}", "yellow" if receipt.near_tie else "bold red"


def _number(value: float | None, form: str, unit: str = "") -> str:
    return "-" if value is None else f"{value:{form}}{unit}"
