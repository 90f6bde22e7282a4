"""Draws the benchmark's document as one picture: speed-up, acceptance, rounds and losses.

Shows only the replies at the lowest temperature, none in exact-verify.
"""

import io
import statistics
import textwrap
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from app.bench.bench_document import (
    AUTO,
    BenchDocument,
    BenchRun,
    acceptance_by_position,
    write_file,
)
from app.bench.contestants import PLAIN
from app.bench.verdicts import ALL, FLOOR, categories, category_of, verdicts
from app.inference import environment
from engine.metrics import median

SIZE_IN, DPI = (10.4, 9.6), 160  # 1,664 pixels across: readable at half of that
_TEXT, _QUIET, _GRID = "#1F2328", "#57606A", "#E3E6E8"
_STYLE: Any = {
    "font.size": 9,
    "text.color": _TEXT,
    "axes.titlelocation": "left",
    "axes.titlesize": 10.5,
    "axes.titleweight": "bold",
    "axes.titlecolor": _TEXT,
    "axes.labelcolor": _QUIET,
    "axes.grid": True,
    "axes.grid.axis": "y",
    "axes.axisbelow": True,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "grid.color": _GRID,
    "xtick.color": _TEXT,
    "ytick.color": _TEXT,
    "legend.fontsize": 8.5,
    "legend.frameon": False,
}
_DRAFTERS = ("#009E73", "#0072B2", "#D55E00", "#CC79A7", "#E69F00", "#56B4E9")  # Okabe-Ito
_PEERS = ("#B4BAC0", "#6E7781", "#3D444D")
_POSITIONS = 9  # of the longest draft whose rounds are drawn
MIN_ROUNDS = 10  # that reached a position, for its acceptance to be drawn
Colours = dict[str, str]


@dataclass(frozen=True)
class Series:
    """A line or group of bars for one drafter or peer.

    points: by category, position or draft length. spreads: first and third quartile of each point.
    """

    name: str
    label: str
    points: dict[str, float]
    spreads: dict[str, tuple[float, float]] = field(default_factory=dict)


@dataclass(frozen=True)
class PromptSpeedups:
    """The speed-ups of one drafter at auto by prompt, ascending. best: the median at the best fixed length."""

    name: str
    values: list[float]
    middle: float
    best: float | None


def write_plot(path: Path, value: BenchDocument) -> None:
    """Writes the picture as PNG. Raises RedlineError when it cannot be written."""
    write_file(path, render_png(value), "--plot")


def render_png(value: BenchDocument) -> bytes:
    """Returns the picture as PNG."""
    held = io.BytesIO()
    figure(value).savefig(held, format="png", dpi=DPI, metadata={"Software": None})
    return held.getvalue()


def figure(value: BenchDocument) -> Any:
    """Draws four axes: speed-up by category, acceptance by position, rounds with the chosen lengths, and losses."""
    import matplotlib
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    rows = plotted_runs(value)
    colours = {name: _DRAFTERS[place % len(_DRAFTERS)] for place, name in enumerate(proposers(rows))}
    colours |= {name: _PEERS[place % len(_PEERS)] for place, name in enumerate(peers(rows))}
    with matplotlib.rc_context(_STYLE):
        picture = Figure(figsize=SIZE_IN, layout="constrained", facecolor="white")
        FigureCanvasAgg(picture)
        halves = picture.add_gridspec(2, 1)
        top, bottom = picture.add_subfigure(halves[0]), picture.add_subfigure(halves[1])
        left, middle, right = bottom.subplots(1, 3)
        _speedups(top.subplots(), speedup_series(rows), colours)
        _acceptance(left, acceptance_series(rows), colours)
        _rounds(middle, round_prices(rows, _POSITIONS), chosen_lengths(rows), colours)
        _losses(right, loss_strips(rows), colours)
        warm = f", temperature {rows[0].temperature:g}" if rows else ""
        most = f"at most {value.environment['max_tokens']} tokens a reply"
        about = f"{environment.summary(value.environment)} · {most}{warm}"
        picture.suptitle("\n".join(textwrap.wrap(about, 140)), fontsize=9, color=_QUIET, x=0.01, ha="left")
    return picture


