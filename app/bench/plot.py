"""The benchmark's document as one picture for a page: what was gained where, what was accepted, what it cost."""

from __future__ import annotations

import io
import textwrap
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from app import environment
from app.bench import series
from app.bench.document import replace
from app.bench.rows import Document
from app.bench.series import Series
from app.bench.verdicts import ALL, FLOOR

SIZE_IN, DPI = (10.4, 9.6), 160  # 1,664 pixels across: readable at half of that
_TEXT, _QUIET, _GRID = "#1F2328", "#57606A", "#E3E6E8"
# Okabe-Ito's, for drafters; greys for whom Redline is held against.
_DRAFTERS = ("#009E73", "#0072B2", "#D55E00", "#CC79A7", "#E69F00", "#56B4E9")
_PEERS = ("#B4BAC0", "#6E7781", "#3D444D")
_PLACES = 9  # of the longest draft that the costs are drawn for
Colours = dict[str, str]


def write(path: Path, value: Document) -> None:
    """A PNG. Raises RedlineError where the disk won't have it."""
    replace(path, png(value), "--plot")


def png(value: Document) -> bytes:
    """Of the replies at the lowest temperature."""
    held = io.BytesIO()
    figure(value).savefig(held, format="png", dpi=DPI, metadata={"Software": None})
    return held.getvalue()


def figure(value: Document) -> Any:
    """Four axes on white: speed-up by category, acceptance by position, costs with the lengths chosen, losses."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    rows = series.drawn(value)
    drawn = Figure(figsize=SIZE_IN, layout="constrained", facecolor="white")
    FigureCanvasAgg(drawn)
    halves = drawn.add_gridspec(2, 1)
    top, bottom = drawn.add_subfigure(halves[0]), drawn.add_subfigure(halves[1])
    left, middle, right = bottom.subplots(1, 3)
    colours = _colours(series.proposers(rows), series.peers(rows))
    _speedups(top.subplots(), series.speedups(rows), colours)
    _acceptance(left, series.acceptance(rows), colours)
    _costs(middle, rows, colours)
    _losses(right, series.losses(rows), colours)
    warm = f", temperature {rows[0].temperature:g}" if rows else ""
    about = f"{environment.summary(value.environment)} · at most {value.environment['max_tokens']} tokens a reply{warm}"
    drawn.suptitle("\n".join(textwrap.wrap(about, 140)), fontsize=9, color=_QUIET, x=0.01, ha="left")
    return drawn


def _colours(drafters: Sequence[str], peers: Sequence[str]) -> Colours:
    """By name; more than there are hues begin again."""
    found = {name: _DRAFTERS[place % len(_DRAFTERS)] for place, name in enumerate(drafters)}
    return found | {name: _PEERS[place % len(_PEERS)] for place, name in enumerate(peers)}


def _speedups(axis: Any, bars: Sequence[Series], colours: Colours) -> None:
    """Medians, with the middle half of the prompts; those over all of them in words too."""
    names = list(dict.fromkeys(name for one in bars for name in one.points))
    width = 0.84 / max(len(bars), 1)
    for number, one in enumerate(bars):
        places = [names.index(name) + (number - (len(bars) - 1) / 2) * width for name in one.points]
        values = list(one.points.values())
        axis.bar(places, values, width * 0.92, color=colours[one.name], label=f"{one.label}: {one.points[ALL]:.2f}")
        for place, (low, high) in zip(places, one.spreads.values(), strict=True):
            axis.plot((place, place), (low, high), color=_TEXT, linewidth=0.7, alpha=0.6)
    axis.axhline(1, color=_TEXT, linewidth=1)
    axis.set_xticks(range(len(names)), [name.replace("_", " ") for name in names])
    _frame(axis, "Speed-up over plain decoding, by category (median, middle half)", "", "times plain decoding")
    axis.tick_params(axis="x", labelsize=10, length=0, rotation=0 if len(names) <= 8 else 30)
    _legend(axis, bars, ncols=4, loc="upper left")
    top = max((max(value, *one.spreads[name]) for one in bars for name, value in one.points.items()), default=1.0)
    axis.set_ylim(0, max(top, 1.0) * 1.28)


def _acceptance(axis: Any, lines: Sequence[Series], colours: Colours) -> None:
    for one in lines:
        axis.plot(
            [int(place) for place in one.points],
            list(one.points.values()),
            color=colours[one.name],
            marker="o",
            markersize=4,
            label=one.label,
        )
    axis.set_ylim(0, 1.04)
    longest = max((int(place) for one in lines for place in one.points), default=1)
    axis.set_xticks(range(1, longest + 1))
    _frame(axis, "Acceptance by position", "position in the draft", "kept, of those that were reached")
    _legend(axis, lines)


def _costs(axis: Any, rows: Sequence[Any], colours: Colours) -> None:
    """What a round costs, over the lengths that auto chose."""
    lines, chosen = series.costs(rows, _PLACES), series.chosen(rows)
    shares = axis.twinx()
    axis.set_zorder(shares.get_zorder() + 1)
    axis.patch.set_visible(False)
    width = 0.8 / max(len(chosen), 1)
    for number, one in enumerate(chosen):
        places = [int(length) + (number - (len(chosen) - 1) / 2) * width for length in one.points]
        shares.bar(places, list(one.points.values()), width * 0.9, color=colours[one.name], alpha=0.3)
    for one in lines:
        axis.plot(
            [int(length) for length in one.points],
            list(one.points.values()),
            color=colours.get(one.name, _TEXT),
            linestyle="-" if one.name in colours else "--",
            linewidth=1.4,
            label=one.label,
        )
    top = max((value for one in lines for value in one.points.values()), default=1.0)
    axis.set_ylim(0, top * 1.5)  # room for the legend above both
    axis.set_xticks(range(_PLACES))
    shares.set_ylim(0, 1.7)
    shares.set_yticks([0, 0.25, 0.5, 0.75, 1], ["0", "¼", "½", "¾", "1"])
    _frame(axis, "Cost of a round, and what auto chose", "tokens drafted", "plain passes (lines)")
    shares.tick_params(labelsize=8.5, colors=_QUIET)
    shares.set_ylabel("share of rounds (bars)", fontsize=9, color=_QUIET)
    shares.spines["top"].set_visible(False)
    _legend(axis, lines, loc="upper left")


def _losses(axis: Any, strips: Sequence[series.Strip], colours: Colours) -> None:
    """Every prompt a dot; the best fixed length beside them, where any was measured."""
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
    known = any(one.best is not None for one in strips)
    _frame(axis, "Never slower? Auto by prompt", "", "times plain decoding")
    axis.set_xlabel(f"bar: median · dotted: {FLOOR}" + (" · ◇ best fixed" if known else ""), fontsize=8.5)


def _frame(axis: Any, title: str, across: str, up: str) -> None:
    axis.set_title(title, loc="left", fontsize=10.5, fontweight="bold", color=_TEXT)
    axis.set_xlabel(across, fontsize=9, color=_QUIET)
    axis.set_ylabel(up, fontsize=9, color=_QUIET)
    axis.tick_params(labelsize=9, colors=_TEXT)
    axis.grid(axis="y", color=_GRID)
    axis.set_axisbelow(True)
    for side in ("top", "right"):
        axis.spines[side].set_visible(False)


def _legend(axis: Any, told: Sequence[Series], **more: Any) -> None:
    if told:
        axis.legend(fontsize=8.5, frameon=False, labelcolor=_TEXT, **more)
    else:
        axis.text(0.5, 0.5, "nothing was drafted", transform=axis.transAxes, ha="center", color=_QUIET)
