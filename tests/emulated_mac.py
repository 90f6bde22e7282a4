"""Has a run of pytest believe that it runs on macOS with Metal: `pytest -p tests.emulated_mac PATHS`.

`sys.platform` is darwin before anything of the app is imported, and the engine's backend says that the device has a
queue and that weights stay as they are. What the emulation cannot be, and does otherwise than a Mac:

- Libraries that ask for the platform when they are imported are imported before, as their macOS parts are not here:
  those of Python itself that mlx-lm and hypothesis bring (`_scproxy`, the build's `_sysconfigdata`), and psutil's.
- Matrices are still multiplied by the CPU's library, which the engine puts in place by the true platform.
- Qt draws off screen, in Fusion: macOS has a style of its own, in which controls have other sizes.
"""

import sys
from dataclasses import replace

import hypothesis  # noqa: F401
import mlx_lm  # noqa: F401
import psutil  # noqa: F401

from engine import backend

_true = backend.describe()
sys.platform = "darwin"
backend.describe = lambda: replace(_true, dequantize=False)
backend.queues = lambda: True
