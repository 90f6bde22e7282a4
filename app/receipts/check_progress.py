"""How far a verification is, on standard error: a bar with the time left, or a line now and then where nobody looks."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

from app.receipts.exported_replies import Case

LINE_EVERY_S = 60.0


@contextmanager
def progress(cases: Sequence[Case]) -> Iterator[Callable[[Case, int], None]]:
    """Gives a function to tell of each case how many of its tokens are checked."""
    console = Console(stderr=True)
    count = _Count(cases)
    if not console.is_terminal:
        yield _lines(count)
        return
    share = TextColumn("{task.completed:,}/{task.total:,} tokens · left")
    columns = [BarColumn(24), share, TimeRemainingColumn(compact=True), TextColumn("· {task.description}")]
    with Progress(TimeElapsedColumn(), *columns, console=console, transient=True, speed_estimate_period=600) as bar:
        task = bar.add_task("loading the model", total=count.total)

        def step(case: Case, tokens: int) -> None:
            bar.update(task, completed=count.done(case, tokens), description=count.name(case))

        yield step


class _Count:
    """Tokens of all cases, and of those before each."""

    def __init__(self, cases: Sequence[Case]) -> None:
        self._several = len({case.export.path for case in cases}) > 1
        self._before: dict[tuple[int, int], int] = {}
        self.total = 0
        for case in cases:
            self._before[id(case.export), case.place] = self.total
            self.total += case.tokens

    def done(self, case: Case, tokens: int) -> int:
        """Of all, when so many of this one are."""
        return self._before[id(case.export), case.place] + tokens

    def name(self, case: Case) -> str:
        """What to call it."""
        return f"{case.export.path.name}, message {case.number}" if self._several else f"message {case.number}"


def _lines(count: _Count) -> Callable[[Case, int], None]:
    told_s = began_s = time.monotonic()

    def step(case: Case, tokens: int) -> None:
        nonlocal told_s
        now_s, done = time.monotonic(), count.done(case, tokens)
        if now_s - told_s >= LINE_EVERY_S and done:
            told_s = now_s
            left = (now_s - began_s) / done * (count.total - done) / 60
            line = f"redline: {done:,}/{count.total:,} tokens, {left:.0f} min left · {count.name(case)}"
            print(line, file=sys.stderr, flush=True)

    return step
