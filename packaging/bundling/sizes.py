"""How large a bundle is, and where that goes."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

from bundling.layout import Layout

LIMIT_BYTES = 465 * 10**6  # 450 before structured output, whose library has 8, and KaTeX, whose engine, QtQml, has 6
_SMALL_BYTES = 5 * 10**6


def by_part(layout: Layout) -> dict[str, int]:
    """Bytes by part, largest first: the packages of site-packages, Redline's own folders, the rest of Python, and what
    is left. Small parts are counted together."""
    counted: Counter[str] = Counter()
    for file in layout.files():
        if not file.is_symlink():
            counted[_part(layout, file)] += file.stat().st_size
    small = {part: size for part, size in counted.items() if size < _SMALL_BYTES}
    large = [(part, size) for part, size in counted.most_common() if part not in small]
    return dict(large) | ({f"{len(small)} smaller parts": sum(small.values())} if small else {})


def _part(layout: Layout, file: Path) -> str:
    if layout.site_packages in file.parents:
        first, *rest = file.relative_to(layout.site_packages).parts
        return f"{first}/{rest[0]}" if first == "resources" and len(rest) > 1 else first
    if layout.python in file.parents or layout.frameworks in file.parents:
        return "Python"
    return "launcher, icons, licences, signature"
