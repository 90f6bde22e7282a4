"""How calm the window stays while programs stream: python -m tests.programs.api_window_bench [--seconds N]

A fake host writes 200 rounds a second (600 tokens, more than any model here) for the API's real process; a client in a
process of its own reads the streams. Measured is the time between two turns of the window's event loop that are 4 ms
apart when nothing holds them up: a frame is 16.7 ms. "8 MB" sends requests of the longest body too.
"""

from __future__ import annotations

import argparse
import os
import statistics
import subprocess
import sys
import time
from pathlib import Path
from tempfile import TemporaryDirectory

from PySide6.QtCore import Qt, QTimer
from PySide6.QtWidgets import QApplication

from app.api.access import LONGEST_BODY
from app.window.main_window.main_window import MainWindow
from tests.app.window.api.programs import served
from tests.app.window.chat.scene import Scene
from tests.app.window.waiting import for_a_while, until

TICK_MS = 4
CLIENT = """
import json, sys, threading, time, urllib.request
url, key, seconds, size, count = sys.argv[1], sys.argv[2], float(sys.argv[3]), int(sys.argv[4]), int(sys.argv[5])
until = time.monotonic() + seconds
def ask():
    while time.monotonic() < until:
        body = {"messages": [{"role": "user", "content": "x" * size}], "stream": True, "max_tokens": 300}
        headers = {"authorization": "Bearer " + key, "content-type": "application/json"}
        with urllib.request.urlopen(urllib.request.Request(url, json.dumps(body).encode(), headers)) as answer:
            while answer.read1(65536) and time.monotonic() < until: pass
threads = [threading.Thread(target=ask) for _ in range(count)]
[t.start() for t in threads]; [t.join() for t in threads]
"""


class Ticks:
    """The times between turns of the event loop, in ms: by the clock, and of its own work, which tells how much of that
    other processes on the same cores are to blame for."""

    def __init__(self) -> None:
        self.gaps: list[float] = []
        self.work: list[float] = []
        self._last_s, self._last_work_s = time.monotonic(), time.thread_time()
        self._timer = QTimer(interval=TICK_MS, timerType=Qt.TimerType.PreciseTimer)
        self._timer.timeout.connect(self._tick)
        self._timer.start()

    def _tick(self) -> None:
        now_s, work_s = time.monotonic(), time.thread_time()
        self.gaps.append((now_s - self._last_s) * 1000)
        self.work.append((work_s - self._last_work_s) * 1000)
        self._last_s, self._last_work_s = now_s, work_s

    def report(self, name: str, cpu_s: float, seconds: float) -> str:
        gaps = sorted(self.gaps)
        late = sum(gap > 16.7 for gap in gaps)
        p99 = gaps[int(len(gaps) * 0.99)]
        middle = statistics.median(gaps)
        numbers = (
            f"median {middle:.1f} ms, 99 % {p99:.1f} ms, longest {gaps[-1]:.1f} ms (own work {max(self.work):.1f})"
        )
        return f"{name:<10} {numbers}; {late} of {len(gaps)} over a frame; window used {cpu_s / seconds:.0%} of a core"


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.programs.api_window_bench", description=__doc__)
    parser.add_argument("--seconds", type=float, default=8.0)
    seconds = parser.parse_args().seconds
    os.environ.setdefault("QT_QPA_PLATFORM", "offscreen")
    application = QApplication(["redline"])
    with TemporaryDirectory() as folder, Scene(Path(folder), rounds=100, pause_s=0.005) as scene:
        window = MainWindow(scene.controller)
        window.show()
        with served(scene, Path(folder)) as server:
            address = f"{server.state().address}/chat/completions"
            for name, size, count in (("idle", 0, 0), ("8 streams", 10, 8), ("8 MB", LONGEST_BODY - 1000, 2)):
                command = [
                    sys.executable,
                    "-c",
                    CLIENT,
                    address,
                    server.state().key,
                    f"{seconds}",
                    f"{size}",
                    f"{count}",
                ]
                client = subprocess.Popen(command)
                for_a_while(1.0)
                ticks, cpu_s = Ticks(), time.process_time()
                for_a_while(seconds - 1.0)
                print(ticks.report(name, time.process_time() - cpu_s, seconds - 1.0), flush=True)
                until(lambda client=client: client.poll() is not None, 60)  # type: ignore[misc]
        window.close()
    application.quit()


if __name__ == "__main__":
    main()
