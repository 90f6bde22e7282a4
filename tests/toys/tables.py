"""A model that is a table: its distribution depends on the last two tokens, and its cache is a real KV cache.

The next token's logits are looked up, so the exact distribution of any text can be written down; the past is
read back through the cache, so a cache that was rewound wrongly changes the distribution.
"""

import mlx.core as mx
import mlx.nn as nn
import numpy as np
from mlx_lm.models.cache import KVCache


class TableModel(nn.Module):
    """logits of the next token = table[last but one, last]; table: (size, size, size)."""

    def __init__(self, table: np.ndarray) -> None:
        super().__init__()
        self.table = mx.array(table.astype(np.float32))
        self.layers = [None]

    def make_cache(self) -> list[KVCache]:
        return [KVCache()]

    def __call__(self, inputs: mx.array, cache: list[KVCache]) -> mx.array:
        """inputs (1, n) to logits (1, n, size)."""
        n = inputs.shape[1]
        rows = inputs.astype(mx.float32)[:, None, :, None]
        seen, _ = cache[0].update_and_fetch(rows, rows)
        seen = mx.concatenate([mx.zeros((1,), mx.int32), seen[0, 0, :, 0].astype(mx.int32)])
        return self.table[seen[-n - 1 : -1], seen[-n:]][None]


def random_tables(size: int, closeness: float, seed: int = 0, sharpness: float = 1.5) -> tuple[np.ndarray, np.ndarray]:
    """A target's table and a drafter's that agrees with it the more, the nearer `closeness` is to 1."""
    rng = np.random.default_rng(seed)
    target, other = rng.normal(0, sharpness, (2, size, size, size))
    return target, closeness * target + (1 - closeness) * other


def text_distribution(table: np.ndarray, start: tuple[int, int], length: int) -> dict[tuple[int, ...], float]:
    """The exact distribution of the next `length` tokens at temperature 1, by enumeration."""
    p = np.exp(table) / np.exp(table).sum(-1, keepdims=True)
    distributions = {(): 1.0}
    for _ in range(length):
        distributions = {
            (*text, token): chance * p[(*start, *text)[-2], (*start, *text)[-1], token]
            for text, chance in distributions.items()
            for token in range(table.shape[-1])
        }
    return distributions
