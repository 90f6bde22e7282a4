"""Prompt lookup as a kind of drafter: built in, so it has no folder and takes no memory worth counting."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from models.drafters.drafter_kind import Compatibility, DrafterKind, LoadedDrafter

if TYPE_CHECKING:
    from models.loader import Loaded
    from models.memory.memory_verdict import Share
    from models.model_folder import ModelFolder


def detect(_config: Mapping[str, object]) -> bool:
    return False


def check(_target: ModelFolder, _folder: Path, _read: Callable[[Path], ModelFolder]) -> Compatibility:
    return Compatibility(True, KIND.name, "works with any target")


def load(_folder: Path, target: Loaded, trees: bool) -> LoadedDrafter:
    from engine.drafters.prompt_lookup import PromptLookup
    from models.drafters.head_folder import tree_drafting

    branches, note = tree_drafting(target, trees)
    return LoadedDrafter(PromptLookup(trees=branches), branches=branches, note=note)


def footprint(_folder: Path, _item_bytes: int) -> Callable[[int], Share]:
    from models.memory.memory_verdict import Share

    return lambda _context: Share(0)


KIND = DrafterKind("lookup", "prompt lookup", detect, check, load, footprint)
