"""Which architectures are tested every time; all of them take minutes."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import Any

import pytest

# What people run, each kind of cache, and whatever was wrong once.
EVERY_TIME = {
    *(
        "llama",
        "llama4",
        "qwen2",
        "qwen3",
        "qwen3_moe",
        "qwen3_next",
        "gemma3",
        "gemma3_text",
        "gemma3n",
        "gemma4_text",
    ),
    *("smollm3", "lfm2", "mistral3", "ministral3", "mixtral", "phi3", "gpt_oss", "glm4_moe", "deepseek_v3", "cohere2"),
    *("mamba2", "rwkv7", "jamba", "falcon_h1", "granitemoehybrid", "nemotron_h", "recurrent_gemma", "baichuan_m1"),
    *("olmo2", "olmo3", "plamo3", "phi3small", "olmo", "muse_spark", "bitnet", "exaone4", "kimi_linear", "minimax"),
}


def fewer(names: Iterable[str], also: Collection[str] = ()) -> list[Any]:
    """Parameters for a test of each: all but those and `also` are slow."""
    return [
        name if name in EVERY_TIME or name in also else pytest.param(name, marks=pytest.mark.slow) for name in names
    ]
