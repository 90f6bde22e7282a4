"""The blocks of exact-verify: where passes begin and end, so that a token gets the same arithmetic however it came
there.

A product may round differently in a pass of another width, attention where there are more keys, a kernel in another of
its rows; and the keys and values of a token are what the pass that wrote them made. So here the place of a token alone
decides all of that. The sequence is cut at fixed places, a pass reads exactly one block, and what a block lacks of
tokens is filled up with tokens after them, which no row before can see and which are forgotten afterwards:

    place    0 ..... 511 | 512 . 575 | 576 . 579 | 580 . 583 | 584
    block    one pass    | one pass  | one pass  | one pass  |
             the prompt, in the widest blocks    | the reply, in blocks of `width`

Plain decoding at place 581 runs the pass over 580 .. 583 with one token and three fillers after it; a verify pass runs
the same with drafted ones in place of fillers. No kernel sees a difference but in the contents of rows that are masked.
A draft ends where its block ends, and a token at a block's end is read without one.

This needs no property of any kernel save one: that what stands in later rows cannot change an earlier one.

Where passes of up to n tokens are known to have the bits of single steps (`engine.audit.identical_width`), a block of
the reply is one token, and a pass reads up to n of them. Then nothing is filled up, and plain decoding is as usual.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

BLOCK_WIDTH = 4
KEYS = 1024  # at multiples of so many keys GPUs take another kernel for attention
WHY_NO_TREES = "with --exact a pass has one row for each position, and a tree puts several tokens at one position"
_WIDE = (512, 64)  # blocks that a prompt is read in, as far as they fit


@dataclass(frozen=True)
class VerifyBlocks:
    """width: tokens of a block of the reply. read: tokens of the prompt that are read in the widest blocks that fit,
    a multiple of `width`. Both are the request's, so plain and speculative decoding of it have the same blocks.
    together: how many blocks of one token a pass may read; 1 where a pass reads exactly one block."""

    width: int
    read: int
    together: int = 1

    def __post_init__(self) -> None:
        if self.width < 1 or any(wide % self.width for wide in _WIDE):
            raise ValueError(f"blocks of {self.width}: give a divisor of {_WIDE[-1]}")
        if self.read < 0 or self.read % self.width:
            raise ValueError(f"{self.read} tokens of the prompt are no blocks of {self.width}")
        if self.together < 1 or (self.together > 1 and self.width > 1):
            raise ValueError(f"{self.together} blocks of {self.width} in a pass: only those of one token share passes")

    @classmethod
    def for_prompt(cls, prompt: int, width: int = BLOCK_WIDTH, together: int = 1) -> VerifyBlocks:
        """Returns the blocks for a reply to `prompt` tokens, the last of which belongs to the first pass of the
        reply."""
        return cls(width, max(prompt - 1, 0) // width * width, together)

    def block(self, place: int) -> tuple[int, int]:
        """Returns start and end of the block that the token at `place` belongs to."""
        for wide in _WIDE:
            if place < self.read // wide * wide:
                return place // wide * wide, place // wide * wide + wide
        first = place // self.width * self.width
        return first, first + self.width

    def start(self, place: int) -> int:
        """Returns where the block of `place` begins."""
        return self.block(place)[0]

    def pass_end(self, place: int) -> int:
        """Returns where the longest pass ends that the token at `place` may be read in. No pass of several blocks holds
        a token that is the first with a multiple of KEYS keys, or with more, beside one that has fewer."""
        end = self.block(place)[1]
        if self.together == 1 or end > place + 1:
            return end
        following = (place // KEYS + 1) * KEYS
        edge = following - 1 if place < following - 1 else following
        return min(place + self.together, edge)

    def room(self, place: int) -> int:
        """Returns how many tokens after `place` a pass over it has room for."""
        return self.pass_end(place) - place - 1

    def blocks(self, first: int, end: int) -> Iterator[tuple[int, int]]:
        """Yields the blocks from the one that begins at `first` to the one that holds token `end - 1`."""
        while first < end:
            _, following = self.block(first)
            yield first, following
            first = following

    def passes(self, first: int, end: int) -> Iterator[tuple[int, int]]:
        """Yields the longest passes over the same blocks."""
        while first < end:
            following = self.pass_end(first)
            yield first, following
            first = following

    def shared_ends(self, lengths: Sequence[int]) -> list[int]:
        """Returns, for prompts that begin with so many tokens of this one, where blocks end that they may have too:
        in ascending order."""
        ends = {length // wide * wide for length in lengths for wide in _WIDE}
        return sorted(end for end in ends if self.start(end) == end)

    def shared(self, other: VerifyBlocks, length: int) -> int:
        """Returns how many of the first `length` tokens stand in blocks that `other` has too."""
        kept = 0
        for _, end in self.blocks(0, length):
            if end > length or end not in (block[1] for block in other.blocks(kept, kept + 1)):
                break
            kept = end
        return kept
