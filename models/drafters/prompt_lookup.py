"""Prompt lookup is built in, so it has no folder and takes no memory worth counting."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from engine.drafters.prompt_lookup import PromptLookup
from models.drafters.drafter_kind import Compatibility, DrafterFiles, LoadedDrafter
from models.drafters.head_files import tree_drafting
from models.memory.memory_verdict import Share

if TYPE_CHECKING:
    from models.loader import Loaded
    from models.model_folder import ModelFolder


class PromptLookupFiles(DrafterFiles):
    def check(self, target: ModelFolder, folder: Path, read: Callable[[Path], ModelFolder]) -> Compatibility:
        return Compatibility(True, "works with any target")

    def load(self, folder: Path, target: Loaded, trees: bool) -> LoadedDrafter:
        branches, note = tree_drafting(target, trees)
        return LoadedDrafter(PromptLookup(trees=branches), note=note)

    def footprint(self, folder: Path, item_bytes: int) -> Callable[[int], Share]:
        return lambda _context: Share(0)


FILES = PromptLookupFiles()
