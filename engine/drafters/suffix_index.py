"""Where the end of a text occurred before: token sequences with hash chains over their n-grams.

DEFLATE finds its matches this way (RFC 1951, section 4; `deflate.c` of zlib): a table leads from the hash of an n-gram
to its latest end, and from each end a link leads to the end before it in the same bucket. Tokens are added and removed
at the end only. Unlike a suffix tree (SuffixDecoding, arXiv 2411.04975) it takes a fixed amount of memory per token and
is built by numpy at once; unlike a suffix array it can grow.

Memory: `BYTES_A_TOKEN` for each token that is allocated, which are at most twice as many as there are.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

Ints = npt.NDArray[np.int32]

SIZES = (8, 4)  # of the n-grams that are looked up, in tokens; the shortest is the caller's
LONGEST_MATCH = 32  # tokens: what is longer counts as this long
MAX_MATCHES = 48  # places that are looked at, the latest of each size first
BYTES_A_TOKEN = 4 + 2 * 4 * (len(SIZES) + 1)
END = -1  # stands between texts; no token has this id

_MIN_SIZE = 1024  # tokens
_STEPS = 4 * MAX_MATCHES  # along one chain, which other n-grams of the same hash are in too
_FACTOR, _GOLDEN = np.uint64(0x100000001B3), np.uint64(0x9E3779B97F4A7C15)


class Matches(NamedTuple):
    """Places where the end of a text occurred before. ends: (n,) after the last token that is the same. lengths: (n,)
    how many tokens before it are the same, at most LONGEST_MATCH."""

    ends: Ints
    lengths: Ints


class SuffixIndex:
    """Texts, searched for earlier occurrences of their own end. shortest: the fewest tokens that must be the same.

    Invariant: following `_heads` and then `_links` of a size visits the ends of all n-grams of this size with one hash,
    the latest first; 0 ends the chain.
    """

    def __init__(self, shortest: int) -> None:
        self.length = 0
        self._sizes = (*(size for size in SIZES if size > shortest), shortest)
        self._allocate(_MIN_SIZE)

    @property
    def tokens(self) -> Ints:
        """All tokens, with END between texts: (length,) int32, read-only."""
        view = self._tokens[: self.length]
        view.flags.writeable = False
        return view

    def extend(self, tokens: Sequence[int] | Ints) -> None:
        """Appends tokens."""
        first, self.length = self.length, self.length + len(tokens)
        if self.length > self._tokens.size:
            kept = self._tokens[:first]
            self._allocate(self.length)
            self._tokens[:first] = kept
            self._link(0, first)
        self._tokens[first : self.length] = tokens
        self._link(first, self.length)

    def truncate(self, length: int) -> None:
        """Takes back the tokens after the first `length`."""
        if length >= self.length:
            return
        for size, heads, links in zip(self._sizes, self._heads, self._links, strict=True):
            ends, buckets = self._ends(size, length, self.length)
            heads[buckets[::-1]] = links[ends[::-1]]  # numpy keeps the last value of a bucket: the earliest end's
        self.length = length

    def matches(self, tail: Sequence[int] | Ints) -> Matches:
        """Returns where the end of `tail` occurred, the longest matches first, then the latest. Places that nothing
        follows are left out, so `tail` may be the end of these tokens themselves."""
        last = np.asarray(tail[-LONGEST_MATCH:], np.int32)
        found: dict[int, None] = {}
        for number, size in enumerate(self._sizes):
            if len(last) >= size and len(found) < MAX_MATCHES:
                found.update(dict.fromkeys(self._chain(number, last[-size:])))
        ends = np.fromiter(found, np.int32, len(found))
        lengths = self._common(ends, last)
        order = np.lexsort((-ends, -lengths))[:MAX_MATCHES]
        return Matches(ends[order], lengths[order])

    def continuations(self, ends: Ints, count: int) -> Ints:
        """Returns the `count` tokens after each place: (n, count), END from the end of its text on.

        What runs into the end of all tokens goes on from its place again, so that a repeated pattern of any period is
        followed to any length."""
        places = ends[:, None] + np.arange(count, dtype=np.int32) % (self.length - ends)[:, None]
        rows: Ints = self._tokens[places]
        rows[np.cumsum(rows == END, 1) > 0] = END
        return rows

    def _allocate(self, count: int) -> None:
        """Allocates memory for so many tokens, and up to the next power of two, in empty tables."""
        bits = max(count - 1, 1).bit_length()
        self._tokens = np.full(1 << bits, END, np.int32)
        self._shift = np.uint64(64 - bits)
        self._heads = [np.zeros(1 << bits, np.int32) for _ in self._sizes]
        self._links = [np.zeros((1 << bits) + 1, np.int32) for _ in self._sizes]

    def _link(self, first: int, last: int) -> None:
        """Enters the n-grams whose end is after `first`, up to `last`."""
        for size, heads, links in zip(self._sizes, self._heads, self._links, strict=True):
            ends, buckets = self._ends(size, first, last)
            if not ends.size:
                continue
            order = np.argsort(buckets, kind="stable")
            ends, buckets = ends[order], buckets[order]
            before = heads[buckets]
            same = buckets[1:] == buckets[:-1]
            before[1:][same] = ends[:-1][same]
            links[ends] = before
            heads[buckets] = ends

    def _ends(self, size: int, first: int, last: int) -> tuple[Ints, npt.NDArray[np.int64]]:
        """Returns the ends after `first`, up to `last`, of all n-grams, and their buckets."""
        ends = np.arange(max(first + 1, size), last + 1, dtype=np.int32)
        return ends, self._buckets(self._tokens, size, ends)

    def _buckets(self, tokens: Ints, size: int, ends: Ints) -> npt.NDArray[np.int64]:
        code = np.zeros(ends.size, np.uint64)
        for back in range(size, 0, -1):
            code = code * _FACTOR + tokens[ends - back].astype(np.uint64)
        return ((code * _GOLDEN) >> self._shift).astype(np.int64)

    def _chain(self, number: int, gram: Ints) -> list[int]:
        """Returns the latest ends of the n-grams with the hash of this one, of the size with this number."""
        links = self._links[number]
        end = int(self._heads[number][self._buckets(gram, gram.size, np.array([gram.size], np.int32))[0]])
        ends: list[int] = []
        for _ in range(_STEPS):
            if not end or len(ends) == MAX_MATCHES:
                break
            if end < self.length and np.array_equal(self._tokens[end - gram.size : end], gram):
                ends.append(end)
            end = int(links[end])
        return ends

    def _common(self, ends: Ints, last: Ints) -> Ints:
        """Returns how many tokens before each end are those at the end of `last`."""
        places = ends[:, None] - np.arange(1, last.size + 1, dtype=np.int32)
        same = (self._tokens[np.maximum(places, 0)] == last[::-1]) & (places >= 0)
        lengths: Ints = np.cumprod(same, 1, dtype=np.int32).sum(1, dtype=np.int32)
        return lengths
