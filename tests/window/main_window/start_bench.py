"""Measures how soon the window can be used: `python -m tests.window.main_window.start_bench [--real] [--runs N]`.

Seconds from the start of the process to the first paint, and to the composer having taken a letter: median of five
starts on a data folder that has been used before, offscreen unless QT_QPA_PLATFORM says otherwise. At most 1.0 s is
asked for. --real: with the real host, which loads its model beside.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time

LIMIT_S = 1.0


def start(folder: str, real: bool) -> dict[str, float]:
    """Starts the window once and returns how long that took."""
    environment = {"QT_QPA_PLATFORM": "offscreen", **os.environ}
    words = [sys.executable, "-m", "tests.window.main_window.start_child", folder, str(time.monotonic())]
    words += ["real"] if real else []
    done = subprocess.run(words, env=environment, capture_output=True, text=True, check=False)
    if done.returncode:
        raise SystemExit(done.stderr)
    read: dict[str, float] = json.loads(done.stdout)
    return read


def medians(runs: int, real: bool = False) -> dict[str, float]:
    """Returns medians over `runs` starts, after one that may have to compile and is not counted."""
    with tempfile.TemporaryDirectory() as folder:
        start(folder, real)
        told = [start(folder, real) for _ in range(runs)]
    return {key: statistics.median(one[key] for one in told) for key in told[0]}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--real", action="store_true")
    args = parser.parse_args()
    found = medians(args.runs, args.real)
    painted, usable, cpu = (f"{found[key]:.2f} s" for key in ("painted_s", "usable_s", "cpu_s"))
    print(f"first paint {painted}, composer usable {usable} (at most {LIMIT_S:.1f} s), of them {cpu} on the processor")
    return int(found["usable_s"] > LIMIT_S)


if __name__ == "__main__":
    sys.exit(main())
