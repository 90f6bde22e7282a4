"""A grammar small enough to be read off: what the tests of structured output match with."""

import numpy as np
from numpy.typing import NDArray


class CountingMatcher:
    """Allows token t at place n of an answer if t >= first and t % 3 == n % 3, and its end from `least` tokens on;
    after `most` tokens nothing else. At each fourth place but the first one token stands alone."""

    def __init__(self, vocabulary: int, eos: int, first: int = 0, least: int = 4, most: int = 9) -> None:
        self.vocabulary, self.eos, self.first, self.least, self.most = vocabulary, eos, first, least, most
        self.taken: list[int] = []

    def tokens(self) -> list[int]:
        n = len(self.taken)
        if n and n % 4 == 0 and n < self.most:
            return [self.forced_token(n)]
        inside = [t for t in range(self.first, self.vocabulary) if t % 3 == n % 3 and t != self.eos]
        return (inside if n < self.most else []) + ([self.eos] if n >= self.least else [])

    def forced_token(self, place: int) -> int:
        """The only token at a fourth place."""
        return next(t for t in range(self.first + 3, self.vocabulary) if t % 3 == place % 3)

    def allowed(self) -> NDArray[np.uint32]:
        words = np.zeros(-(-self.vocabulary // 32), np.uint32)
        for token in self.tokens():
            words[token // 32] |= np.uint32(1 << token % 32)
        return words

    def consume(self, token: int) -> bool:
        if token not in self.tokens():
            return False
        self.taken.append(token)
        return True

    def rollback(self, tokens: int) -> None:
        del self.taken[len(self.taken) - tokens :]

    def forced(self) -> list[int]:
        only = self.tokens()
        return only if len(only) == 1 and only != [self.eos] else []
