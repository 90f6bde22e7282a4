"""A drafter in training, whatever its kind, and helpers for its parameters."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import mlx.core as mx
from mlx.utils import tree_flatten

from engine.target.model_layout import embed
from models.drafters.target_match import made_for
from models.loader import Loaded
from models.training.batches import Batch, States
from models.training.corpus import Conversation

DEEPEST = 6  # depths that an unrolled head can be evaluated at, at least


class Trainee(ABC):
    """A drafter in training.

    network: the module whose trainable parameters are trained. points: the target's hidden states that it reads in
    addition to the normed one. ids: (columns,) int32, the target's id of each column of its logits; None for the whole
    vocabulary. depths: the number of draft positions that it is trained for. max_depth: the number that it can be
    evaluated at. min_context: the number of tokens that must precede a prediction.
    """

    network: Any
    points: tuple[int, ...] = ()
    ids: mx.array | None = None
    depths: int
    max_depth: int
    min_context: int

    def initialize(self, conversations: Sequence[Conversation], states: States, tokens: int) -> Iterator[int]:
        """Initializes the network from about `tokens` tokens of training text; yields the number of tokens read so
        far. states: returns the rows of the conversation at an index of `conversations`."""
        return iter(())

    @abstractmethod
    def predict(self, batch: Batch, depths: int) -> list[mx.array]:
        """Returns for each depth the logits (n, columns) of the token after each of `batch.rows`: as the first token
        of a draft, as the second if the first is right, etc. Returns fewer than `depths` arrays if the depth makes
        no difference."""

    def finalize(self) -> None:
        """Rounds the weights to exactly what will be saved. Called once, after training."""
        round_parameters(self.network, mx.float16)

    def observe(self, logits: list[mx.array], batch: Batch) -> None:
        """Records the output of `predict` for a held-out reply at temperature 0."""
        return

    @abstractmethod
    def save(self, folder: Path, about: Mapping[str, Any]) -> None:
        """Writes the drafter's files into the existing `folder`. about: the metadata for its config."""

    @property
    def tree_probs(self) -> list[float]:
        """The probability that each node of the static tree is accepted, in its order; empty if there is no tree."""
        return []


class HeadTrainee(Trainee):
    """A head in training for `target`, whose embedding it reads."""

    def __init__(self, target: Loaded) -> None:
        self._target, self._embed = target, embed(target.network)

    def described(self, about: Mapping[str, Any]) -> dict[str, object]:
        """Returns the metadata with the target that the head is made for."""
        return {**about, "target": made_for(self._target)}


Step = Callable[[mx.array, mx.array, int], mx.array]  # from states and embeddings at a depth to the states of the next


class UnrolledTrainee(HeadTrainee):
    """A head in training that drafts from its own states. depths: unrolled steps. Places and depths are those that
    `models.training.eagle3_trainee` explains."""

    def __init__(self, target: Loaded, depths: int) -> None:
        super().__init__(target)
        self.depths, self.max_depth, self.min_context = depths, max(depths, DEEPEST), max(depths, DEEPEST)

    @abstractmethod
    def unroll(self, batch: Batch) -> tuple[mx.array, Step]:
        """Returns the states (conversations, length, hidden) that depth 0 reads, and the step from depth to depth,
        which sees at each depth what drafting has in its cache."""

    @abstractmethod
    def logits(self, states: mx.array) -> mx.array:
        """Returns (n, columns) for states (n, hidden)."""

    def predict(self, batch: Batch, depths: int) -> list[mx.array]:
        hidden, step = self.unroll(batch)
        embedded = self._embed(mx.concatenate([batch.tokens[:, 1:], batch.tokens[:, :1]], 1)).astype(mx.float32)
        found = []
        for depth in range(depths):
            hidden = step(hidden, embedded, depth)
            found.append(self.logits(hidden.reshape(-1, hidden.shape[-1])[batch.rows - 1]))
            hidden = shift(hidden, 1, 1)
        return found


def shift(x: mx.array, by: int, axis: int) -> mx.array:
    """Returns `x` shifted by `by` positions along `axis` and padded with zeros."""
    if by == 0:
        return x
    pads = [(by, 0) if place == axis % x.ndim else (0, 0) for place in range(x.ndim)]
    kept = mx.split(x, [x.shape[axis] - by], axis)[0]
    return mx.pad(kept, pads)


# --- The parameters of its network.


def trainable_parameters(network: Any) -> dict[str, mx.array]:
    """Returns every trainable parameter by its dotted name."""
    return dict(tree_flatten(network.trainable_parameters()))


def round_parameters(network: Any, dtype: mx.Dtype) -> None:
    """Rounds every parameter to `dtype` and stores it in float32."""
    network.set_dtype(dtype)
    network.set_dtype(mx.float32)
    mx.eval(network.parameters())
