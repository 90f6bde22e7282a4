"""How calm the window stays while programs stream: python -m tests.programs.api_window_bench [--seconds N]

The host plays a recording at 40 times its speed, which is more tokens than any model here writes; a client in a process
of its own reads the streams. Measured is the time between two turns of the window's event loop that are 4 ms
apart when nothing holds them up: a frame is 16.7 ms. "8 MB" sends requests of the longest body too.
"""

import argparse
import os
import subprocess
import sys
import time
from pathlib import Path
from tempfile import TemporaryDirectory

from PySide6.QtWidgets import QApplication

from app.api.access import LONGEST_BODY
from app.window.main_window.main_window import MainWindow
from tests.app.host.process import RECORDED
from tests.app.window.api.programs import served
from tests.app.window.chat.scene import Scene
from tests.app.window.waiting import for_a_while, until
from tests.programs.frame_meter import Gaps, share_ms

TICK_MS, FRAME_S = 4, 1 / 60
HOST = (sys.executable, "-m", "app.host", "--replay", str(RECORDED), "--speed", "40")
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


def report(name: str, gaps: Gaps, share: float) -> str:
    """A line of the table. share: of a core that the window used."""
    late = sum(gap_s > FRAME_S for gap_s in gaps.gaps_s)
    median, p99, longest = (f"{share_ms(gaps.gaps_s, part):.1f} ms" for part in (0.5, 0.99, 1.0))
    own = f"own work {share_ms(gaps.busy_s, 1.0):.1f}"
    frames = f"{late} of {len(gaps.gaps_s)} over a frame"
    return f"{name:<10} median {median}, 99 % {p99}, longest {longest} ({own}); {frames}; {share:.0%} of a core"


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.programs.api_window_bench", description=__doc__)
    parser.add_argument("--seconds", type=float, default=8.0)
    seconds = parser.parse_args().seconds
    os.environ.setdefault("QT_QPA_PLATFORM", "offscreen")
    application = QApplication(["redline"])
    with TemporaryDirectory() as folder, Scene(Path(folder), words=HOST) as scene:
        window = MainWindow(scene.controller)
        window.show()
        with served(scene, Path(folder)) as server:
            address = f"{server.state().address}/chat/completions"
            for name, size, count in (("idle", 0, 0), ("8 streams", 10, 8), ("8 MB", LONGEST_BODY - 1000, 2)):
                words = (CLIENT, address, server.state().key, f"{seconds}", f"{size}", f"{count}")
                client = subprocess.Popen([sys.executable, "-c", *words])
                for_a_while(1.0)
                gaps, cpu_s = Gaps(TICK_MS), time.process_time()
                gaps.start()
                for_a_while(seconds - 1.0)
                gaps.stop()
                print(report(name, gaps, (time.process_time() - cpu_s) / (seconds - 1.0)), flush=True)
                until(lambda client=client: client.poll() is not None, 60)  # type: ignore[misc]
        window.close()
    application.quit()


if __name__ == "__main__":
    main()
