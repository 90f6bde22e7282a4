"""Good, tight or refused, and what would make it fit."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

from models.memory.footprint import Footprint
from models.memory.room import Room
from models.sizes import memory_words

Level = Literal["good", "tight", "refused"]
Footprints = Callable[[int], Footprint]  # of a context

TIGHT = 0.85  # of what may be taken: beyond, other programs are felt
LEAST_CONTEXT = 512
KV_BITS = 8  # which nobody has been found to notice
_STEP = 256


@dataclass(frozen=True)
class Verdict:
    """level, and one line that says why. context: tokens for which it was judged. remedies: what would make it fit, or
    fit well, each a phrase; the first helps most."""

    level: Level
    said: str
    context: int
    needed: int
    remedies: tuple[str, ...] = ()

    def __str__(self) -> str:
        return "; ".join([self.said, *self.remedies[:2]])


def judge(footprints: Footprints, context: int, room: Room, fewer_bits: Footprints | None = None) -> Verdict:
    """Whether a pair with these footprints fits at `context` tokens. fewer_bits: the same pair with its keys and values
    in KV_BITS. Where the system does not say what it has, everything is good."""
    footprint, most = footprints(context), room.most
    needed = footprint.total
    if most is None:
        return Verdict("good", f"needs {memory_words(needed)}; this system does not say what it has", context, needed)
    said = f"needs {memory_words(needed)} at a context of {context:,}, of {memory_words(most)} that it may have here"
    if needed > most:
        return Verdict("refused", said, context, needed, _remedies(footprint, footprints, fewer_bits, most))
    if needed > TIGHT * most:
        ease = int(TIGHT * most)
        return Verdict("tight", said, context, needed, _remedies(footprint, footprints, fewer_bits, ease))
    if room.free is not None and needed > room.free:
        said = f"{said}; {memory_words(room.free)} are free now"
        return Verdict("tight", said, context, needed, ("close other programs",))
    return Verdict("good", said, context, needed)


def largest_context(footprints: Footprints, wanted: int, most: int) -> int | None:
    """The longest context up to `wanted` that takes at most so many bytes; None if not even LEAST_CONTEXT does."""
    if footprints(wanted).total <= most:
        return wanted
    if wanted < LEAST_CONTEXT or footprints(LEAST_CONTEXT).total > most:
        return None
    fits, too_long = LEAST_CONTEXT // _STEP, -(-wanted // _STEP)
    while too_long - fits > 1:
        middle = (fits + too_long) // 2
        if footprints(middle * _STEP).total <= most:
            fits = middle
        else:
            too_long = middle
    return fits * _STEP


def _remedies(
    footprint: Footprint, footprints: Footprints, fewer_bits: Footprints | None, most: int
) -> tuple[str, ...]:
    found = []
    shorter = largest_context(footprints, footprint.context, most)
    if shorter is not None:
        found.append(f"a context of {shorter:,} fits")
    if footprint.alone.total <= most:
        found.append("without its drafter, or with lookup, it fits")
    if fewer_bits is not None and fewer_bits(footprint.context).total <= most:
        found.append(f"with {KV_BITS}-bit keys and values (--kv-bits {KV_BITS}) it fits")
    if not found:
        weights = memory_words(footprint.weights)
        found.append(f"take a smaller model, or fewer bits a weight: weights are {weights} of it")
    return tuple(found)
