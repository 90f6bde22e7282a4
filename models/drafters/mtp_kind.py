"""Multi-token prediction heads as a kind of drafter: one layer of the target's own architecture (arXiv 2412.19437).

A sidecar is a folder of its own. A target's folder may hold a head too, beside or among its weights.
"""

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
    """Speculators' configs name the algorithm, sidecars have a model type of their own."""
    algorithm, model_type = speculator_algorithm(config), config.get("model_type")
    return algorithm == "mtp" or (algorithm is None and isinstance(model_type, str) and model_type.endswith("_mtp"))


def within(folder: Path) -> bool:
    """Whether the folder of a target brings a head of its own."""
    from models.drafters.mtp_folder import has_mtp

    return has_mtp(folder)


def check(target: ModelFolder, folder: Path, _read: Callable[[Path], ModelFolder]) -> Compatibility:
    from models.drafters.mtp_folder import check_mtp
    from models.drafters.target_match import shape_in

    shape = shape_in(target)
    check_mtp(folder, target.config, shape)
    return Compatibility(True, KIND.name, shape.summary)


def load(folder: Path, target: Loaded, trees: bool) -> LoadedDrafter:
    """Which state a head reads is disputed for DeepSeek's and GLM's, and for heads that Speculators trained: vLLM's and
    transformers' code take the one after the final norm, llama.cpp's notes the one before it. The one that the head's
    form names comes first."""
    from engine.drafters.mtp import Mtp
    from engine.target.layer_taps import NORMED
    from engine.target.model_layout import layers_of
    from models.drafters.draft_vocabulary_file import read_draft_vocabulary
    from models.drafters.head_folder import usual_acceptance
    from models.drafters.mtp_folder import load_mtp
    from models.drafters.variant_trial import Variant

    head, before = load_mtp(folder, target), len(layers_of(target.network))
    own = None if head.project else read_draft_vocabulary(folder, target.model.vocabulary)
    variants = [
        Variant("the state after the final norm", lambda: Mtp(head, target.model, NORMED, own)),
        Variant("the state before the final norm", lambda: Mtp(head, target.model, before, own)),
    ]
    if not head.form.reads_normed:
        variants.reverse()
    note = "drafts chains, not trees: a multi-token prediction head cannot draft trees" if trees else ""
    return LoadedDrafter(
        variants[0].make(), usual_acceptance=usual_acceptance(folder), note=note, variants=tuple(variants)
    )


def footprint(folder: Path, item_bytes: int) -> Callable[[int], Share]:
    """With a draft vocabulary it has copies of some rows of the target's output matrix."""
    from models.drafters.draft_vocabulary_file import vocabulary_size
    from models.drafters.head_folder import entries_footprint
    from models.drafters.mtp_folder import mtp_entries
    from models.safetensors_file import Entry

    entries = mtp_entries(folder)
    widths = [entry.shape[0] for entry in entries if entry.name.endswith("input_layernorm.weight")]
    rows = Entry("rows", "F16", (vocabulary_size(folder), max(widths, default=0)))
    return entries_footprint([*entries, rows], item_bytes)


KIND = DrafterKind("mtp", "MTP head", detect, check, load, footprint, within=within)
