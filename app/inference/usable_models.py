"""What is on this machine that can be a target or a drafter."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from models.compatibility.best_drafter import UsableModel
from models.local.inventory import Installed, installed
from models.local.locations import find_locations


def present_models(cache_root: Path | None = None) -> list[UsableModel]:
    """Whole models and heads in the places where Redline looks. cache_root: as for `Options`."""
    return usable(installed(find_locations(Path.home(), cache_root)))


def usable(found: Iterable[Installed]) -> list[UsableModel]:
    """Those of `found` that are whole and of a kind that MLX may load."""
    return [
        UsableModel(one.name, one.path, one.size_bytes, one.name if one.origin in ("hub", "lm-studio") else None)
        for one in found
        if one.complete and one.kind not in ("gguf", "unknown")
    ]
