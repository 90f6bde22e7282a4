"""Everything that Redline imports from mlx-lm, in one place.

Importing this module changes how MLX computes on the CPU (`small_products`, `cpu_functions`).
"""

import sys
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
from mlx_lm.models.qwen3 import MLP as FeedForward
from mlx_lm.models.rope_utils import SuScaledRoPE, YarnRoPE, initialize_rope
from mlx_lm.models.switch_layers import QuantizedSwitchLinear, SwitchGLU, SwitchLinear
from mlx_lm.utils import _get_classes as model_classes
from mlx_lm.utils import load_model, quantize_model, save_config, save_model

from engine import backend
from engine.backend import cpu_functions, small_products

__all__ = [
    "ArraysCache",
    "CacheList",
    "ChunkedKVCache",
    "ConcatenateKVCache",
    "FeedForward",
    "KVCache",
    "QuantizedKVCache",
    "QuantizedSwitchLinear",
    "RotatingKVCache",
    "SuScaledRoPE",
    "SwitchGLU",
    "SwitchLinear",
    "YarnRoPE",
    "create_attention_mask",
    "create_causal_mask",
    "initialize_rope",
    "load_model",
    "make_prompt_cache",
    "model_classes",
    "quantize_model",
    "save_config",
    "save_model",
    "why_unsound",
    "why_unsound_type",
]

small_products.install()
cpu_functions.install()

# Files of mlx_lm.models (0.32.2) whose own passes over several tokens are wrong, so that there is nothing exact
# to verify with. Found by `python -m tests.programs.sweep`.
_UNSOUND = {
    "phi3small": "mlx-lm adds its block-sparse mask to the scores as 0 and 1, so that tokens see the future",
    "olmo": "mlx-lm cannot run it over more than one token",
}

# What mlx-lm's layers call the size of a state, by the kernel that they import or define.
_STATE_SIZES = {"ssm_update": ("ssm_state_size", "d_state"), "wkv7_kernel": ("head_dim",)}


def why_unsound(model: Any) -> str | None:
    """Returns why this mlx-lm model cannot be decoded exactly, None if nothing is known against it."""
    return why_unsound_type(type(model).__module__.rsplit(".", 1)[-1]) or _why_unsound_on_metal(model)


def _why_unsound_on_metal(model: Any) -> str | None:
    """Returns why a kernel that mlx-lm has for a recurrence on Metal cannot run a model: each of its 32 lanes holds a
    32nd of a state, rounded down, and nobody checks (`ssm.py`, `rwkv7.py` of mlx_lm.models)."""
    file = sys.modules.get(type(model).__module__)
    names = [name for kernel, names in _STATE_SIZES.items() if hasattr(file, kernel) for name in names]
    if not names or backend.describe().library != "metal":
        return None
    sizes = {getattr(part, name) for part in model.modules() for name in names if hasattr(part, name)}
    wrong = [size for size in sorted(sizes) if size % 32]
    return f"its states have {wrong[0]} numbers, and mlx-lm's Metal kernel needs a multiple of 32" if wrong else None


def why_unsound_type(model_type: str) -> str | None:
    """Returns the same by the config's model_type, before mlx-lm imports the file (olmo's ends the process)."""
    return _UNSOUND.get(model_type)
