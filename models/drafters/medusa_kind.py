"""Medusa heads as a kind of drafter: each guesses the token at one depth (arXiv 2401.10774)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from models.drafters.drafter_kind import Compatibility, DrafterKind, LoadedDrafter, speculator_algorithm

if TYPE_CHECKING:
    from models.loader import Loaded
    from models.memory.memory_verdict import Share
    from models.model_folder import ModelFolder


def detect(config: Mapping[str, object]) -> bool:
    """FasterDecoding's configs have `medusa_num_heads`."""
    return speculator_algorithm(config) is None and "medusa_num_heads" in config


def check(target: ModelFolder, folder: Path, _read: Callable[[Path], ModelFolder]) -> Compatibility:
    from models.drafters.medusa_folder import check_medusa
    from models.drafters.target_match import shape_in

    shape = shape_in(target)
    check_medusa(folder, shape)
    return Compatibility(True, KIND.name, shape.summary)


def load(folder: Path, target: Loaded, trees: bool) -> LoadedDrafter:
    from engine.drafters.medusa import Medusa
    from models.drafters.head_folder import tree_drafting, tree_tau, usual_acceptance
    from models.drafters.medusa_folder import load_medusa

    branches, note = tree_drafting(target, trees)
    heads, tree = load_medusa(folder, target)
    return LoadedDrafter(
        Medusa(heads, tree, target.model, branches),
        branches=branches,
        usual_acceptance=usual_acceptance(folder),
        tree_tau=tree_tau(folder) if branches else {},
        note=note,
    )


def footprint(folder: Path, item_bytes: int) -> Callable[[int], Share]:
    from models.drafters.head_folder import head_footprint

    return head_footprint(folder, item_bytes)


KIND = DrafterKind("medusa", "Medusa heads", detect, check, load, footprint)
