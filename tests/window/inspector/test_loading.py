"""What the inspector loads, and when: in processes of their own, since modules stay once they are loaded."""

from __future__ import annotations

import subprocess
import sys


def run(code: str) -> str:
    """What Python says in a process of its own."""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False, timeout=60)
    assert done.returncode == 0, done.stderr
    return done.stdout


START = """
import os, sys
os.environ["QT_QPA_PLATFORM"] = "offscreen"
from PySide6.QtWidgets import QApplication
app = QApplication([])
from app.window.composer.context_meter import ContextMeter
from app.window.inspector import Inspector, Legend
inspector = Inspector()
slow = ("pyqtgraph", "numpy", "mlx.core")
"""


def test_nothing_slow_is_loaded() -> None:
    shown = "inspector.show_reply([], None); inspector.show(); app.processEvents()\n"
    assert run(START + shown + "print([name for name in slow if name in sys.modules])").splitlines() == ["[]"]
