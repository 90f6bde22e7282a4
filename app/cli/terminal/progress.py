"""The progress of a long-running command on standard error: bars on a terminal, else a line from time to time."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING

from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    TaskID,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)

if TYPE_CHECKING:
    from models.training.pipeline import TrainingProgress

_COUNT_LINE_EVERY_S = 60.0
_STAGE_LINE_EVERY_S = 30.0
_TRUSTED_SHARE = 0.2  # of a stage, after which only its measured speed counts


@contextmanager
def count_progress(total: int) -> Iterator[Callable[[str], None]]:
    """Yields a function to call with a short description before each of `total` steps."""
    console = Console(stderr=True)
    if not console.is_terminal:
        yield _count_lines(total)
        return
    columns = (
        TimeElapsedColumn(),
        BarColumn(24),
        MofNCompleteColumn(),
        TextColumn("· left"),
        TimeRemainingColumn(compact=True),
        TextColumn("· {task.description}"),
    )
    with Progress(*columns, console=console, transient=True, speed_estimate_period=600) as bar:
        task, begun = bar.add_task("", total=total), -1

        def step(text: str) -> None:
            nonlocal begun
            begun += 1
            bar.update(task, completed=begun, description=text)

        yield step


def _count_lines(total: int) -> Callable[[str], None]:
    begun, began_s, printed_s = 0, time.monotonic(), 0.0

    def step(text: str) -> None:
        nonlocal begun, printed_s
        begun += 1
        now_s = time.monotonic()
        if now_s - printed_s >= _COUNT_LINE_EVERY_S:
            printed_s = now_s
            left = f", {(now_s - began_s) / (begun - 1) * (total - begun + 1) / 60:.0f} min left" if begun > 1 else ""
            _print_line(f"{begun}/{total}{left} · {text}")

    return step


class StageClock:
    """Estimates the seconds left, from the expected seconds of each stage and the speed of the running one."""

    def __init__(self, expected_s: Mapping[str, float]) -> None:
        self._expected_s = dict(expected_s)
        self._stage, self._began_s, self._first = "", 0.0, 0.0

    def left_s(self, event: TrainingProgress, now_s: float) -> tuple[float, float]:
        """Returns the seconds left of this stage and of all stages."""
        if event.stage != self._stage:
            self._stage, self._began_s, self._first = event.stage, now_s, event.done
        rest = 1 - event.done / event.total if event.total else 0.0
        spent_s, done = now_s - self._began_s, event.done - self._first
        stage_s = self._expected_s.get(event.stage, 0.0) * rest
        if done > 0:
            trust = min(1.0, done / event.total / _TRUSTED_SHARE)
            stage_s += trust * (spent_s / done * (event.total - event.done) - stage_s)
        names = list(self._expected_s)
        later = names[names.index(event.stage) + 1 :] if event.stage in names else []
        return stage_s, stage_s + sum(self._expected_s[name] for name in later)


def show_stages(events: Iterable[TrainingProgress], expected_s: Mapping[str, float]) -> None:
    """Runs the stages to the end and shows their progress."""
    console = Console(stderr=True)
    if console.is_terminal:
        _stage_bars(events, StageClock(expected_s), console)
    else:
        _stage_lines(events, StageClock(expected_s))


def _stage_bars(events: Iterable[TrainingProgress], clock: StageClock, console: Console) -> None:
    fields = (TextColumn(f"{{task.fields[{name}]}}") for name in ("amount", "left", "note"))
    with Progress(TextColumn("{task.description:<9}"), BarColumn(24), *fields, console=console, transient=True) as bars:
        tasks: dict[str, TaskID] = {}
        whole = bars.add_task("all", total=1, amount="", note="", left="")
        for event in events:
            stage_s, all_s = clock.left_s(event, time.monotonic())
            if event.stage not in tasks:
                tasks[event.stage] = bars.add_task(event.stage, amount="", note="", left="")
            bars.update(
                tasks[event.stage],
                total=event.total,
                completed=event.done,
                amount=f"{event.done:,.0f}/{event.total:,.0f} {event.unit}",
                note=event.note,
                left=f"{duration(stage_s)} left" if event.done < event.total else "",
            )
            spent_s = bars.tasks[whole].elapsed or 0.0
            share = spent_s / (spent_s + all_s) if spent_s + all_s else 1.0
            bars.update(whole, completed=share, amount=f"{share:.0%}", left=f"{duration(all_s)} left")


def _stage_lines(events: Iterable[TrainingProgress], clock: StageClock) -> None:
    printed_s, stage = 0.0, ""
    for event in events:
        now_s = time.monotonic()
        stage_s, all_s = clock.left_s(event, now_s)
        if event.stage != stage or now_s - printed_s >= _STAGE_LINE_EVERY_S:
            printed_s, stage = now_s, event.stage
            note = f" · {event.note}" if event.note else ""
            _print_line(
                f"{event.stage} {event.done:,.0f}/{event.total:,.0f} {event.unit} · "
                f"{duration(stage_s)} left, {duration(all_s)} in total{note}"
            )


def duration(seconds: float) -> str:
    """Returns a duration in words."""
    whole = max(0, round(seconds))
    if whole < 90:
        return f"{whole} s"
    minutes = round(whole / 60)
    return f"{minutes} min" if minutes < 120 else f"{minutes // 60} h {minutes % 60} min"


def _print_line(text: str) -> None:
    print(f"redline: {text}", file=sys.stderr, flush=True)
