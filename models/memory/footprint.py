"""The most memory that a pair takes at one time, by what holds it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

PROCESS_BYTES = 150 * 1024**2  # Python, MLX, mlx-lm and what of Redline is loaded
TOKEN_BYTES = 1500  # of the process, for each token of a tokenizer's vocabulary


@dataclass(frozen=True)
class Share:
    """The memory of one model, in bytes.

    weights: as they are held in memory. loading: beside them, while they are converted from what is stored. cache:
    keys, values and states at the wanted context. working: what a pass holds besides. tokenizer: its vocabulary."""

    weights: int
    loading: int = 0
    cache: int = 0
    working: int = 0
    tokenizer: int = 0

    @classmethod
    def together(cls, shares: Sequence[Share]) -> Share:
        """Returns the share of models that are loaded one after the other and work one at a time."""
        return cls(
            weights=sum(share.weights for share in shares),
            loading=max((share.loading for share in shares), default=0),
            cache=sum(share.cache for share in shares),
            working=max((share.working for share in shares), default=0),
            tokenizer=sum(share.tokenizer for share in shares),
        )


NOTHING = Share(0)


@dataclass(frozen=True)
class Footprint:
    """The memory of a process with a target and perhaps drafters, in bytes. context: tokens of prompt and reply.
    buffers: freed ones that MLX keeps for later passes."""

    context: int
    target: Share
    drafter: Share = NOTHING
    buffers: int = 0

    @property
    def weights(self) -> int:
        return self.target.weights + self.drafter.weights

    @property
    def cache(self) -> int:
        return self.target.cache + self.drafter.cache

    @property
    def working(self) -> int:
        """One model works at a time, so the largest counts, and beside it the buffers that are kept."""
        return max(self.target.working, self.drafter.working) + self.buffers

    @property
    def process(self) -> int:
        """Everything that belongs to no model."""
        return PROCESS_BYTES + self.target.tokenizer + self.drafter.tokenizer

    @property
    def total(self) -> int:
        """The most at one time: while the target loads, while the drafter loads beside it, or while both work at the
        full context. Tokenizers are loaded after the weights."""
        loading = PROCESS_BYTES + self.target.weights + self.target.loading
        beside = self.process + self.weights + self.drafter.loading
        return max(loading, beside, self.process + self.weights + self.cache + self.working)

    @property
    def alone(self) -> Footprint:
        """The footprint of the target without its drafter."""
        return replace(self, drafter=NOTHING)
