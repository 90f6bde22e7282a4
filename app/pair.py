"""From options to a target, its drafters and their policies: the one place that puts them together."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from app.options import BUILTIN, Options
from engine.choice import Chooser
from engine.costs import Costs, measure
from engine.drafters import Drafter
from engine.drafters.draft_model import DraftModel
from engine.drafters.prompt_lookup import PromptLookup
from engine.errors import UsageError
from engine.policy import Adaptive, FixedLength, Policy
from engine.sampling import Sampling
from engine.session import Session
from models.builtin import builtin_folder
from models.load import Loaded, load
from models.pairing import check_pair

DEFAULT_CONTEXT = 8192


@dataclass(frozen=True)
class NamedDrafter:
    """A drafter as it was asked for ("none", "lookup" or a folder), ready to draft, and its model if it has one."""

    spec: str
    drafter: Drafter | None
    loaded: Loaded | None = None


def open_target(options: Options) -> Loaded:
    """Load the target. Raises ModelError, or UsageError for an empty name."""
    if not options.target:
        raise UsageError("target is empty: give builtin or a model folder")
    return load(builtin_folder(options.cache_root) if options.target == BUILTIN else Path(options.target))


def open_drafter(spec: str, target: Loaded, trees: bool = False) -> NamedDrafter:
    """Ready a drafter for `target`. trees: whether one that can branch does.

    Raises UsageError for no such thing, ModelError, or PairError for a misfit.
    """
    if spec == "none":
        return NamedDrafter(spec, None)
    if spec == "lookup":
        return NamedDrafter(spec, PromptLookup())
    if not _exists(spec):
        raise UsageError(f"drafter {spec!r} is neither none nor lookup nor a folder that exists")
    loaded = load(Path(spec))
    pairing = check_pair(target.folder, loaded.folder)
    return NamedDrafter(
        spec, DraftModel(loaded.model, target.model.vocabulary, pairing.shared_vocabulary, loaded.name), loaded
    )


def _exists(spec: str) -> bool:
    """Whether `spec` names a place on disk, whatever it holds. A name that no file can have names none."""
    try:
        return bool(spec) and Path(spec).exists()
    except (OSError, ValueError):  # too long, or with a NUL in it
        return False


def open_session(target: Loaded, options: Options) -> Session:
    """A conversation with `target`, as long as asked for, else as the model declares.

    Raises UsageError for a context longer than what the model declares, if it declares anything.
    """
    declared = target.folder.context_length
    if options.context and declared and options.context > declared:
        raise UsageError(
            f"context is {options.context}, and {target.name} was made for at most {declared} tokens: "
            f"give at most {declared}"
        )
    return Session(target.model, target.tokenizer, options.context or declared or DEFAULT_CONTEXT)


def make_policy(drafter: NamedDrafter, length: int | None, costs: Costs | None) -> Policy:
    """A policy for one reply, which must not learn from the last: the fixed length, or (None) the adaptive
    one on measured costs. Plain decoding without a drafter, or with no costs to go by."""
    if drafter.drafter is None or (length is None and costs is None):
        return FixedLength(0)
    return Adaptive(costs) if length is None and costs is not None else FixedLength(length or 0)


def measure_costs(target: Loaded, drafter: NamedDrafter) -> Costs:
    """Costs of passes and proposals on this machine. Empties both caches: forget the session first."""
    return measure(target.model, Chooser(Sampling(), "rejection", target.model.vocabulary), drafter.drafter)
