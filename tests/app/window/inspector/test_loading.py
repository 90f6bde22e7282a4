"""What the inspector loads: in a process of its own, since modules stay once they are loaded."""

from __future__ import annotations

import os
import subprocess
import sys

CODE = """
import sys
from PySide6.QtWidgets import QApplication
app = QApplication([])
from app.window.inspector import Inspector
inspector = Inspector()
inspector.show()
app.processEvents()
print([name for name in ("numpy", "mlx.core", "PIL") if name in sys.modules])
"""


def test_nothing_slow_is_loaded() -> None:
    environment = os.environ | {"QT_QPA_PLATFORM": "offscreen"}
    done = subprocess.run([sys.executable, "-c", CODE], capture_output=True, text=True, check=True, env=environment)
    assert done.stdout.splitlines() == ["[]"]
