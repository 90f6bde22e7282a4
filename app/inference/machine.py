"""This machine: its processor and its memory, as the system reports them. Imports nothing that takes time."""

from __future__ import annotations

import ctypes
import os
import platform
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

_CGROUP = Path("/sys/fs/cgroup")


def processor() -> str:
    """Returns the processor's name, as the system gives it: "Apple M3 Max", "AMD EPYC"."""
    if sys.platform == "darwin":
        return _sysctl("machdep.cpu.brand_string") or platform.machine()
    info = Path("/proc/cpuinfo")
    lines = info.read_text().splitlines() if info.exists() else []
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.processor() or platform.machine()


def memory() -> tuple[int | None, int | None]:
    """Returns the bytes of memory for this process in total, and free now; None where the system does not say."""
    if sys.platform == "darwin":
        return _pages("SC_PHYS_PAGES"), _mac_available()
    total, available = _linux_memory()
    limit, used = _number(_CGROUP / "memory.max"), _number(_CGROUP / "memory.current")
    if limit is not None and (total is None or limit < total):
        free = None if used is None else max(limit - used, 0)
        return limit, free if available is None or free is None else min(free, available)
    return total, available


def _linux_memory() -> tuple[int | None, int | None]:
    try:
        lines = Path("/proc/meminfo").read_text().splitlines()
        kib = {name: int(rest.split()[0]) for name, _, rest in (line.partition(":") for line in lines)}
        return kib["MemTotal"] * 1024, kib["MemAvailable"] * 1024
    except (OSError, KeyError, ValueError, IndexError):
        return _pages("SC_PHYS_PAGES"), _pages("SC_AVPHYS_PAGES")


def _mac_available() -> int | None:
    """Returns free, inactive and speculative pages, as Activity Monitor counts what can be had."""
    try:
        printed = subprocess.run(["/usr/bin/vm_stat"], capture_output=True, text=True, timeout=5, check=True).stdout
        pages = dict(line.split(":", 1) for line in printed.splitlines()[1:] if ":" in line)
        wanted = ("Pages free", "Pages inactive", "Pages speculative")
        return sum(int(pages[name].strip(" .")) for name in wanted) * os.sysconf("SC_PAGE_SIZE")
    except (OSError, subprocess.SubprocessError, KeyError, ValueError):
        return None


def _sysctl(name: str) -> str:
    """Returns what macOS's kernel says under `name`, "" where it says nothing."""
    library, value, size = ctypes.CDLL(None), ctypes.create_string_buffer(128), ctypes.c_size_t(128)
    failed = library.sysctlbyname(name.encode(), value, ctypes.byref(size), None, ctypes.c_size_t(0))
    return "" if failed else value.value.decode(errors="replace").strip()


def _pages(name: str) -> int | None:
    with suppress(ValueError, OSError):
        return os.sysconf(name) * os.sysconf("SC_PAGE_SIZE")
    return None


def _number(path: Path) -> int | None:
    """Returns the number in a file of the kernel; None where there is none, or it says "max"."""
    with suppress(OSError, ValueError):
        return int(path.read_text())
    return None
