"""What the inspector costs the GUI thread: `python -m tests.window.inspector.bench`.

A reply of 20,000 tokens is told at 2,000 tokens a second, a frame's worth at a time; every update (taking rounds in,
and drawing list, numbers and the plot in sight) is timed. Then the same reply is shown at once, and scrolled.
Times are of the GUI thread alone (its CPU time), so that other work on the machine does not count; the last column is
by the clock on the wall.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Sequence

os.environ.setdefault("QT_QPA_PLATFORM", "offscreen")

from PySide6.QtWidgets import QApplication

from app.protocol import RoundDone
from app.window.inspector import Inspector
from app.window.inspector.charts import CHARTS
from app.window.inspector.inspector import FRAME_MS
from tests.window.inspector.made import mixed

TOKENS, TOKENS_PER_S = 20_000, 2_000
UPDATES = 60  # timed for each plot

Times = tuple[float, float]  # ms of the GUI thread, ms on the wall


def main() -> None:
    app = QApplication.instance() or QApplication([])
    told = mixed(TOKENS // 2)
    inspector = Inspector()
    inspector.resize(320, 820)
    inspector.show()
    for which, (title, *_) in enumerate(CHARTS):
        inspector.charts.choose(which)
        report(f"update with the plot {title}", streamed(app, inspector, told))
    report("slice of a reply shown at once", shown(app, inspector, told))
    report("page of a long list scrolled", scrolled(app, inspector))


def streamed(app: QApplication, inspector: Inspector, told: Sequence[RoundDone]) -> list[Times]:
    """ms of the last UPDATES updates of a reply at TOKENS_PER_S."""
    per_update = round(TOKENS_PER_S * FRAME_MS / 1000 * len(told) / TOKENS)
    first = len(told) - UPDATES * per_update
    inspector.show_reply(list(told[:first]), None)
    drain(app, inspector)
    times = []
    for i in range(UPDATES):
        inspector.add_rounds(list(told[first + i * per_update : first + (i + 1) * per_update]))
        times.append(timed(inspector.update_now, app.processEvents))
    return times


def shown(app: QApplication, inspector: Inspector, told: Sequence[RoundDone]) -> list[Times]:
    """ms of each turn of the event loop until all is shown."""
    times = [timed(lambda: inspector.show_reply(list(told), None))]
    while inspector.busy:
        times.append(timed(app.processEvents))
    return times


def scrolled(app: QApplication, inspector: Inspector) -> list[Times]:
    bar = inspector.rounds.verticalScrollBar()
    times = []
    for i in range(UPDATES):
        bar.setValue(round(bar.maximum() * i / UPDATES))
        times.append(timed(app.processEvents))
    return times


def drain(app: QApplication, inspector: Inspector) -> None:
    while inspector.busy:
        app.processEvents()
    app.processEvents()


def timed(*doing: Callable[[], object]) -> Times:
    wall_s, cpu_s = time.perf_counter(), time.thread_time()
    for does in doing:
        does()
    return (time.thread_time() - cpu_s) * 1000, (time.perf_counter() - wall_s) * 1000


def report(what: str, times: list[Times]) -> None:
    cpu, wall = (sorted(values) for values in zip(*times, strict=True))
    middle, late = cpu[len(cpu) // 2], cpu[int(len(cpu) * 0.95)]
    said = f"median {middle:5.1f} ms   p95 {late:5.1f} ms   longest {cpu[-1]:5.1f} ms   (wall {wall[-1]:5.1f} ms)"
    print(f"{what:34} {said}")


if __name__ == "__main__":
    main()
