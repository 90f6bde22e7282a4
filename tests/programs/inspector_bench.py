"""What the inspector costs the GUI thread: `python -m tests.programs.inspector_bench`.

A reply of 20,000 tokens arrives at 2,000 tokens a second, a frame's worth at a time; every update (taking rounds in,
and drawing the list, the numbers and the chart in sight) is timed. Then the same reply is shown at once, and scrolled.
Times are the CPU time of the GUI thread, so that other work on the machine does not count.
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
from tests.app.window.inspector.made import mixed
from tests.app.window.waiting import until

TOKENS, TOKENS_PER_S = 20_000, 2_000
UPDATES = 60  # timed for each chart


def main() -> None:
    app = QApplication.instance() or QApplication([])
    told = mixed(TOKENS // 2)
    inspector = Inspector()
    inspector.resize(320, 820)
    inspector.show()
    for which, (title, *_) in enumerate(CHARTS):
        inspector.charts.choose(which)
        report(f"update with the chart {title}", streamed(app, inspector, told))
    times = [timed(lambda: inspector.show_reply(list(told), None))]
    while inspector.busy:
        times.append(timed(app.processEvents))
    report("slice of a reply shown at once", times)
    bar = inspector.rounds.verticalScrollBar()
    places = [round(bar.maximum() * i / UPDATES) for i in range(UPDATES)]
    report("page of a long list scrolled", [timed(lambda at=at: bar.setValue(at), app.processEvents) for at in places])


def streamed(app: QApplication, inspector: Inspector, told: Sequence[RoundDone]) -> list[float]:
    """Returns the ms of the last UPDATES updates of a reply at TOKENS_PER_S."""
    per_update = round(TOKENS_PER_S * FRAME_MS / 1000 * len(told) / TOKENS)
    first = len(told) - UPDATES * per_update
    inspector.show_reply(list(told[:first]), None)
    until(lambda: not inspector.busy)
    times = []
    for start in range(first, len(told), per_update):
        inspector.add_rounds(list(told[start : start + per_update]))
        times.append(timed(inspector.update_now, app.processEvents))
    return times


def timed(*actions: Callable[[], object]) -> float:
    began_s = time.thread_time()
    for action in actions:
        action()
    return (time.thread_time() - began_s) * 1000


def report(what: str, times: list[float]) -> None:
    ms = sorted(times)
    middle, late = ms[len(ms) // 2], ms[int(len(ms) * 0.95)]
    print(f"{what:34} median {middle:5.1f} ms   p95 {late:5.1f} ms   longest {ms[-1]:5.1f} ms")


if __name__ == "__main__":
    main()
