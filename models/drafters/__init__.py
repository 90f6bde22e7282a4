"""The registry of the kinds of drafters: their names, what tells their folders, and the files that know them.

A new kind is a line in `KINDS`, one file here with `FILES` (see `drafter_kind.DrafterFiles`; for a head `head_files`
has most of it), and one in `engine/drafters` that drafts. Nothing here loads MLX before a folder is checked or loaded.
"""

from collections.abc import Mapping
from pathlib import Path

from engine.errors import ModelError
from models.drafters.drafter_kind import DrafterKind, speculator_algorithm
from models.durable_files import read_json_object
from models.model_folder import folder_names

LOOKUP, LOOKUP_LABEL = "lookup", "prompt lookup"  # a drafter without files, and so of none of the kinds
MODEL = DrafterKind("model", "draft model", "models.drafters.draft_model", stands_alone=True)
KINDS = (
    DrafterKind(
        "eagle3",
        "EAGLE-3 head",
        "models.drafters.eagle3",
        ("eagle3", "peagle", "eagle_config"),
        shared_marks=("draft_vocab_size",),  # all that SafeAILab's heads have beside the fields of llama
    ),
    DrafterKind("medusa", "Medusa heads", "models.drafters.medusa", ("medusa", "medusa_num_heads")),
    DrafterKind("mlp-speculator", "MLP speculator", "models.drafters.mlp_speculator", ("mlp_speculator",)),
    DrafterKind("mtp", "MTP head", "models.drafters.mtp", ("mtp",)),
    DrafterKind("dflash", "DFlash", "models.drafters.dflash", ("dflash", "dflash2", "dspark", "dflash_config")),
    DrafterKind(
        "gemma4-assistant",
        "Gemma 4 assistant",
        "models.drafters.gemma4_assistant",
        ("gemma4_assistant", "gemma4_unified_assistant"),
    ),
    MODEL,
)


def kind_of(folder: Path, target: Path | None = None) -> DrafterKind:
    """Returns the kind of the model or drafter in `folder`. target: the folder of the target that it is to draft for;
    one that brings a head of its own drafts for itself with that.

    Raises ModelError: no folder, no or bad config.json, or a kind of head that Redline does not know.
    """
    folder_names(folder)
    if target is not None and folder.resolve() == target.resolve() and (own := own_head(folder)) is not None:
        return own
    config = read_json_object(folder / "config.json")
    found = kinds_in(config)
    if not found:
        known = ", ".join(kind.label for kind in KINDS)
        named = str(speculator_algorithm(config))[:40]
        raise ModelError(f"{folder}: unknown kind of drafter {named!r}; choose one of these: {known}")
    if len(found) > 1:
        both = " and ".join(kind.label for kind in found)
        raise ModelError(f"{folder}: config.json has the marks of two kinds, {both}; choose another drafter")
    return found[0]


def kinds_in(config: Mapping[str, object]) -> list[DrafterKind]:
    """Returns the kinds that a config.json is marked as: one, or none for an unknown algorithm of Speculators. What has
    no mark of a drafter is an ordinary model. The order of the registry plays no part."""
    algorithm = speculator_algorithm(config)
    if algorithm is not None:  # it names the kind, whatever other fields are called
        return [kind for kind in KINDS if algorithm in kind.marks]
    marked = [kind for kind in KINDS if kind.is_marked(config)]
    return marked or [kind for kind in KINDS if config.keys() & kind.shared_marks] or [MODEL]


def own_head(target: Path) -> DrafterKind | None:
    """Returns the kind of the head that the folder of a target brings beside or among its weights, None without one."""
    return next((kind for kind in KINDS if kind.files.is_within(target)), None)