def _speedups(axis: Any, bars: Sequence[Series], colours: Colours) -> None:
    """Draws medians with the middle half of the prompts; the legend has the medians over all prompts."""
    names = _unique(name for one in bars for name in one.points)
    width = 0.84 / max(len(bars), 1)
    for number, one in enumerate(bars):
        places = [names.index(name) + (number - (len(bars) - 1) / 2) * width for name in one.points]
        label = f"{one.label}: {one.points[ALL]:.2f}"
        axis.bar(places, one.points.values(), width * 0.92, color=colours[one.name], label=label)
        axis.vlines(places, *zip(*one.spreads.values(), strict=True), color=_TEXT, linewidth=0.7, alpha=0.6)
    axis.axhline(1, color=_TEXT, linewidth=1)
    axis.set_xticks(range(len(names)), [name.replace("_", " ") for name in names])
    _label(axis, "Speed-up over plain decoding, by category (median, middle half)", "", "times plain decoding")
    axis.tick_params(axis="x", labelsize=10, length=0, rotation=0 if len(names) <= 8 else 30)
    _legend(axis, bars, ncols=4, loc="upper left")
    top = max((max(value, *one.spreads[name]) for one in bars for name, value in one.points.items()), default=1.0)
    axis.set_ylim(0, max(top, 1.0) * 1.28)


def _acceptance(axis: Any, lines: Sequence[Series], colours: Colours) -> None:
    _lines(axis, lines, colours, marker="o", markersize=4)
    axis.set_ylim(0, 1.04)
    axis.set_xticks(range(1, max((int(place) for one in lines for place in one.points), default=1) + 1))
    _label(axis, "Acceptance by position", "position in the draft", "accepted, of those reached")
    _legend(axis, lines)


def _rounds(axis: Any, lines: Sequence[Series], chosen: Sequence[Series], colours: Colours) -> None:
    """Draws the time of a round over the draft lengths that auto chose."""
    shares = axis.twinx()
    axis.set_zorder(shares.get_zorder() + 1)
    axis.patch.set_visible(False)
    width = 0.8 / max(len(chosen), 1)
    for number, one in enumerate(chosen):
        places = [int(length) + (number - (len(chosen) - 1) / 2) * width for length in one.points]
        shares.bar(places, one.points.values(), width * 0.9, color=colours[one.name], alpha=0.3)
    _lines(axis, lines, colours, linewidth=1.4, marker="o", markersize=3)
    top = max((value for one in lines for value in one.points.values()), default=1.0)
    axis.set_ylim(0, top * 1.5)  # room for the legend above both
    axis.set_xticks(range(_POSITIONS))
    shares.set_ylim(0, 1.7)
    shares.set_yticks([0, 0.25, 0.5, 0.75, 1], ["0", "¼", "½", "¾", "1"])
    shares.tick_params(labelsize=8.5, colors=_QUIET)
    shares.grid(visible=False)
    shares.spines["right"].set_visible(True)
    _label(axis, "Time of a round, and what auto chose", "tokens drafted", "plain steps (lines)")
    shares.set_ylabel("share of rounds (bars)")
    _legend(axis, lines, loc="upper left")


def _losses(axis: Any, strips: Sequence[PromptSpeedups], colours: Colours) -> None:
    """Draws a dot for every prompt, and the best fixed length if one was measured."""
    for place, one in enumerate(strips):
        count = max(len(one.values) - 1, 1)
        spread = [place + 0.5 * (number / count - 0.5) for number in range(len(one.values))]
        axis.scatter(spread, one.values, s=11, color=colours[one.name], alpha=0.55, linewidths=0)
        axis.plot((place - 0.32, place + 0.32), (one.middle, one.middle), color=colours[one.name], linewidth=2.4)
        if one.best is not None:
            axis.scatter([place + 0.4], [one.best], s=30, facecolors="none", edgecolors=_TEXT, marker="D", linewidths=1)
    axis.axhline(1, color=_TEXT, linewidth=1)
    axis.axhline(FLOOR, color=_TEXT, linewidth=0.9, linestyle=":")
    axis.set_xticks(range(len(strips)), [one.name for one in strips], rotation=35, ha="right")
    axis.margins(x=0.08)
    best = " · ◇ best fixed" if any(one.best is not None for one in strips) else ""
    _label(axis, "Never slower? Auto by prompt", f"bar: median · dotted: {FLOOR}{best}", "times plain decoding")


def _lines(axis: Any, lines: Sequence[Series], colours: Colours, **style: Any) -> None:
    for one in lines:
        axis.plot([int(x) for x in one.points], one.points.values(), color=colours[one.name], label=one.label, **style)


def _label(axis: Any, title: str, across: str, up: str) -> None:
    axis.set_title(title)
    axis.set_xlabel(across)
    axis.set_ylabel(up)


def _legend(axis: Any, shown: Sequence[Series], **more: Any) -> None:
    if shown:
        axis.legend(**more)
    else:
        axis.text(0.5, 0.5, "nothing was drafted", transform=axis.transAxes, ha="center", color=_QUIET)


def plotted_runs(value: BenchDocument) -> list[BenchRun]:
    """Returns the replies to draw."""
    coolest = min((row.temperature for row in value.runs), default=0.0)
    return [row for row in value.runs if row.temperature == coolest and not row.exact]


def proposers(rows: Sequence[BenchRun]) -> list[str]:
    """Returns the names of Redline's drafters."""
    return _unique(row.proposer for row in rows if not row.peer and row.proposer != PLAIN)


