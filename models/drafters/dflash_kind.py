"""Block drafters as a kind of drafter: DFlash, DFlash 2 and DSpark propose a whole block in one pass."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from models.drafters.drafter_kind import Compatibility, DrafterKind, LoadedDrafter, speculator_algorithm

if TYPE_CHECKING:
    from models.loader import Loaded
    from models.memory.memory_verdict import Share
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
    """Two things are disputed: whether layer ids name inputs or outputs (mlx-dspark reads Speculators' as outputs, vLLM
    as inputs), and whether the first slot of a DSpark head proposes (its config may not say)."""
    from engine.drafters.dflash import DFlash
    from engine.target.model_layout import layers_of
    from models.drafters.dflash_folder import load_dflash
    from models.drafters.head_folder import tree_drafting, usual_acceptance
    from models.drafters.variant_trial import Variant

    head, layers = load_dflash(folder, target), len(layers_of(target.network))
    branches, note = tree_drafting(target, trees)
    make = partial(DFlash, head, target.model, trees=branches)
    config = head.config
    later = tuple(point + 1 for point in config.points)
    variants = [Variant("the layers that its config names", make)]
    if max(later) <= layers:
        variants.append(Variant("each layer one later", partial(make, points=later)))
    if "markov" in config.sequential:
        other = not config.from_anchor
        slot = "its first slot" if other else "no first slot"
        variants.append(Variant(slot, partial(make, from_anchor=other)))
    usual = usual_acceptance(folder)
    return LoadedDrafter(make(), branches=branches, usual_acceptance=usual, note=note, variants=tuple(variants))


def footprint(folder: Path, item_bytes: int) -> Callable[[int], Share]:
    from models.drafters.head_folder import head_footprint

    return head_footprint(folder, item_bytes, own_embedding=True)


KIND = DrafterKind("dflash", "DFlash", detect, check, load, footprint)
