"""How far a fit is, on standard error: a bar for each stage with the time left, or a line now and then where no one
watches."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

from rich.console import Console
from rich.progress import BarColumn, Progress, ProgressColumn, Task, TaskID, TextColumn
from rich.text import Text

if TYPE_CHECKING:
    from models.fit import fitting

LINE_EVERY_S = 30.0
_SURE = 0.2  # of a stage, after which its own speed alone counts


class Clock:
    """Seconds left, of a stage and of all: expected ones first, corrected by how fast the running stage is.

    expected_s: by stage, in order.
    """

    def __init__(self, expected_s: Mapping[str, float]) -> None:
        self._expected_s = dict(expected_s)
        self._stage, self._began_s, self._first = "", 0.0, 0.0

    def left_s(self, event: fitting.Progress, now_s: float) -> tuple[float, float]:
        """(of this stage, of all) at `event`, told at `now_s`."""
        if event.stage != self._stage:
            self._stage, self._began_s, self._first = event.stage, now_s, event.done
        whole_s = self._expected_s.get(event.stage, 0.0)
        rest = 1 - event.done / event.total if event.total else 0.0
        spent_s, done = now_s - self._began_s, event.done - self._first
        stage_s = whole_s * rest
        if done > 0:
            sure = min(1.0, done / event.total / _SURE)
            stage_s += sure * (spent_s / done * (event.total - event.done) - stage_s)
        names = list(self._expected_s)
        later = names[names.index(event.stage) + 1 :] if event.stage in names else []
        return stage_s, stage_s + sum(self._expected_s[name] for name in later)


class _Left(ProgressColumn):
    """The seconds that the clock says."""

    def render(self, task: Task) -> Text:
        left_s = task.fields.get("left_s")
        return Text("" if left_s is None else f"{duration(left_s)} left")


def show(events: Iterable[fitting.Progress], expected_s: Mapping[str, float]) -> None:
    """Tell every event, to the end."""
    console = Console(stderr=True)
    if console.is_terminal:
        _bars(events, Clock(expected_s), console)
    else:
        _lines(events, Clock(expected_s))


def _bars(events: Iterable[fitting.Progress], clock: Clock, console: Console) -> None:
    amount = TextColumn("{task.fields[amount]}")
    columns = (TextColumn("{task.description:<9}"), BarColumn(24), amount, _Left(), TextColumn("{task.fields[note]}"))
    with Progress(*columns, console=console, transient=True) as bars:
        tasks: dict[str, TaskID] = {}
        whole = bars.add_task("all", total=1, amount="", note="", left_s=None)
        for event in events:
            stage_s, all_s = clock.left_s(event, time.monotonic())
            if event.stage not in tasks:
                tasks[event.stage] = bars.add_task(event.stage, amount="", note="", left_s=None)
            bars.update(
                tasks[event.stage],
                total=event.total,
                completed=event.done,
                amount=f"{event.done:,.0f}/{event.total:,.0f} {event.unit}",
                note=event.note,
                left_s=stage_s if event.done < event.total else None,
            )
            spent_s = bars.tasks[whole].elapsed or 0.0
            share = spent_s / (spent_s + all_s) if spent_s + all_s else 1.0
            bars.update(whole, completed=share, amount=f"{share:.0%}", left_s=all_s)


def _lines(events: Iterable[fitting.Progress], clock: Clock) -> None:
    told_s, stage = 0.0, ""
    for event in events:
        now_s = time.monotonic()
        stage_s, all_s = clock.left_s(event, now_s)
        if event.stage != stage or now_s - told_s >= LINE_EVERY_S:
            told_s, stage = now_s, event.stage
            amount = f"{event.done:,.0f}/{event.total:,.0f} {event.unit}"
            left = f"{duration(stage_s)} left, {duration(all_s)} in all"
            note = f" · {event.note}" if event.note else ""
            print(f"redline: {event.stage} {amount} · {left}{note}", file=sys.stderr, flush=True)


def duration(seconds: float) -> str:
    """Seconds for people."""
    whole = max(0, round(seconds))
    if whole < 90:
        return f"{whole} s"
    minutes = round(whole / 60)
    return f"{minutes} min" if minutes < 120 else f"{minutes // 60} h {minutes % 60} min"
