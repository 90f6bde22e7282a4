"""The most memory that a pair takes at one time, whether it fits in this machine, and what would make it fit.

macOS    the GPU may use a part of memory that the system names; anything above that does not run
others   whatever the process may use
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Literal

from models.catalogue.search import TIGHT, unwired_bytes
from models.size_text import memory_words

PROCESS_BYTES = 150 * 1024**2  # Python, MLX, mlx-lm and the parts of Redline that are loaded
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


MemoryLevel = Literal["good", "tight", "refused"]
FootprintAt = Callable[[int], Footprint]  # by the length of the context

MIN_CONTEXT = 512
KV_BITS = 8  # no loss of quality has been found at 8
_STEP = 256


@dataclass(frozen=True)
class AvailableMemory:
    """The memory of this machine, in bytes.

    free: now, without taking any from other programs, None where that does not matter. wired: the most that the GPU may
    use, None without a GPU.
    """

    total: int
    free: int | None = None
    wired: int | None = None

    @property
    def most(self) -> int:
        """What a pair may use if everything else makes room."""
        if self.wired is not None:
            return self.wired
        return unwired_bytes(self.total)


@dataclass(frozen=True)
class MemoryVerdict:
    """Whether a pair fits at `context` tokens, and why, in one line.

    needed: bytes. remedies: what would make it fit, or fit well, each a phrase; the first helps most.
    """

    level: MemoryLevel
    reason: str
    context: int
    needed: int
    remedies: tuple[str, ...] = ()

    def __str__(self) -> str:
        return "; ".join([self.reason, *self.remedies[:2]])


def judge_memory(
    footprint_at: FootprintAt, context: int, available: AvailableMemory, fewer_bits: FootprintAt | None = None
) -> MemoryVerdict:
    """Returns whether a pair with these footprints fits at `context` tokens. fewer_bits: the same pair with its keys
    and values in KV_BITS."""
    footprint, most = footprint_at(context), available.most
    needed = footprint.total
    reason = f"needs {memory_words(needed)} for a context of {context:,} tokens; {memory_words(most)} can be used here"
    if needed > most:
        return MemoryVerdict("refused", reason, context, needed, _remedies(footprint, footprint_at, fewer_bits, most))
    if needed > TIGHT * most:
        ease = int(TIGHT * most)
        return MemoryVerdict("tight", reason, context, needed, _remedies(footprint, footprint_at, fewer_bits, ease))
    if available.free is not None and needed > available.free:
        reason = f"{reason}, {memory_words(available.free)} of it free now"
        return MemoryVerdict("tight", reason, context, needed, ("close other programs",))
    return MemoryVerdict("good", reason, context, needed)


def largest_context(footprint_at: FootprintAt, wanted: int, most: int) -> int | None:
    """Returns the longest context up to `wanted` that takes at most this many bytes; None if even MIN_CONTEXT takes
    more."""
    if footprint_at(wanted).total <= most:
        return wanted
    if wanted < MIN_CONTEXT or footprint_at(MIN_CONTEXT).total > most:
        return None
    fits, too_long = MIN_CONTEXT // _STEP, -(-wanted // _STEP)
    while too_long - fits > 1:
        middle = (fits + too_long) // 2
        if footprint_at(middle * _STEP).total <= most:
            fits = middle
        else:
            too_long = middle
    return fits * _STEP


def _remedies(
    footprint: Footprint, footprint_at: FootprintAt, fewer_bits: FootprintAt | None, most: int
) -> tuple[str, ...]:
    found = []
    shorter = largest_context(footprint_at, footprint.context, most)
    if shorter is not None:
        found.append(f"a context of {shorter:,} tokens fits")
    if footprint.alone.total <= most:
        found.append("it fits without its drafter, or with prompt lookup")
    if fewer_bits is not None and fewer_bits(footprint.context).total <= most:
        found.append(f"it fits with {KV_BITS}-bit keys and values (--kv-bits {KV_BITS})")
    if not found:
        found.append(
            f"choose a smaller model or fewer bits per weight: the weights need {memory_words(footprint.weights)}"
        )
    return tuple(found)
