"""What Redline knows of a kind of drafter: how it is told from others, and how its files are checked, loaded, measured.

Nothing here loads MLX, so that folders can be listed without it; a kind's own file, which may, is imported when it is
first needed.
"""

from __future__ import annotations

import importlib
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from engine.drafters import Drafter
    from models.loader import Loaded
    from models.memory.memory_verdict import Share
    from models.model_folder import ModelFolder

Variants = Mapping[str, Callable[[], "Drafter"]]
"""The ways to read a head, the one that sources recommend first: what each does, for people, and what makes a drafter
that reads the head so."""
LONGEST_CHAIN = 8  # tokens, of which the policy considers drafts; a fixed draft length may be greater


@dataclass(frozen=True)
class Compatibility:
    """Whether a drafter can draft for a target.

    reason: why they fit or do not, in one line without a path. notes: differences that do not matter, or only for
    speed. other_tokenizer: whether it is an ordinary model with another tokenizer than the target's. kind: the name of
    the drafter's kind, which `pair_check` fills in; "" if it is unknown.
    """

    fits: bool
    reason: str
    notes: tuple[str, ...] = ()
    other_tokenizer: bool = False
    kind: str = ""


@dataclass(frozen=True)
class LoadedDrafter:
    """A drafter that is ready to draft, and what the policy needs to know of it.

    usual_acceptance: the probability that each token of a chain is accepted after those before it, as measured when it
    was made. tree_tau: the mean acceptance length by nodes of a tree, likewise. step_price: what one of its passes is
    taken to cost before any was timed, in plain steps of the target. note: what the user should know, or "". variants:
    of a head whose files leave open how it is read; `drafter` is the first one.
    """

    drafter: Drafter
    usual_acceptance: tuple[float, ...] = ()
    tree_tau: Mapping[int, float] = field(default_factory=dict)
    step_price: float = 0.0
    note: str = ""
    variants: Variants = field(default_factory=dict)


def join_notes(*notes: str) -> str:
    """Returns what the user should know, in one line; "" for nothing."""
    return "; ".join(note for note in notes if note)


class DrafterFiles(ABC):
    """What can be done with the folders of one kind. The kind's file in `models/drafters` has one of these, `FILES`."""

    @abstractmethod
    def check(self, target: ModelFolder, folder: Path, read: Callable[[Path], ModelFolder]) -> Compatibility:
        """Compares the folder's headers and config with the target's; no weight is read. read: reads a checked model
        folder. Raises PairError if they do not fit, ModelError if the folder is damaged."""

    @abstractmethod
    def load(self, folder: Path, target: Loaded, trees: bool) -> LoadedDrafter:
        """Loads the drafter. trees: whether it should branch, if it can and the target can verify trees. Raises what
        `check` raises."""

    @abstractmethod
    def footprint(self, folder: Path, item_bytes: int) -> Callable[[int], Share]:
        """Returns the memory that it takes, by the length of the context. item_bytes: of a number of the target. Raises
        ModelError."""

    def is_within(self, target: Path) -> bool:
        """Returns whether the folder of a target brings a drafter of this kind, which is then loaded from there."""
        return False


@dataclass(frozen=True)
class DrafterKind:
    """One kind of drafter.

    name: as JSON and commands have it. label: as people read it. module: its file, imported when it is first needed.
    marks: what tells its folders by their config.json: an algorithm of Speculators, part of a model type or of the name
    of an architecture, or a field. No other kind has any of them. shared_marks: fields that others may have too, which
    tell only a config.json without any kind's own marks. stands_alone: whether its folders are ordinary models, which
    have no mark and can be targets too.
    """

    name: str
    label: str
    module: str
    marks: tuple[str, ...] = ()
    shared_marks: tuple[str, ...] = ()
    stands_alone: bool = False

    def is_marked(self, config: Mapping[str, object]) -> bool:
        """Returns whether a config.json of no Speculators layout has one of the kind's own marks."""
        names = [str(name).lower() for name in (config.get("model_type"), config.get("architectures"))]
        return any(mark in config or any(mark in name for name in names) for mark in self.marks)

    @cached_property
    def files(self) -> DrafterFiles:
        """What can be done with its folders."""
        found: DrafterFiles = importlib.import_module(self.module).FILES
        return found


def speculator_algorithm(config: Mapping[str, object]) -> object:
    """Returns what a config.json in the Speculators layout calls the kind of its head; None in any other layout."""
    named = config.get("speculators_model_type")
    if named is None and "speculators_config" in config:
        part = config["speculators_config"]
        named = part.get("algorithm") if isinstance(part, dict) else part
    return named
