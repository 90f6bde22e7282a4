"""The kinds of drafters, one entry each: how to detect, check, measure and load their folders.

    dflash_kind            a block in one pass: DFlash, DFlash 2 and DSpark (dflash_folder: their files)
    draft_model_kind       an ordinary, smaller model
    eagle3_kind            a head that reads hidden states of the target (eagle3_folder: its files)
    gemma4_assistant_kind  layers that read the target's keys and values (gemma4_assistant_folder: their files)
    medusa_kind            heads that each guess the token at one depth (medusa_folder: their files)
    mlp_speculator_kind    a small recurrence over the target's last state
    mtp_kind               a layer of the target's own architecture (mtp_folder: its files)
    prompt_lookup_kind     built in, without a folder

A new kind is one file here with a `DrafterKind`, listed in `KINDS`, and one in `engine/drafters` that drafts. Nothing
here loads MLX before a folder is checked or loaded.
"""

from pathlib import Path

from engine.errors import ModelError
from models.drafters import (
    dflash_kind,
    draft_model_kind,
    eagle3_kind,
    gemma4_assistant_kind,
    medusa_kind,
    mlp_speculator_kind,
    mtp_kind,
    prompt_lookup_kind,
)
from models.drafters.drafter_kind import DrafterKind, speculator_algorithm
from models.durable_files import read_json_object
from models.model_folder import folder_names

PROMPT_LOOKUP = prompt_lookup_kind.KIND
_HEADS = (
    eagle3_kind.KIND,
    medusa_kind.KIND,
    mlp_speculator_kind.KIND,
    mtp_kind.KIND,
    dflash_kind.KIND,
    gemma4_assistant_kind.KIND,
)
KINDS = (*_HEADS, draft_model_kind.KIND, PROMPT_LOOKUP)  # the first that detects a folder takes it


def kind_of(folder: Path, target: Path | None = None) -> DrafterKind:
    """Returns the kind of the model or drafter in `folder`. target: the folder of the target that it is to draft for;
    one that brings a head of its own drafts for itself with that.

    Raises ModelError: no folder, no or bad config.json, or a kind of head that Redline does not know.
    """
    folder_names(folder)
    if target is not None and folder.resolve() == target.resolve() and (own := own_head(folder)) is not None:
        return own
    config = read_json_object(folder / "config.json")
    found = next((kind for kind in KINDS if kind.detect(config)), None)
    if found is None:
        raise ModelError(
            f"{folder}: unknown kind of drafter {str(speculator_algorithm(config))[:40]!r}; "
            f"choose one of these: {', '.join(kind.label for kind in KINDS if kind is not PROMPT_LOOKUP)}"
        )
    return found


def own_head(target: Path) -> DrafterKind | None:
    """Returns the kind of the head that the folder of a target brings beside or among its weights, None without one."""
    return next((kind for kind in KINDS if kind.within(target)), None)
