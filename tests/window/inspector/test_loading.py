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
from app.window.inspector import ContextMeter, Inspector, Legend
inspector = Inspector()
slow = ("pyqtgraph", "numpy", "mlx.core")
"""


def test_pyqtgraph_is_loaded_when_it_is_first_shown_and_mlx_never() -> None:
    before = "inspector.show_reply([], None); print([name for name in slow if name in sys.modules])\n"
    after = "inspector.show()\nwhile not inspector.plots_ready: app.processEvents()\n"
    after += "print([name for name in slow if name in sys.modules])"
    assert run(START + before + after).splitlines() == ["[]", "['pyqtgraph', 'numpy']"]


def test_leaving_while_pyqtgraph_loads_is_clean() -> None:
    assert run(START + "inspector.show(); app.processEvents(); inspector.deleteLater(); app.processEvents()") == ""


def test_plots_that_cannot_be_loaded_are_said_and_the_rest_works() -> None:
    code = (
        "sys.modules['pyqtgraph'] = None\n"
        "from tests.window.inspector.made import mixed\n"
        "from PySide6.QtWidgets import QLabel\n"
        "inspector.show(); inspector.show_reply(mixed(5), None)\n"
        "import time; end = time.monotonic() + 10; said = ''\n"
        "while 'cannot be shown' not in said and time.monotonic() < end:\n"
        "    app.processEvents(); said = ' '.join(label.text() for label in inspector.findChildren(QLabel))\n"
        "print('cannot be shown' in said, inspector.rounds.round_model.rowCount())"
    )
    assert run(START + code).split() == ["True", "5"]
