"""What MLX holds of a GPU's memory beyond the arrays in use: freed buffers for the next pass, and wired weights.

MLX's allocators for GPUs keep every freed buffer for an array of the same size (`MetalAllocator::malloc` in
`backend/metal/allocator.cpp`). Keys and values grow by copying into a larger buffer every 256 tokens, and the old one
fits nothing that follows, so without a limit a long reply holds each size that its cache ever had.
"""

import mlx.core as mx

from engine.backend import describe, wired_bytes

CACHE_BYTES = 1 << 30  # freed buffers that are kept at most: a pass over 9 rows of a 70B model reuses less
CLEAR_INTERVAL = 256  # tokens between two clearances, as mlx-lm does and as its KV cache grows


def hold_weights() -> None:
    """Prepares MLX for a model that is about to be loaded: freed buffers are limited, and on Metal everything in use
    stays wired, up to what macOS recommends. Does nothing without a GPU."""
    if describe().device == "gpu":
        mx.set_cache_limit(CACHE_BYTES)
    most = wired_bytes()
    if most is not None:
        mx.set_wired_limit(most)


def release_weights() -> None:
    """Gives back what MLX holds when no model is loaded any more: freed buffers, and on Metal the wired memory. No pass
    may be running."""
    mx.clear_cache()
    if wired_bytes() is not None:
        mx.set_wired_limit(0)


def kept_bytes() -> int:
    """Returns the most bytes of freed buffers that MLX keeps beside the arrays in use; 0 on the CPU, where 32 MB are
    the most that it ever keeps (`backend/no_gpu/allocator.cpp`)."""
    return CACHE_BYTES if describe().device == "gpu" else 0


class BufferClearance:
    """Gives freed buffers back now and then while a reply grows."""

    def __init__(self) -> None:
        self._tokens = 0

    def count(self, tokens: int) -> None:
        """Counts so many more tokens; clears the buffers whenever CLEAR_INTERVAL have come together."""
        self._tokens += tokens
        if self._tokens >= CLEAR_INTERVAL:
            self._tokens = 0
            mx.clear_cache()