def peers(rows: Sequence[BenchRun]) -> list[str]:
    """Returns the names of the other engines."""
    return _unique(row.drafter for row in rows if row.peer)


def speedup_series(rows: Sequence[BenchRun]) -> list[Series]:
    """Returns medians by category: each drafter at auto (or at its first length), then the peers."""
    found = [_speedup(name, _shown(rows, name)) for name in proposers(rows)]
    found += [_speedup(name, [row for row in rows if row.drafter == name]) for name in peers(rows)]
    return [one for one in found if one.points]


def _speedup(name: str, rows: Sequence[BenchRun]) -> Series:
    category, points, spreads = category_of(rows), dict[str, float](), dict[str, tuple[float, float]]()
    for one in categories(rows):
        values = [row.speedup for row in rows if row.speedup and one in (ALL, category(row))]
        middle = median(values)
        if middle is not None:
            points[one] = middle
            low, _, high = statistics.quantiles(values, n=4, method="inclusive") if len(values) > 1 else (middle,) * 3
            spreads[one] = (low, high)
    label = rows[0].drafter if rows[0].peer else f"{name}, {_length_text(rows[0].draft_length)}"
    return Series(name, label, points, spreads)


def _mine(rows: Sequence[BenchRun], name: str) -> list[BenchRun]:
    return [row for row in rows if row.proposer == name and not row.peer]


def _shown(rows: Sequence[BenchRun], name: str) -> list[BenchRun]:
    """Returns the runs of a drafter at auto, or at its first length."""
    mine = _mine(rows, name)
    lengths = [row.draft_length for row in mine]
    length = AUTO if AUTO in lengths else lengths[0]
    return [row for row in mine if row.draft_length == length]


def _length_text(length: int | str | None) -> str:
    return AUTO if length == AUTO else f"{length} a round"


def acceptance_series(rows: Sequence[BenchRun]) -> list[Series]:
    """Returns acceptance by position from 1, at each drafter's longest fixed length, which never drafts less. Uses auto
    where no fixed length has two positions. Leaves out positions that too few rounds reached."""
    found = []
    for name in proposers(rows):
        mine = _mine(rows, name)
        longest = max((row.draft_length for row in mine if isinstance(row.draft_length, int)), default=0)
        length = AUTO if longest < 2 and any(row.draft_length == AUTO for row in mine) else longest
        shares = acceptance_by_position([row for row in mine if row.draft_length == length], MIN_ROUNDS)
        if shares:
            points = {str(place): share for place, share in enumerate(shares, 1)}
            found.append(Series(name, f"{name}, {_length_text(length)}", points))
    return found


def round_prices(rows: Sequence[BenchRun], lengths: int) -> list[Series]:
    """Returns the time of rounds of fewer than `lengths` drafted tokens with each drafter, in plain steps of the same
    prompt. Medians over prompts."""
    plain = {row.where: row.round_s["0"] for row in rows if row.drafter == PLAIN and "0" in row.round_s}
    found = []
    for name in proposers(rows):
        prices: dict[int, list[float]] = {}
        for row in _mine(rows, name):
            for length, seconds in row.round_s.items():
                if 0 < int(length) < lengths and row.where in plain:
                    prices.setdefault(int(length), []).append(seconds / plain[row.where])
        if prices:
            points = {str(length): statistics.median(prices[length]) for length in sorted(prices)}
            found.append(Series(name, f"with {name}", points))
    return found


def chosen_lengths(rows: Sequence[BenchRun]) -> list[Series]:
    """Returns the share of rounds by draft length at auto."""
    found = []
    for name in proposers(rows):
        counts: Counter[int] = Counter()
        for row in _mine(rows, name):
            if row.draft_length == AUTO:
                counts.update({int(length): rounds for length, rounds in row.drafts.items()})
        if whole := counts.total():
            points = {str(length): count / whole for length, count in sorted(counts.items())}
            found.append(Series(name, name, points))
    return found


def loss_strips(rows: Sequence[BenchRun]) -> list[PromptSpeedups]:
    """Returns the speed-ups of every prompt at auto."""
    found = []
    best = {one.proposer: one.best_speedup for one in verdicts(rows) if one.category == ALL and not one.exact}
    for name in proposers(rows):
        by_prompt: dict[tuple[int | str, int], list[float]] = {}
        for row in _mine(rows, name):
            if row.draft_length == AUTO and row.speedup:
                by_prompt.setdefault((row.question_id, row.turn), []).append(row.speedup)
        if values := sorted(map(statistics.median, by_prompt.values())):
            found.append(PromptSpeedups(name, values, statistics.median(values), best.get(name)))
    return found


def _unique(values: Iterable[str]) -> list[str]:
    return list(dict.fromkeys(values))
