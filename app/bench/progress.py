"""How far a benchmark is, on standard error: a bar with the time left, or a line now and then where no one watches."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

LINE_EVERY_S = 60.0


@contextmanager
def progress(total: int) -> Iterator[Callable[[str], None]]:
    """Gives a function to call before each of `total` replies, with a few words about it."""
    console = Console(stderr=True)
    if not console.is_terminal:
        yield _lines(total)
        return
    time_left = TimeRemainingColumn(compact=True)
    columns = [BarColumn(24), MofNCompleteColumn(), TextColumn("· left"), time_left, TextColumn("· {task.description}")]
    with Progress(TimeElapsedColumn(), *columns, console=console, transient=True, speed_estimate_period=600) as bar:
        task, begun = bar.add_task("", total=total), -1

        def step(text: str) -> None:
            nonlocal begun
            begun += 1
            bar.update(task, completed=begun, description=text)

        yield step


def _lines(total: int) -> Callable[[str], None]:
    begun, began_s, told_s = 0, time.monotonic(), 0.0

    def step(text: str) -> None:
        nonlocal begun, told_s
        begun += 1
        now_s = time.monotonic()
        if now_s - told_s >= LINE_EVERY_S:
            told_s = now_s
            left = f", {(now_s - began_s) / (begun - 1) * (total - begun + 1) / 60:.0f} min left" if begun > 1 else ""
            print(f"redline: {begun}/{total}{left} · {text}", file=sys.stderr, flush=True)

    return step
