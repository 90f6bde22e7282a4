"""Formats sizes for errors, the terminal and the window."""

_UNITS = ((1e12, "TB", 2), (1e9, "GB", 2), (1e6, "MB", 0), (1e3, "kB", 0))


def size_words(size_bytes: float) -> str:
    """Returns 4.31 GB, 27.4 GB, 512 MB, 3 kB, 12 bytes: powers of 1000, as disks and the hub count."""
    for power, unit, digits in _UNITS:
        value = size_bytes / power
        if value >= 0.9995:  # 999.6 MB is 1.00 GB
            return f"{value:.{max(0, digits - len(f'{value:.0f}') + 1)}f} {unit}"
    return f"{size_bytes:.0f} bytes"


def memory_words(size_bytes: float) -> str:
    """Returns 1.5 GB, 320 MB: powers of 1024, as memory is sold."""
    gigabytes = size_bytes / 1024**3
    return f"{gigabytes:.1f} GB" if gigabytes >= 1 else f"{size_bytes / 1024**2:.0f} MB"
