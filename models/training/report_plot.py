"""The report as a picture: loss, acceptance by position, what drafting costs, and what comes of it."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

# Okabe-Ito, as in the terminal: what is accepted is green, what the target says itself is blue.
COLD, WARM, PLAIN, TREE = "#009E73", "#D55E00", "#56606B", "#56B4E9"
_GRID = "#E3E6E8"


def draw_report(path: Path, report: Mapping[str, Any]) -> None:
    """Write the PNG of a report, in the form of `models.training.pipeline`. Raises OSError."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(11, 7.6), dpi=110, layout="constrained", facecolor="white")
    FigureCanvasAgg(figure)
    axes = figure.subplots(2, 2)
    title = f"{report['kind']} for {report['target']}\n{_wrapped(report['verdict'])}"
    figure.suptitle(title, fontsize=11.5, parse_math=False)
    _loss(axes[0, 0], report["loss"])
    _acceptance(axes[0, 1], report)
    _costs(axes[1, 0], report)
    _speedup(axes[1, 1], report)
    figure.savefig(path, format="png", metadata={"Software": None})


def _wrapped(text: str, width: int = 110) -> str:
    import textwrap

    return "\n".join(textwrap.wrap(text, width))


def _frame(axis: Any, title: str, across: str, up: str) -> None:
    axis.set_title(title, loc="left", fontsize=10.5, fontweight="bold")
    axis.set_xlabel(across, fontsize=9)
    axis.set_ylabel(up, fontsize=9)
    axis.tick_params(labelsize=8.5)
    axis.grid(axis="y", color=_GRID)
    axis.set_axisbelow(True)
    for side in ("top", "right"):
        axis.spines[side].set_visible(False)


def _loss(axis: Any, loss: Mapping[str, Any]) -> None:
    width = loss["steps_a_point"]
    steps = [width * (place + 1) for place in range(len(loss["training"]))]
    axis.plot(steps, loss["training"], color=PLAIN, linewidth=1, label="training")
    if loss["held_out"]:
        axis.plot(*zip(*loss["held_out"], strict=True), color=COLD, marker="o", markersize=3.5, label="held out")
    _frame(axis, "Loss", "step", "share refused + half the nats, a guess")
    axis.legend(fontsize=8.5, frameon=False)


def _acceptance(axis: Any, report: Mapping[str, Any]) -> None:
    both = (
        ("temperature 0", report["acceptance_by_position"], COLD, -0.2),
        ("temperature 1, expected", report["acceptance_by_position_warm"], WARM, 0.2),
    )
    for label, values, colour, shift in both:
        places = [place + 1 + shift for place in range(len(values))]
        axis.bar(places, values, 0.38, color=colour, label=label)
        for place, value in zip(places, values, strict=True):
            axis.text(place, value + 0.015, f"{value:.2f}", ha="center", fontsize=7.5, color=PLAIN)
    axis.set_ylim(0, 1.08)
    axis.set_xticks(range(1, 1 + max(len(both[0][1]), len(both[1][1]), 1)))
    _frame(axis, "Acceptance", "position in the draft", "kept of those that were reached")
    axis.legend(fontsize=8.5, frameon=False, loc="upper right")


def _costs(axis: Any, report: Mapping[str, Any]) -> None:
    plain = report["pass_s"]["1"]
    widths = [(int(width), seconds / plain) for width, seconds in report["pass_s"].items()]
    drafts = [(int(length), seconds / plain) for length, seconds in report["draft_s"].items()]
    axis.plot(*zip(*widths, strict=True), color=TREE, marker="o", label="verifying, by rows")
    axis.plot(*zip(*drafts, strict=True), color=COLD, marker="o", label="drafting, by tokens")
    axis.set_ylim(0, None)
    share, milliseconds = report["draft_share_of_a_pass"], plain * 1000
    _frame(axis, f"Costs: a draft step is {share:.1%} of a plain pass", "rows, tokens", "plain passes")
    axis.annotate(
        f"a plain pass: {milliseconds:.1f} ms", (0.03, 0.92), xycoords="axes fraction", fontsize=8.5, color=PLAIN
    )
    axis.legend(fontsize=8.5, frameon=False, loc="lower right")


def _speedup(axis: Any, report: Mapping[str, Any]) -> None:
    for label, key, colour in (
        ("temperature 0", "speedup_by_draft_length", COLD),
        ("temperature 1, expected", "speedup_by_draft_length_warm", WARM),
    ):
        axis.plot(range(len(report[key])), report[key], color=colour, marker="o", markersize=4, label=label)
    if len(report["speedup_by_tree_size"]) > 1:
        tree = report["speedup_by_tree_size"][:17]
        axis.plot(range(len(tree)), tree, color=TREE, linestyle="--", label="static tree, temperature 0, by nodes")
    axis.axhline(1, color=PLAIN, linewidth=1, linestyle=":")
    axis.set_ylim(0, None)
    _frame(axis, "Expected speed-up", "tokens drafted a round", "times plain decoding")
    axis.legend(fontsize=8.5, frameon=False, loc="lower left")
