"""What a pair takes of memory at most at the same time, by what holds it."""

from __future__ import annotations

from dataclasses import dataclass, replace

PROCESS_BYTES = 150 * 1024**2  # Python, MLX, mlx-lm and what of Redline is loaded
TOKEN_BYTES = 1500  # of the process, for each token of a tokenizer's vocabulary


@dataclass(frozen=True)
class Share:
    """Of one model, in bytes. weights: as they stand in memory. loading: beside them while they are made of what is
    stored. cache: keys, values and states at the wanted context. working: what a pass holds besides. tokenizer: what
    its vocabulary takes."""

    weights: int
    loading: int = 0
    cache: int = 0
    working: int = 0
    tokenizer: int = 0


NOTHING = Share(0)


@dataclass(frozen=True)
class Footprint:
    """Of a process with a target and, it may be, drafters. All in bytes; `context` in tokens of prompt and reply."""

    context: int
    target: Share
    drafter: Share = NOTHING

    @property
    def weights(self) -> int:
        return self.target.weights + self.drafter.weights

    @property
    def cache(self) -> int:
        return self.target.cache + self.drafter.cache

    @property
    def working(self) -> int:
        """One model works at a time."""
        return max(self.target.working, self.drafter.working)

    @property
    def process(self) -> int:
        """Everything that is no model's."""
        return PROCESS_BYTES + self.target.tokenizer + self.drafter.tokenizer

    @property
    def total(self) -> int:
        """At the worst moment: the target being loaded, the drafter being loaded beside it, or both at work behind a
        full context. Tokenizers come behind the weights."""
        loading = PROCESS_BYTES + self.target.weights + self.target.loading
        beside = self.process + self.weights + self.drafter.loading
        return max(loading, beside, self.process + self.weights + self.cache + self.working)

    @property
    def alone(self) -> Footprint:
        """Of the target, without its drafter."""
        return replace(self, drafter=NOTHING)
