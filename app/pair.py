"""From options to a target, its drafters and their policies: the one place that puts them together."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from app.options import AUTO, BUILTIN, Options
from engine.choice import Chooser
from engine.costs import WIDTHS, Costs, measure
from engine.drafters import Drafter
from engine.drafters.draft_model import DraftModel
from engine.drafters.eagle import Eagle
from engine.drafters.medusa import Medusa
from engine.drafters.prompt_lookup import PromptLookup
from engine.errors import UsageError
from engine.policy import Adaptive, FixedLength, Policy, best_size
from engine.probe import tree_trouble
from engine.sampling import Sampling
from engine.session import Session
from models.builtin import builtin_folder, is_builtin
from models.heads import kind_of, load_eagle3, load_medusa, tree_tau
from models.load import Loaded, load
from models.pairing import check_pair
from models.shipped import SHIPPED, is_shipped, shipped_folder

DEFAULT_CONTEXT = 8192
TREE_WIDTHS = (*WIDTHS, 17, 33)


@dataclass(frozen=True)
class NamedDrafter:
    """A drafter ready to draft, and its model if it has one.

    spec: "none", "lookup", the name of a shipped one or a folder; what auto came to, not "auto". said: what the user
    did not ask for and should know, or "": what auto came to and why, why there are no trees. branches: whether it
    drafts trees; tree_tau: what they are expected to bring, by nodes, where that is known.
    """

    spec: str
    drafter: Drafter | None
    loaded: Loaded | None = None
    said: str = ""
    branches: bool = False
    tree_tau: Mapping[int, float] = field(default_factory=dict)

    @property
    def name(self) -> str:
        """What to call it."""
        return self.spec.rstrip("/").rpartition("/")[2] or self.spec


def open_target(options: Options) -> Loaded:
    """Load the target. Raises ModelError, or UsageError for an empty name."""
    if not options.target:
        raise UsageError("target is empty: give builtin or a model folder")
    return load(builtin_folder(options.cache_root) if options.target == BUILTIN else Path(options.target))


def open_drafter(spec: str, target: Loaded, trees: bool = False) -> NamedDrafter:
    """Ready a drafter for `target`. trees: whether one that can branch does, where the target can verify trees; to
    find out empties the target's cache.

    Raises UsageError for no such thing, ModelError, or PairError for a misfit.
    """
    chosen, said = _chosen(target) if spec == AUTO else (spec, "")
    if chosen == "none":
        return NamedDrafter(chosen, None)
    if chosen == "lookup":
        return NamedDrafter(chosen, PromptLookup(), said=said)
    if chosen not in SHIPPED and not _exists(chosen):
        names = ", ".join((AUTO, "none", "lookup", *SHIPPED))
        raise UsageError(f"drafter {chosen!r} is none of {names}, nor a folder that exists")
    path = shipped_folder(chosen) if chosen in SHIPPED else Path(chosen)
    kind = kind_of(path)
    if kind == "model":
        return _draft_model(chosen, path, target)
    trouble = tree_trouble(target.model) if trees else None
    notes = [said, f"drafts chains, no trees: {trouble}" if trouble else ""]
    branches = trees and trouble is None
    drafter = _head(kind, path, target, branches)
    said = "; ".join(note for note in notes if note)
    return NamedDrafter(chosen, drafter, None, said, branches, tree_tau(path) if branches else {})


def _chosen(target: Loaded) -> tuple[str, str]:
    """What auto comes to for `target`, and why."""
    best = SHIPPED[0]
    if not is_builtin(target.folder.path):
        return "lookup", f"auto took lookup, as no drafter is shipped for {target.name}"
    if not is_shipped(best):
        return "lookup", f"auto took lookup, as the shipped {best} is missing"
    return best, f"auto took {best}, which is shipped for this model"


def _draft_model(spec: str, path: Path, target: Loaded) -> NamedDrafter:
    loaded = load(path)
    pairing = check_pair(target.folder, loaded.folder)
    drafter = DraftModel(loaded.model, target.model.vocabulary, pairing.shared_vocabulary, loaded.name)
    return NamedDrafter(spec, drafter, loaded)


def _head(kind: str, path: Path, target: Loaded, trees: bool) -> Drafter:
    if kind == "eagle3":
        return Eagle(load_eagle3(path, target), target.model, trees)
    heads, tree = load_medusa(path, target)
    return Medusa(heads, tree, target.model, trees)


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
    one on measured costs, for trees the size that is expected to be best. Plain decoding without a drafter, or with no
    costs to go by."""
    if drafter.drafter is None or length is not None or costs is None:
        return FixedLength(length or 0 if drafter.drafter is not None else 0)
    if not drafter.branches:
        return Adaptive(costs)
    return best_size(drafter.tree_tau, costs)


def measure_costs(target: Loaded, drafter: NamedDrafter) -> Costs:
    """Costs of passes and proposals on this machine, for draft length auto. Empties both caches: forget the session
    first. Raises UsageError for trees of which nothing is known."""
    if drafter.branches and not drafter.tree_tau:
        raise UsageError(f"draft-length auto knows nothing of {drafter.name}'s trees: give --draft-length, in nodes")
    widths = TREE_WIDTHS if drafter.branches else WIDTHS
    return measure(target.model, Chooser(Sampling(), "rejection", target.model.vocabulary), drafter.drafter, widths)
