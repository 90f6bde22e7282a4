"""Medusa heads in training (Cai 2024, arXiv 2401.10774), and the static tree that suits them.

Head k reads the normed state at token i and predicts token i + 2 + k: token i + 1 is the target's own by then. Its
labels are the target's distribution before that token, given the tokens of the text in between.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from itertools import accumulate
from pathlib import Path
from typing import Any

import mlx.core as mx
import numpy as np
from numpy.typing import NDArray

from engine.backend import to_numpy
from engine.drafters.medusa import MedusaConfig, MedusaHeads
from engine.target.model_layout import output_rows
from models.drafters.medusa import RankPath, save_medusa
from models.loader import Loaded
from models.parameters import flat_parameters
from models.training.batches import Batch
from models.training.trainee import HeadTrainee

RANKS = 10  # of a head's most likely tokens that a tree may hold
LARGEST_TREE = 64


class MedusaTrainee(HeadTrainee):
    """Medusa heads in training. ids: the draft vocabulary, (n,) int32 increasing. depths: the number of heads."""

    def __init__(self, target: Loaded, ids: mx.array, depths: int, hidden: int, seed: int) -> None:
        super().__init__(target)
        self.depths = self.max_depth = self.min_context = depths
        mx.random.seed(seed)
        self.network: Any = MedusaHeads(MedusaConfig(hidden, target.model.vocabulary, ids.size, depths))
        self.network.set_draft_vocabulary(ids)
        self.ids: mx.array | None = self.network.ids
        self._output = output_rows(target.network, ids).astype(mx.float32)
        self.network.tie_lm_head(self._output)
        self._choosing, self._scoring = Ranks(), Ranks()
        mx.eval(flat_parameters(self.network), self._output)

    def predict(self, batch: Batch, depths: int) -> list[mx.array]:
        states = batch.states.reshape(-1, batch.states.shape[-1])
        logits = []
        for depth in range(min(depths, self.depths)):
            x = states[batch.rows - 1 - depth]
            for block in self.network.heads[depth]:
                x = block(x)
            logits.append(x @ self._output.T)
        return logits

    def observe(self, logits: list[mx.array], batch: Batch) -> None:
        """Lets one half of the reply choose the tree, and the other score it: by what chose it, it looks too good."""
        ranks = np.stack([_ranks(one, batch.labels, self.network.ids) for one in logits])
        chooses, scores = np.array_split(ranks, 2, 1)
        self._choosing.add(chooses)
        self._scoring.add(scores)

    def save(self, folder: Path, about: Mapping[str, Any]) -> None:
        about = self.described(about)
        if self._scoring.roots:
            about["tree_tau"] = [round(one, 4) for one in accumulate(self.tree_probs, initial=1.0)]
        save_medusa(folder, self.network, about, self._paths())

    @property
    def tree_probs(self) -> list[float]:
        if not self._scoring.roots:
            return []
        probs = self._scoring.probs()
        return [probs.get(path, 0.0) for path in self._paths()]

    def _paths(self) -> list[RankPath]:
        return best_tree(self._choosing.probs(), self.depths, min(RANKS, self.network.config.draft_vocab_size))


class Ranks:
    """Counts how often the text after a root followed each path of ranks through the heads' predictions. roots: their
    number."""

    def __init__(self) -> None:
        self._counts: Counter[RankPath] = Counter()
        self.roots = 0

    def add(self, ranks: NDArray[np.int32]) -> None:
        """Adds a text. ranks: (depths, n), the rank of each token among the predictions of each head."""
        depths, rows = ranks.shape
        for root in range(rows - depths + 1):
            self.roots += 1
            self._follow([int(ranks[depth, root + depth]) for depth in range(depths)])

    def _follow(self, path: Sequence[int]) -> None:
        for length in range(1, len(path) + 1):
            if path[length - 1] >= RANKS:
                break
            self._counts[tuple(path[:length])] += 1

    def probs(self) -> dict[RankPath, float]:
        """Returns the probability of each path that the text followed at least once."""
        return {path: count / max(self.roots, 1) for path, count in self._counts.items()}


def _ranks(logits: mx.array, labels: mx.array, ids: mx.array) -> NDArray[np.int32]:
    """Returns (n,) int32: how many tokens are more likely than the text's; RANKS if that is not in the vocabulary."""
    place = mx.argmax((labels[:, None] == ids[None]).astype(mx.int32), -1)
    known = ids[place] == labels
    own = mx.take_along_axis(logits, place[:, None], -1)
    ranks = mx.sum((logits > own).astype(mx.int32), -1)
    return to_numpy(mx.where(known, ranks, RANKS))


def best_tree(probs: Mapping[RankPath, float], depths: int, ranks: int, size: int = LARGEST_TREE) -> list[RankPath]:
    """Returns at most `size` nodes, each time the most likely of those whose parent and more likely sibling are in, so
    that each beginning of the list is a tree. Ends where no other node was ever right, but has one node at least."""
    tree: list[RankPath] = []
    open_: set[RankPath] = {(0,)}
    while open_ and len(tree) < size:
        best = max(open_, key=lambda path: (probs.get(path, 0.0), -len(path), tuple(-rank for rank in path)))
        if tree and not probs.get(best):
            break
        tree.append(best)
        open_.remove(best)
        if len(best) < depths:
            open_.add((*best, 0))
        if best[-1] + 1 < ranks:
            open_.add((*best[:-1], best[-1] + 1))
    return tree
