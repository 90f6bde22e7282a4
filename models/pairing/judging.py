"""A verdict on a target and a drafter of any kind, from their folders alone: headers and JSON, no weights.

What stands against a pair:

    a model        other tokens under the ids that both have, or ids of the target that it has no row for
    EAGLE-3 head   other sizes of hidden state, embedding or vocabulary, layers that the target has not, another target
                   named in its config.json
    Medusa heads   the same, without layers
    any            a kind or an architecture that Redline cannot run, damage, weights that are pickles

A chat template, an end-of-text token or a context of its own is no reason to refuse: the target's own are used, and the
drafter is only right less often.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

from engine.errors import ModelError, PairError, RedlineError
from engine.upstream import unsound_type
from models.disk import read_json_object
from models.folder import ModelFolder, check_folder
from models.heads import check_eagle3, check_medusa, kind_of, shape_in
from models.pairing.template import chat_template
from models.pairing.tokens import check_pair, vocabulary_size
from models.pairing.verdict import Verdict

_MOST_OF_A_TARGET = 0.5  # of its bytes: a larger drafter hardly drafts faster than the target verifies


def judge(target: ModelFolder, drafter: Path, read: Callable[[Path], ModelFolder] = check_folder) -> Verdict:
    """The verdict on the drafter folder at `drafter`. Never raises for what is wrong with that folder.

    read: `check_folder`, or one that remembers: a large tokenizer takes a quarter of a second.
    """
    kind = ""
    try:
        kind = unknown_kind(read_json_object(drafter / "config.json"))
        if kind:
            return Verdict(False, kind, f"is of the kind {kind}, which Redline cannot load yet")
        kind = kind_of(drafter)
        return _judge_model(target, read(drafter)) if kind == "model" else _judge_head(target, drafter, kind)
    except RedlineError as error:
        return Verdict(False, kind, _without_path(error, drafter))


def unknown_kind(config: Mapping[str, object]) -> str:
    """What its config.json calls a drafter of a kind that others load and Redline does not; "" for any other."""
    model_type, names = config.get("model_type"), config.get("architectures")
    if "dflash_config" in config or (isinstance(names, list) and any("DFlash" in str(name) for name in names)):
        return "dflash"
    if isinstance(model_type, str) and model_type.startswith("gemma4") and model_type.endswith("_assistant"):
        return "gemma4-assistant"
    return "mtp" if isinstance(model_type, str) and model_type.endswith("_mtp") else ""


def _judge_model(target: ModelFolder, drafter: ModelFolder) -> Verdict:
    if reason := unsound_type(drafter.model_type):
        raise ModelError(f"{drafter.path}: {drafter.model_type} models cannot be decoded exactly ({reason})")
    pairing = check_pair(target, drafter)
    ids, shared = vocabulary_size(target.vocabulary), pairing.shared_vocabulary
    why = f"the same {ids:,} tokens" if shared == ids else f"the same tokens up to {shared:,} of {ids:,}"
    return Verdict(True, "model", why, tuple(_notes(target, drafter)), pairing)


def _notes(target: ModelFolder, drafter: ModelFolder) -> list[str]:
    """What differs and does not matter, or matters only for speed."""
    notes = []
    if target.rows and drafter.rows and target.rows != drafter.rows:
        notes.append(f"padded to {drafter.rows:,} rows, the target to {target.rows:,}")
    if chat_template(target.path) != chat_template(drafter.path):
        notes.append("another chat template, the target's is used")
    if set(target.eos_token_ids) != set(drafter.eos_token_ids):
        notes.append("other end-of-text tokens, the target's are used")
    if drafter.context_length and target.context_length and drafter.context_length < target.context_length:
        notes.append(f"made for {drafter.context_length:,} tokens, the target for {target.context_length:,}")
    if drafter.weights_bytes > target.weights_bytes * _MOST_OF_A_TARGET:
        notes.append(f"{drafter.weights_bytes / target.weights_bytes:.0%} of the target's size, too large to pay")
    return notes


def _judge_head(target: ModelFolder, path: Path, kind: str) -> Verdict:
    shape = shape_in(target)
    (check_eagle3 if kind == "eagle3" else check_medusa)(path, shape)
    return Verdict(True, kind, f"reads {shape.hidden:,} numbers a layer of {shape.rows:,} tokens, as the target has")


def _without_path(error: RedlineError, path: Path) -> str:
    """The message of an error about `path`, without it and without what to do, which another drafter is."""
    said = " ".join(str(error).split())
    said = said.removeprefix(f"{path}: ").removeprefix("does not fit the target, ")
    return said.rpartition("; choose ")[0] or said if isinstance(error, PairError) else said
