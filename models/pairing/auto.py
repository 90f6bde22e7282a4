"""What `--drafter auto` comes to: the built-in's own drafter, the best that is here for any other, and lookup always.

Lookup costs nothing where it has nothing to copy, and the policy takes whichever of the two is worth more now.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from models.builtin import is_builtin
from models.catalogue import Catalogue
from models.folder import ModelFolder
from models.pairing.choosing import choose
from models.pairing.present import Present
from models.shipped import SHIPPED, is_shipped, shipped_folder

LOOKUP = "lookup"


@dataclass(frozen=True)
class Auto:
    """spec: as --drafter takes it. why: what was taken and what for, in words that follow "auto took"."""

    spec: str
    why: str


def auto(target: ModelFolder, present: Sequence[Present], catalogue: Catalogue | None) -> Auto:
    """For `target`, given what is here."""
    if is_builtin(target.path):
        best = SHIPPED[0]
        if not is_shipped(best):
            return Auto(LOOKUP, f"{LOOKUP}, as the shipped {best} is missing")
        return Auto(f"{LOOKUP}+{best}", f"{LOOKUP} and {best}, which is shipped for this model")
    choice = choose(target, present, catalogue)
    if choice.present is None:
        return Auto(LOOKUP, f"{LOOKUP}, as {choice.why}")
    path = str(choice.present.path)
    if "+" in path:  # which is how several drafters are named
        return Auto(path, choice.why)
    return Auto(f"{LOOKUP}+{path}", f"{LOOKUP} and {choice.why}")


def shipped() -> list[Present]:
    """The drafters that come with Redline, those that are there."""
    folders = [(name, shipped_folder(name)) for name in SHIPPED if is_shipped(name)]
    return [Present(name, path, sum(file.stat().st_size for file in path.iterdir())) for name, path in folders]
