"""This machine: its processor and its memory, as the system reports them. Imports nothing that takes time."""

import ctypes
import platform
import sys
from contextlib import suppress
from pathlib import Path

from models.catalogue.search import MachineMemory, unwired_bytes, wired_bytes

_CGROUP = Path("/sys/fs/cgroup")
_PRESSURE = "kern.memorystatus_vm_pressure_level"
_NORMAL = 1  # 2: warning, 4: critical, as DISPATCH_MEMORYPRESSURE_NORMAL and so on in dispatch/source.h


def processor() -> str:
    """Returns the processor's name, as the system gives it: "Apple M3 Max", "AMD EPYC"."""
    if sys.platform == "darwin":
        brand = _sysctl("machdep.cpu.brand_string").rstrip(b"\0").decode(errors="replace").strip()
        return brand or platform.machine()
    info = Path("/proc/cpuinfo")
    lines = info.read_text().splitlines() if info.exists() else []
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.processor() or platform.machine()


def memory() -> tuple[int, int]:
    """Returns the bytes of memory for this process in total, and free now: those of the machine, or of its control
    group."""
    import psutil

    machine = psutil.virtual_memory()
    with suppress(OSError, ValueError):  # there is no group, or it says "max"
        limit, used = (int((_CGROUP / name).read_text()) for name in ("memory.max", "memory.current"))
        if limit < machine.total:
            return limit, min(machine.available, max(limit - used, 0))
    return machine.total, machine.available


def this_machine() -> MachineMemory:
    """Returns the memory of this machine, how much of it a model may take, and whether weights become 32-bit floats."""
    (total_bytes, _), has_gpu = memory(), sys.platform == "darwin"
    limit_bytes = wired_bytes(total_bytes) if has_gpu else unwired_bytes(total_bytes)
    return MachineMemory(
        processor=processor(), memory_bytes=total_bytes, for_models_bytes=limit_bytes, in_float32=not has_gpu
    )


def memory_is_short() -> bool:
    """Returns whether macOS asks processes to give memory back; False on other systems. Takes microseconds."""
    return sys.platform == "darwin" and int.from_bytes(_sysctl(_PRESSURE), sys.byteorder) > _NORMAL


def _sysctl(name: str) -> bytes:
    """Returns what macOS's kernel says under `name`, nothing where it has no such value."""
    library, value, size = ctypes.CDLL(None), ctypes.create_string_buffer(128), ctypes.c_size_t(128)
    failed = library.sysctlbyname(name.encode(), value, ctypes.byref(size), None, ctypes.c_size_t(0))
    return b"" if failed else value.raw[: size.value]
