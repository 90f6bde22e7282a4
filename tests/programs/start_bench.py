"""Measures how soon the window can be used: `python -m tests.programs.start_bench [--real] [--runs N]`.

Seconds from the start of the process to the first paint, and until the composer has taken a letter: the median of five
starts on a data folder that has been used before, offscreen unless QT_QPA_PLATFORM says otherwise. The limit is 1.0 s.
--real: with the real host, which loads its model meanwhile. --child FOLDER BEGAN_S: is one of these starts.
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
    words = [sys.executable, "-m", __spec__.name, "--child", folder, str(time.monotonic()), *["--real"] * real]
    done = subprocess.run(words, env=environment, capture_output=True, text=True, check=False)
    if done.returncode:
        raise SystemExit(done.stderr)
    read: dict[str, float] = json.loads(done.stdout)
    return read


def medians(runs: int, real: bool = False) -> dict[str, float]:
    """Returns medians over `runs` starts, after one that may have to compile and is not counted."""
    with tempfile.TemporaryDirectory() as folder:
        start(folder, real)
        starts = [start(folder, real) for _ in range(runs)]
    return {key: statistics.median(one[key] for one in starts) for key in starts[0]}


# --- one start --------------------------------------------------------------------------------


def run_child(folder: str, began_s: float, real: bool) -> int:
    """Opens the window, types a letter once it is painted, prints how long that took as JSON, and ends."""
    from pathlib import Path

    from app.window.main_window import start as window
    from tests.app.window.chat.fake_host import command

    connect = window._connect

    def connect_and_watch(*parts: object) -> None:
        connect(*parts)  # type: ignore[arg-type]
        watch(parts[2], began_s)

    window._connect = connect_and_watch
    return window.run(window.WindowOptions(Path(folder), host=() if real else tuple(command())))


def watch(window: object, began_s: float) -> None:
    from PySide6.QtCore import QEvent, Qt
    from PySide6.QtGui import QKeyEvent
    from PySide6.QtWidgets import QApplication, QPlainTextEdit

    from app.window.main_window.application import FirstPaint

    def type_a_letter() -> None:
        painted_s = time.monotonic() - began_s
        editor = QApplication.focusWidget()
        assert isinstance(editor, QPlainTextEdit), editor
        before = editor.toPlainText()
        QApplication.sendEvent(editor, QKeyEvent(QEvent.Type.KeyPress, 0, Qt.KeyboardModifier.NoModifier, "a"))
        editor.repaint()
        assert sorted(editor.toPlainText()) == sorted(before + "a")
        usable_s = time.monotonic() - began_s
        print(json.dumps({"painted_s": painted_s, "usable_s": usable_s, "cpu_s": time.process_time()}))
        QApplication.quit()

    FirstPaint(window, type_a_letter)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--real", action="store_true")
    parser.add_argument("--child", nargs=2, help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.child:
        return run_child(args.child[0], float(args.child[1]), args.real)
    found = medians(args.runs, args.real)
    painted, usable, cpu = (f"{found[key]:.2f} s" for key in ("painted_s", "usable_s", "cpu_s"))
    print(f"first paint {painted}, composer usable {usable} (at most {LIMIT_S:.1f} s), of them {cpu} on the processor")
    return int(found["usable_s"] > LIMIT_S)


if __name__ == "__main__":
    sys.exit(main())
