"""Everything that Redline imports from mlx-lm, in one place."""

from __future__ import annotations

from typing import Any

from mlx_lm.models.base import create_attention_mask, create_causal_mask
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
from mlx_lm.utils import dequantize_model, load_model, quantize_model, save_config, save_model

__all__ = [
    "ArraysCache",
    "CacheList",
    "ChunkedKVCache",
    "ConcatenateKVCache",
    "KVCache",
    "QuantizedKVCache",
    "RotatingKVCache",
    "create_attention_mask",
    "create_causal_mask",
    "dequantize_model",
    "initialize_rope",
    "load_model",
    "make_prompt_cache",
    "quantize_model",
    "save_config",
    "save_model",
    "why_unsound",
    "why_unsound_type",
]

# Files of mlx_lm.models (0.32.2) whose own passes over several tokens are wrong, so that there is nothing exact
# to verify with. Found by `python -m tests.sweep`.
_UNSOUND = {
    "phi3small": "mlx-lm adds its block-sparse mask to the scores as 0 and 1, so that tokens see the future",
    "olmo": "mlx-lm cannot run it over more than one token",
}


def why_unsound(model: Any) -> str | None:
    """Returns why this mlx-lm model cannot be decoded exactly, None if nothing is known against it."""
    return why_unsound_type(type(model).__module__.rsplit(".", 1)[-1])


def why_unsound_type(model_type: str) -> str | None:
    """Returns the same by the config's model_type, before mlx-lm imports the file (olmo's ends the process)."""
    return _UNSOUND.get(model_type)
