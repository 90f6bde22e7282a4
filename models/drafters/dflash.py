"""Block drafters as a kind of drafter: DFlash, DFlash 2 and DSpark propose a whole block in one pass."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from models.drafters.drafter_kind import Compatibility, DrafterKind, LoadedDrafter, speculator_algorithm

if TYPE_CHECKING:
    from models.loader import Loaded
    from models.memory import Share
    from models.model_folder import ModelFolder


def detect(config: Mapping[str, object]) -> bool:
    """Speculators' configs name the algorithm; others have a `dflash_config`, or an architecture of that name."""
    algorithm = speculator_algorithm(config)
    if algorithm is not None:
        return algorithm in ("dflash", "dflash2", "dspark")
    names = config.get("architectures")
    named = isinstance(names, list) and any("DFlash" in str(name) or "DSpark" in str(name) for name in names)
    return "dflash_config" in config or named


def check(target: ModelFolder, folder: Path, _read: Callable[[Path], ModelFolder]) -> Compatibility:
    from models.drafters.dflash_folder import check_dflash
    from models.drafters.target_match import shape_in

    shape = shape_in(target)
    check_dflash(folder, shape)
    return Compatibility(True, KIND.name, shape.summary)


def load(folder: Path, target: Loaded, trees: bool) -> LoadedDrafter:
    from engine.drafters.dflash import DFlash
    from models.drafters.dflash_folder import load_dflash
    from models.drafters.head_folder import usual_acceptance

    note = "drafts chains, no trees: Redline drafts blocks as chains" if trees else ""
    drafter = DFlash(load_dflash(folder, target), target.model)
    return LoadedDrafter(drafter, usual_acceptance=usual_acceptance(folder), note=note)


def footprint(folder: Path, item_bytes: int) -> Callable[[int], Share]:
    from models.drafters.head_folder import head_footprint

    return head_footprint(folder, item_bytes)


KIND = DrafterKind("dflash", "DFlash", detect, check, load, footprint)
