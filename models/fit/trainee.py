"""What the trainer and the judge know of a drafter: a network, and what it would guess at each depth."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol

import mlx.core as mx

from models.fit.batches import Batch, States
from models.fit.corpus import Conversation


class Trainee(Protocol):
    """A drafter in training.

    network: its trainable parameters are trained. points: of the target's hidden states that it reads, beside the
    normed one. ids: (columns,) int32, the target's id of each column of its logits; None where it has them all.
    depths: how many positions it is trained for. deepest: how many it can be judged at. lead: tokens that must stand
    before a guess.
    """

    network: Any
    points: tuple[int, ...]
    ids: mx.array | None
    depths: int
    deepest: int
    lead: int

    def begin(self, conversations: Sequence[Conversation], states: States, tokens: int) -> Iterator[int]:
        """Look at about `tokens` tokens of what is to be learnt, and begin closer to it; yields how many it has looked
        at. states: rows of a conversation, by its place among `conversations`."""

    def predict(self, batch: Batch, depths: int) -> list[mx.array]:
        """Logits (n, columns) of the token after each of `batch.rows`, for each depth at which it may be guessed: as
        the first token of a draft, as the second where the first was right, and so on. Fewer than `depths` where
        depth makes no difference."""

    def settle(self) -> None:
        """Training is over: become, number by number, what will be saved."""

    def look(self, logits: list[mx.array], batch: Batch) -> None:
        """See what `predict` gave for a held-out reply at temperature 0."""

    def save(self, folder: Path, about: Mapping[str, Any]) -> None:
        """Write the drafter's files into `folder`, which exists. about: what it is and was made of, for its config."""

    @property
    def tree(self) -> list[float]:
        """How likely each node of the static tree is to be kept, in its order; empty where there is no tree."""


def shifted(x: mx.array, by: int, axis: int) -> mx.array:
    """The same array, `by` places further along `axis`, zeros coming in."""
    if by == 0:
        return x
    pads = [(by, 0) if place == axis % x.ndim else (0, 0) for place in range(x.ndim)]
    kept = mx.split(x, [x.shape[axis] - by], axis)[0]
    return mx.pad(kept, pads)
