"""A folder that is on this machine, as pairing sees it."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Present:
    """name: what to call it. repository: of the hub, where it came from; None where that is not known."""

    name: str
    path: Path
    size_bytes: int
    repository: str | None = None
