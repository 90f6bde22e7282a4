"""Which architectures are tested every time; all of them take minutes."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import Any

import pytest

# One of each kind of cache that people run, and whatever is refused.
EVERY_TIME = {
    *("llama", "gemma3_text", "gemma4_text", "gpt_oss", "qwen3_next", "mamba2", "phi3small", "olmo", "muse_spark"),
}


def fewer(names: Iterable[str], also: Collection[str] = ()) -> list[Any]:
    """Parameters for a test of each: all but those and `also` are slow."""
    return [
        name if name in EVERY_TIME or name in also else pytest.param(name, marks=pytest.mark.slow) for name in names
    ]
