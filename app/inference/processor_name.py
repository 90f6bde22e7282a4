"""What this machine calls its processor. Imports nothing that takes time."""

from __future__ import annotations

import ctypes
import platform
import sys
from pathlib import Path


def processor() -> str:
    """The processor's name, as the system gives it: "Apple M3 Max", "AMD EPYC"."""
    if sys.platform == "darwin":
        return _sysctl("machdep.cpu.brand_string") or platform.machine()
    info = Path("/proc/cpuinfo")
    lines = info.read_text().splitlines() if info.exists() else []
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.processor() or platform.machine()


def _sysctl(name: str) -> str:
    """What macOS's kernel says under `name`, "" where it says nothing."""
    library, value, size = ctypes.CDLL(None), ctypes.create_string_buffer(128), ctypes.c_size_t(128)
    failed = library.sysctlbyname(name.encode(), value, ctypes.byref(size), None, ctypes.c_size_t(0))
    return "" if failed else value.value.decode(errors="replace").strip()
