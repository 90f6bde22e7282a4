"""Small programs that `redline doctor` runs in processes of their own. Each prints one JSON object."""

from __future__ import annotations

PROBE_MLX = """
import json, time
import engine
from importlib.metadata import version
try:
    import mlx.core as mx
    from engine import backend
    found = backend.describe()
    weights, rows = mx.random.normal((2048, 2048)), mx.random.normal((64, 2048))
    mx.eval(weights, rows, rows @ weights)
    seconds = []
    for _ in range(5):
        began = time.perf_counter()
        mx.eval(rows @ weights)
        seconds.append(time.perf_counter() - began)
    print(json.dumps({
        "version": version("mlx"), "device": found.device, "library": found.library, "dtype": found.dtype,
        "detail": found.detail, "gflops": 2e-9 * 64 * 2048 * 2048 / min(seconds),
    }))
except ImportError as error:
    print(json.dumps({"error": f"cannot be loaded ({error})"}))
"""

# What Qt loads on Linux and PySide6's wheel does not carry, and the Debian or Ubuntu package that has it.
QT_PACKAGES = {
    "libEGL.so.1": "libegl1",
    "libGL.so.1": "libgl1",
    "libdbus-1.so.3": "libdbus-1-3",
    "libfontconfig.so.1": "libfontconfig1",
    "libglib-2.0.so.0": "libglib2.0-0",
    "libxkbcommon.so.0": "libxkbcommon0",
    "libxkbcommon-x11.so.0": "libxkbcommon-x11-0",
    "libX11-xcb.so.1": "libx11-xcb1",
    "libxcb-cursor.so.0": "libxcb-cursor0",
    "libxcb-icccm.so.4": "libxcb-icccm4",
    "libxcb-image.so.0": "libxcb-image0",
    "libxcb-keysyms.so.1": "libxcb-keysyms1",
    "libxcb-randr.so.0": "libxcb-randr0",
    "libxcb-render-util.so.0": "libxcb-render-util0",
    "libxcb-shape.so.0": "libxcb-shape0",
    "libxcb-sync.so.1": "libxcb-sync1",
    "libxcb-xfixes.so.0": "libxcb-xfixes0",
    "libxcb-xkb.so.1": "libxcb-xkb1",
}

# All that is missing at once: the import alone would name the first one only.
PROBE_QT = f"""
import ctypes, json, sys
told = {{"missing": []}}
if sys.platform == "linux":
    for library in {list(QT_PACKAGES)!r}:
        try:
            ctypes.CDLL(library)
        except OSError:
            told["missing"].append(library)
try:
    import PySide6.QtWidgets
    told["version"] = PySide6.__version__
except ImportError as error:
    told["error"] = f"does not load ({{error}})"
print(json.dumps(told))
"""
