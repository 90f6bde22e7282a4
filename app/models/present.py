"""What is on this machine that can be a target or a drafter."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from models.installed.inventory import Installed, installed
from models.installed.places import find_places
from models.pairing.present import Present


def present_models(cache_root: Path | None = None) -> list[Present]:
    """Whole models and heads in the places where Redline looks. cache_root: as for `Options`."""
    return usable(installed(find_places(Path.home(), cache_root)))


def usable(found: Iterable[Installed]) -> list[Present]:
    """Those of `found` that are whole and of a kind that MLX may load."""
    return [
        Present(one.name, one.path, one.size_bytes, one.name if one.origin in ("hub", "lm-studio") else None)
        for one in found
        if one.complete and one.kind not in ("gguf", "unknown")
    ]
