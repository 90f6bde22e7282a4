"""What Redline must know of a kind of drafter: how to detect, check, measure and load its folders.

Nothing here loads MLX, so that folders can be listed without it; an entry imports what it needs when it is called.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from engine.drafters import Drafter
    from models.drafters.variant_trial import Variant
    from models.loader import Loaded
    from models.memory.memory_verdict import Share
    from models.model_folder import ModelFolder

LONGEST_CHAIN = 8


@dataclass(frozen=True)
class Compatibility:
    """Whether a drafter can draft for a target.

    kind: the name of the drafter's kind, also of one that Redline cannot load yet; "" if it is unknown. reason: why
    they fit or do not, in one line without a path. notes: differences that do not matter, or only for speed.
    other_tokenizer: whether it is an ordinary model with another tokenizer than the target's.
    """

    fits: bool
    kind: str
    reason: str
    notes: tuple[str, ...] = ()
    other_tokenizer: bool = False


@dataclass(frozen=True)
class LoadedDrafter:
    """A drafter that is ready to draft, and what the policy needs to know of it.

    model: the draft model, None for other kinds. branches: whether it drafts trees. usual_acceptance: the
    probability that each token of a chain is accepted after those before it, as measured when it was made. tree_tau:
    the mean acceptance length by nodes of a tree, likewise. note: what the user should know, or "". variants: the ways
    to read a head whose files leave it open, the one that sources recommend first, which `drafter` is.
    """

    drafter: Drafter
    model: Loaded | None = None
    branches: bool = False
    usual_acceptance: tuple[float, ...] = ()
    tree_tau: Mapping[int, float] = field(default_factory=dict)
    note: str = ""
    variants: tuple[Variant, ...] = ()


def join_notes(*notes: str) -> str:
    """Returns what the user should know, in one line; "" for nothing."""
    return "; ".join(note for note in notes if note)


@dataclass(frozen=True)
class DrafterKind:
    """One kind of drafter.

    name: as JSON and commands have it. label: as people read it.
    detect(config): whether a folder with this config.json is of this kind.
    check(target, folder, read): compares the folder's headers and config with the target's; no weight is read. Raises
        PairError if they do not fit, ModelError if the folder is damaged. read: reads a checked model folder.
    load(folder, target, trees): the drafter; trees: whether it should branch, if it can and the target can verify
        trees. Raises what `check` raises.
    footprint(folder, item_bytes): the memory that it takes, by the length of the context. item_bytes: of a number of
        the target. Raises ModelError.
    stands_alone: whether its folders are ordinary models, which can be targets too.
    within(folder): whether the folder of a target brings a drafter of this kind, which is then loaded from there.
    """

    name: str
    label: str
    detect: Callable[[Mapping[str, object]], bool]
    check: Callable[[ModelFolder, Path, Callable[[Path], ModelFolder]], Compatibility]
    load: Callable[[Path, Loaded, bool], LoadedDrafter]
    footprint: Callable[[Path, int], Callable[[int], Share]]
    stands_alone: bool = False
    within: Callable[[Path], bool] = lambda _folder: False


def speculator_algorithm(config: Mapping[str, object]) -> object:
    """Returns what a config.json in the Speculators layout calls the kind of its head; None in any other layout."""
    named = config.get("speculators_model_type")
    if named is None and "speculators_config" in config:
        part = config["speculators_config"]
        named = part.get("algorithm") if isinstance(part, dict) else part
    return named
