"""The one door to mlx-lm: everything the engine takes from it comes through here."""

from __future__ import annotations

from typing import Any

from mlx_lm.models.base import create_causal_mask
from mlx_lm.models.cache import (
    ArraysCache,
    CacheList,
    ChunkedKVCache,
    ConcatenateKVCache,
    KVCache,
    QuantizedKVCache,
    RotatingKVCache,
    make_prompt_cache,
)
from mlx_lm.models.rope_utils import initialize_rope
from mlx_lm.utils import dequantize_model, load_model, quantize_model, save_config

__all__ = [
    "ArraysCache",
    "CacheList",
    "ChunkedKVCache",
    "ConcatenateKVCache",
    "KVCache",
    "QuantizedKVCache",
    "RotatingKVCache",
    "create_causal_mask",
    "dequantize_model",
    "initialize_rope",
    "load_model",
    "make_prompt_cache",
    "quantize_model",
    "save_config",
    "unsound",
    "unsound_type",
]

# Files of mlx_lm.models (0.32.2) whose own passes over several tokens are wrong, so that there is nothing exact
# to verify with. Found by `python -m tests.sweep`.
_UNSOUND = {
    "phi3small": "mlx-lm adds its block-sparse mask to the scores as 0 and 1, so that tokens see the future",
    "olmo": "mlx-lm cannot run it over more than one token",
}


def unsound(model: Any) -> str | None:
    """Why this mlx-lm model cannot be decoded exactly, or None when nothing is known against it."""
    return unsound_type(type(model).__module__.rsplit(".", 1)[-1])


def unsound_type(model_type: str) -> str | None:
    """The same by the config's model_type, before mlx-lm imports the file (olmo's ends the process)."""
    return _UNSOUND.get(model_type)
