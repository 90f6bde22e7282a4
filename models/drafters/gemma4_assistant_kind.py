"""Gemma 4's assistants as a kind of drafter: a few layers that read the target's keys and values."""

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
    """`gemma4_assistant` and `gemma4_unified_assistant`."""
    kind = config.get("model_type")
    named = isinstance(kind, str) and kind.startswith("gemma4") and kind.endswith("_assistant")
    return named and speculator_algorithm(config) is None


def check(target: ModelFolder, folder: Path, _read: Callable[[Path], ModelFolder]) -> Compatibility:
    from models.drafters.gemma4_assistant_folder import check_assistant
    from models.drafters.target_match import shape_in

    shape = shape_in(target)
    check_assistant(folder, target.config, shape)
    return Compatibility(True, KIND.name, shape.summary)


def load(folder: Path, target: Loaded, trees: bool) -> LoadedDrafter:
    """At which position an assistant stands is disputed: vLLM, SGLang and mlx-vlm take that of the last token that the
    target has seen, transformers the one after it."""
    from engine.drafters.gemma4_assistant import Gemma4Assistant
    from models.drafters.gemma4_assistant_folder import load_assistant
    from models.drafters.head_folder import usual_acceptance
    from models.drafters.variant_trial import Variant

    head, layers = load_assistant(folder, target)
    note = "drafts chains, not trees: an assistant cannot draft trees" if trees else ""
    variants = (
        Variant("the position of the last token seen", lambda: Gemma4Assistant(head, target.model, layers)),
        Variant(
            "the position after the last token seen", lambda: Gemma4Assistant(head, target.model, layers, later=True)
        ),
    )
    return LoadedDrafter(variants[0].make(), usual_acceptance=usual_acceptance(folder), note=note, variants=variants)


def footprint(folder: Path, item_bytes: int) -> Callable[[int], Share]:
    from models.drafters.head_folder import head_footprint

    return head_footprint(folder, item_bytes)


KIND = DrafterKind("gemma4-assistant", "Gemma 4 assistant", detect, check, load, footprint)
