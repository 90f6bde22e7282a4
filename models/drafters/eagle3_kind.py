"""EAGLE-3 heads as a kind of drafter: a layer or a few that read hidden states of the target (arXiv 2503.01840)."""

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
    """Speculators' configs name the algorithm. SafeAILab's are those of llama with a `draft_vocab_size` (which Medusa
    heads may have too), whatever architecture they name."""
    algorithm = speculator_algorithm(config)
    if algorithm is not None or "medusa_num_heads" in config:
        return algorithm in ("eagle3", "peagle")
    return "draft_vocab_size" in config or "eagle_config" in config


def check(target: ModelFolder, folder: Path, _read: Callable[[Path], ModelFolder]) -> Compatibility:
    from models.drafters.eagle3_folder import check_eagle3
    from models.drafters.target_match import shape_in

    shape = shape_in(target)
    check_eagle3(folder, shape)
    return Compatibility(True, KIND.name, shape.summary)


def load(folder: Path, target: Loaded, trees: bool) -> LoadedDrafter:
    from engine.drafters.eagle3 import Eagle3
    from models.drafters.eagle3_config import readings
    from models.drafters.eagle3_folder import load_eagle3
    from models.drafters.head_folder import open_head, tree_drafting, tree_tau, usual_acceptance
    from models.drafters.variant_trial import Variant

    branches, note = tree_drafting(target, trees)
    head = load_eagle3(folder, target)

    def variant(name: str, points: tuple[int, ...], normed: bool) -> Variant:
        return Variant(name, lambda: Eagle3(head.read_as(points, normed), target.model, branches))

    variants = tuple(variant(*reading) for reading in readings(open_head(folder, ("model",)), head.config))
    drafter = Eagle3(head, target.model, branches)
    if branches and not drafter.trees:
        branches, note = False, "drafts chains, not trees: a parallel head cannot draft trees"
    return LoadedDrafter(
        drafter,
        branches=branches,
        usual_acceptance=usual_acceptance(folder),
        tree_tau=tree_tau(folder) if branches else {},
        note=note,
        variants=variants,
    )


def footprint(folder: Path, item_bytes: int) -> Callable[[int], Share]:
    from models.drafters.head_folder import head_footprint

    return head_footprint(folder, item_bytes)


KIND = DrafterKind("eagle3", "EAGLE-3 head", detect, check, load, footprint)
