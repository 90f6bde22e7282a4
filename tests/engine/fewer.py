"""Which architectures are tested every time; all of them take minutes."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import Any

import pytest

# What people run, each kind of cache, and whatever was wrong once.
EVERY_TIME = {
    *("llama", "llama4", "qwen3", "qwen3_next", "gemma3_text", "gemma3n", "gemma4_text", "gpt_oss", "deepseek_v3"),
    *("lfm2", "mamba2", "rwkv7", "phi3small", "olmo", "muse_spark"),
}


def fewer(names: Iterable[str], also: Collection[str] = ()) -> list[Any]:
    """Parameters for a test of each: all but those and `also` are slow."""
    return [
        name if name in EVERY_TIME or name in also else pytest.param(name, marks=pytest.mark.slow) for name in names
    ]
