"""What the kinds of heads have in common: they are checked, loaded and measured alike, and some can draft trees.

A head gets the bits of its target where it is large enough for that to matter (`match_precision`), before any of its
variants is made.
"""

from abc import abstractmethod
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import mlx.core as mx

from engine.drafters.head_layers import DraftVocabularyHead
from engine.target.model_layout import layers_of, output_of
from engine.target.tree_trial import why_no_trees
from models.drafters.drafter_kind import Compatibility, DrafterFiles, LoadedDrafter, Variants, join_notes
from models.drafters.head_folder import HeadFolder, building, open_head, read_config, read_ids
from models.drafters.head_weights import evaluate_weights, fill, head_footprint, match_precision, share_of
from models.drafters.target_match import TargetShape, check_made_for, first_embedding, shape_in, shape_of
from models.loader import Loaded
from models.memory.memory_verdict import Share
from models.model_folder import ModelFolder


class HeadFiles(DrafterFiles):
    """can_branch: whether heads of this kind can draft trees. begins: what the names of their files of weights begin
    with."""

    can_branch = False
    begins: tuple[str, ...] = ("model",)

    def open(self, path: Path, target: Mapping[str, object]) -> HeadFolder:
        """Opens a folder that holds a head. target: the target's config.json."""
        return open_head(path, self.begins)

    def named(self, folder: HeadFolder, target: Loaded | None) -> dict[str, mx.array]:
        """Returns the tensors by the names of the kind's network, without those that are left on the disk."""
        return dict(folder.tensors)

    @abstractmethod
    def network(self, folder: HeadFolder, tensors: Mapping[str, mx.array], shape: TargetShape) -> Any:
        """Returns the head without weights, for the `tensors` that it will have."""

    def complete(self, folder: HeadFolder, head: Any, shape: TargetShape, target: Loaded | None) -> None:
        """Does what else a head with its weights needs, and checks what else is in its folder."""

    @abstractmethod
    def variants(self, head: Any, path: Path, target: Loaded, trees: bool) -> Variants:
        """Returns the ways to read a head. trees: whether to branch."""

    def build(self, path: Path, shape: TargetShape, target: Loaded | None = None) -> Any:
        """Returns the head with its weights, none of which is evaluated yet. shape: of the target. target: None where
        the target is not loaded, so that no weight may be looked at.

        Raises ModelError for anything wrong with the folder, PairError where head and target do not fit.
        """
        folder = self.open(path, shape.config)
        tensors = self.named(folder, target)
        with building(path):
            head = self.network(folder, tensors, shape)
        fill(path, head, tensors)
        check_made_for(folder.config, shape)
        if target is not None and isinstance(head, DraftVocabularyHead):
            head.set_draft_vocabulary(read_ids(folder, head.ids.size, shape.rows))
        self.complete(folder, head, shape, target)
        return head

    def load_head(self, path: Path, target: Loaded) -> Any:
        """Returns the head in the type that the target computes in. Raises what `build` raises."""
        head = self.build(path, shape_of(target), target)
        evaluate_weights(head, first_embedding(target).dtype)
        return head

    def check(self, target: ModelFolder, folder: Path, read: Callable[[Path], ModelFolder]) -> Compatibility:
        shape = shape_in(target)
        self.build(folder, shape)
        return Compatibility(True, f"same hidden size ({shape.hidden:,}) and vocabulary ({shape.rows:,})")

    def load(self, folder: Path, target: Loaded, trees: bool) -> LoadedDrafter:
        branches, trees_note = tree_drafting(target, trees and self.can_branch)
        head = self.load_head(folder, target)
        precision_note = match_precision(head, target.network)
        measured = read_config(folder).part("redline").numbers("tree_tau", 1)
        tree_tau = {nodes: tau for nodes, tau in enumerate(measured) if nodes}
        variants = self.variants(head, folder, target, branches)
        drafter = next(iter(variants.values()))()
        if trees and not trees_note and not drafter.traits.branches:
            trees_note = "drafts chains, not trees: a head of this kind cannot draft trees"
        return LoadedDrafter(
            drafter,
            usual_acceptance=usual_acceptance(folder),
            tree_tau=tree_tau if drafter.traits.branches else {},
            step_price=self._step_price(head, folder, target),
            note=join_notes(trees_note, precision_note),
            variants=variants,
        )

    def _step_price(self, head: Any, folder: Path, target: Loaded) -> float:
        """Returns what a pass of the head is taken to cost, see `LoadedDrafter`: the weights that it reads, and two
        layers, as a head has one and the operations that fuse states and draw tokens take about as long as another."""
        borrowed = self.borrowed_output(head, folder, target)
        output = borrowed * output_of(target.network).module["weight"].nbytes if borrowed else 0
        return share_of(head, target.network, output) + 2 / len(layers_of(target.network))

    def borrowed_output(self, head: Any, folder: Path, target: Loaded) -> float:
        """Returns what share of the target's output matrix the head uses, for want of its own."""
        sizes = head.config
        return 0.0 if getattr(sizes, "own_output", True) else float(sizes.draft_vocab_size / sizes.vocab_size)

    def footprint(self, folder: Path, item_bytes: int) -> Callable[[int], Share]:
        return head_footprint(self.named(self.open(folder, {}), None), item_bytes)


def usual_acceptance(path: Path) -> tuple[float, ...]:
    """Returns the probability that each drafted token is accepted after those before it, as measured when the drafter
    at `path` was made; empty if config.json does not say. Raises ModelError for nonsense."""
    return read_config(path).part("redline").numbers("acceptance_by_position", 0, 1)


def tree_drafting(target: Loaded, trees: bool) -> tuple[bool, str]:
    """Returns whether a drafter for `target` should branch, and why it should not although `trees` were requested. To
    find out empties the target's cache."""
    trouble = why_no_trees(target.model) if trees else None
    return trees and trouble is None, f"drafts chains, not trees: {trouble}" if trouble else ""
