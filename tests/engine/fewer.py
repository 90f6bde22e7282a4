"""Which architectures, and which pairs of parameters, are tested every time; all of them take minutes."""

from collections.abc import Collection, Iterable
from typing import Any

import pytest

# One of each kind of cache that people run, and whatever is refused.
EVERY_TIME = {
    *("llama", "gemma3_text", "gemma4_text", "gpt_oss", "qwen3_next", "mamba2", "phi3small", "olmo", "muse_spark"),
}


def fewer(names: Iterable[str], also: Collection[str] = (), slow: Collection[str] = ()) -> list[Any]:
    """Parameters for a test of each: those of EVERY_TIME and `also` are tested every time unless they are in `slow`;
    the others are slow."""
    every_time = (EVERY_TIME | {*also}) - {*slow}
    return [name if name in every_time else pytest.param(name, marks=pytest.mark.slow) for name in names]


def paired(first: Collection[Any], second: Collection[Any], each: int = 1) -> list[Any]:
    """Parameters for a test of each of `first` with each of `second`. Every one of both is tested every time, each of
    the longer list with `each` of the shorter; the other pairs are slow."""
    shorter = min(len(first), len(second))
    return [
        pytest.param(one, other, marks=() if (i - j) % shorter < each else pytest.mark.slow)
        for i, one in enumerate(first)
        for j, other in enumerate(second)
    ]
