"""The progress of a command on standard error: a line or bars on a terminal, else a line from time to time."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from math import inf
from typing import TYPE_CHECKING, TextIO

from rich.console import Console
from rich.progress import BarColumn, Progress, TaskID, TextColumn, TimeElapsedColumn, TimeRemainingColumn

from app.cli.terminal.output import error_console
from app.command_line import notify
from app.duration_text import duration_words
from app.safe_text import safe_line, trusted

if TYPE_CHECKING:
    from models.training.pipeline import TrainingProgress

LINE_EVERY_S = 60.0
_STAGE_LINE_EVERY_S = 30.0
_TRUSTED_SHARE = 0.2  # of a stage, after which only its measured speed counts
_BAR_WIDTH = 24
Step = Callable[[int, str], None]


class Status:
    """One line on a terminal that says what the user is waiting for; gone at the end of the `with` block."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = trusted(stream) if stream.isatty() else None

    def __call__(self, text: str) -> None:
        """Replaces the line; an empty text clears it."""
        if self._stream is not None:
            self._stream.write(f"\r\x1b[K\x1b[2m{safe_line(text)} …\x1b[0m" if text else "\r\x1b[K")
            self._stream.flush()

    def __enter__(self) -> Status:
        return self

    def __exit__(self, *_: object) -> None:
        self("")


@contextmanager
def progress(total: int, unit: str = "", begin: str = "") -> Iterator[Step]:
    """Yields a function to call with how many of `total` are done and what comes next. begin: what comes first."""
    console = error_console()
    unit = f" {unit}" if unit else ""
    if not console.is_terminal:
        yield _lines(total, unit)
        return
    columns = (
        TimeElapsedColumn(),
        BarColumn(_BAR_WIDTH),
        TextColumn(f"{{task.completed:,}}/{{task.total:,}}{unit} · left"),
        TimeRemainingColumn(compact=True),
        TextColumn("· {task.description}", markup=False),
    )
    with Progress(*columns, console=console, transient=True, speed_estimate_period=600) as bar:
        task = bar.add_task(begin, total=total)
        yield lambda done, text: bar.update(task, completed=done, description=text)


@contextmanager
def count_progress(total: int) -> Iterator[Callable[[str], None]]:
    """Yields a function to call with a short description before each of `total` steps."""
    with progress(total) as step:
        begun = iter(range(total + 1))
        yield lambda text: step(next(begun, total), text)


def _lines(total: int, unit: str) -> Step:
    began_s, printed_s = time.monotonic(), -inf

    def step(done: int, text: str) -> None:
        nonlocal printed_s
        now_s = time.monotonic()
        if now_s - printed_s >= LINE_EVERY_S:
            printed_s = now_s
            left = f", {(now_s - began_s) / done * (total - done) / 60:.0f} min left" if done else ""
            notify(f"{done:,}/{total:,}{unit}{left} · {text}")

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
        stage_s = max(0.0, stage_s)  # more may be done than was planned
        names = list(self._expected_s)
        later = names[names.index(event.stage) + 1 :] if event.stage in names else []
        return stage_s, stage_s + sum(self._expected_s[name] for name in later)


def show_stages(events: Iterable[TrainingProgress], expected_s: Mapping[str, float]) -> None:
    """Runs the stages to the end and shows their progress."""
    console, clock = error_console(), StageClock(expected_s)
    (_stage_bars if console.is_terminal else _stage_lines)(events, clock, console)


def _stage_bars(events: Iterable[TrainingProgress], clock: StageClock, console: Console) -> None:
    fields = (TextColumn(f"{{task.fields[{name}]}}", markup=False) for name in ("amount", "left", "note"))
    columns = (TextColumn("{task.description:<9}", markup=False), BarColumn(_BAR_WIDTH), *fields)
    with Progress(*columns, console=console, transient=True) as bars:
        tasks: dict[str, TaskID] = {}
        whole = bars.add_task("all", total=1, amount="", note="", left="")
        for event in events:
            stage_s, all_s = clock.left_s(event, time.monotonic())
            if event.stage not in tasks:
                tasks[event.stage] = bars.add_task(event.stage, amount="", note="", left="")
            left = f"{duration_words(stage_s)} left" if event.done < event.total else ""
            task, amount = tasks[event.stage], _amount(event)
            bars.update(task, total=event.total, completed=event.done, amount=amount, note=event.note, left=left)
            spent_s = bars.tasks[whole].elapsed or 0.0
            share = spent_s / (spent_s + all_s) if spent_s + all_s else 1.0
            bars.update(whole, completed=share, amount=f"{share:.0%}", left=f"{duration_words(all_s)} left")


def _stage_lines(events: Iterable[TrainingProgress], clock: StageClock, _: Console) -> None:
    printed_s, stage = 0.0, ""
    for event in events:
        now_s = time.monotonic()
        stage_s, all_s = clock.left_s(event, now_s)
        if event.stage != stage or now_s - printed_s >= _STAGE_LINE_EVERY_S:
            printed_s, stage = now_s, event.stage
            left = f"{duration_words(stage_s)} left, {duration_words(all_s)} in total"
            notify(f"{event.stage} {_amount(event)} · {left}{f' · {event.note}' if event.note else ''}")


def _amount(event: TrainingProgress) -> str:
    return f"{event.done:,.0f}/{event.total:,.0f} {event.unit}"
