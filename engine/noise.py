"""The noise of a reply: random numbers that are a pure function of (seed, stream, absolute position).

Counter-based Threefry keys, so that nothing depends on how many rounds it took to get there. Coupled sampling
(arXiv 2408.07978) is target and drafter choosing with the noise of one stream.
"""

from enum import IntEnum

import mlx.core as mx


class Stream(IntEnum):
    """Independent streams of noise at one position. CHOICE is the one that coupled sampling shares."""

    CHOICE = 0
    DRAFT = 1
    ACCEPT = 2


_GOLDEN = 0x9E3779B97F4A7C15


class Noise:
    """Counter-based random numbers: equal (seed, stream, position) give equal noise, always."""

    def __init__(self, seed: int) -> None:
        self._words = [_mix(seed, stream) for stream in Stream]

    def keys(self, stream: Stream, positions: mx.array, salt: int = 0) -> mx.array:
        """Returns Threefry keys, (n, 2) uint32, for absolute positions (n,), which may be lazy. Each `salt` has keys of
        its own."""
        word = mx.array(self._word(stream, salt), mx.uint32)
        return mx.stack([mx.broadcast_to(word, positions.shape), positions.astype(mx.uint32)], -1)

    def _word(self, stream: Stream, salt: int) -> int:
        return self._words[stream] ^ (_mix(salt, stream) if salt else 0)

    def gumbel(self, stream: Stream, positions: mx.array | int, vocabulary: int, salt: int = 0) -> mx.array:
        """Returns standard Gumbel noise, (n, vocabulary): argmax(log p + noise) is a draw from p. One position that is
        known costs no operation for its key."""
        if isinstance(positions, int):
            key = mx.array([self._word(stream, salt), positions], mx.uint32)
            return mx.random.gumbel((1, vocabulary), key=key)
        keys = self.keys(stream, positions, salt)
        if positions.size == 1:  # the same noise by fewer operations, which each plain step would wait for
            return mx.random.gumbel((1, vocabulary), key=keys.squeeze(0))
        return mx.vmap(lambda key: mx.random.gumbel((vocabulary,), key=key))(keys)

    def uniform(self, stream: Stream, positions: mx.array) -> mx.array:
        """Returns one uniform number on [0, 1) for each position, (n,)."""
        return mx.vmap(lambda key: mx.random.uniform(key=key))(self.keys(stream, positions))

    def uniforms(self, stream: Stream, position: int, count: int) -> mx.array:
        """Returns `count` uniform numbers on [0, 1) for one position, (count,)."""
        return mx.random.uniform(shape=(count,), key=self.keys(stream, mx.array([position])).squeeze(0))


def _mix(seed: int, stream: int) -> int:
    """Returns one 32-bit word from (seed, stream): the finaliser of SplitMix64 (Steele 2014)."""
    z = (seed + (stream + 1) * _GOLDEN) & 0xFFFFFFFFFFFFFFFF
    z = ((z ^ (z >> 30)) * 0xBF58476D1CE4E5B9) & 0xFFFFFFFFFFFFFFFF
    z = ((z ^ (z >> 27)) * 0x94D049BB133111EB) & 0xFFFFFFFFFFFFFFFF
    return (z ^ (z >> 31)) & 0xFFFFFFFF


def position_range(first: int, count: int) -> mx.array:
    """Returns the absolute positions from `first` on, (count,)."""
    return mx.arange(first, first + count)
