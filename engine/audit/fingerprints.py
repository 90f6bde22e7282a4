"""Bit-identity, measured: a checksum over the bits of each row of logits, and two replies compared.

A row's checksum is linear in the bit patterns of its numbers, modulo 2^32, with an odd factor a place; there are two,
of which 53 bits are kept, the most that every reader of JSON takes for a whole number. One number that differs in one
bit always shows; rows that differ in more agree by chance once in 2^53.
"""

from collections.abc import Sequence

import mlx.core as mx

from engine.audit.receipt import first_difference
from engine.events import Round

_FACTORS = (2654435761, 2246822519)  # odd, and far from each other's multiples
_HIGH_BITS = 21


def row_checksums(logits: mx.array) -> mx.array:
    """Returns checksums (rows, 2) uint32 of logits (rows, vocabulary), lazy."""
    bits = logits.view(mx.uint32 if logits.dtype.size == 4 else mx.uint16).astype(mx.uint32)
    odd = 2 * mx.arange(logits.shape[-1]).astype(mx.uint32) + 1
    return mx.stack([mx.sum(bits * (odd * mx.array(factor, mx.uint32)), -1) for factor in _FACTORS], -1)


def combine_checksum(pair: Sequence[int]) -> int:
    """Returns a row of `row_checksums` as one number of 53 bits."""
    low, high = pair
    return low | (high & ((1 << _HIGH_BITS) - 1)) << 32


def first_other_bits(plain: Sequence[Round], other: Sequence[Round]) -> int | None:
    """Returns the first token of two replies whose rows of logits are not the same bits, the end of the shorter
    included; None where all are. Raises ValueError for rounds without fingerprints: nothing was measured."""
    return first_difference(_fingerprints(plain), _fingerprints(other))


def _fingerprints(rounds: Sequence[Round]) -> list[int]:
    if any(len(round_.fingerprints) != len(round_.tokens) for round_ in rounds):
        raise ValueError("the rounds have no fingerprints: only exact-verify replies do")
    return [value for round_ in rounds for value in round_.fingerprints]
