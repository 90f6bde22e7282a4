"""A tiny random model of every architecture that the installed mlx-lm knows.

For sweeps that claim something of any architecture. The names come from the installed package, so a file that
a new mlx-lm adds turns up by itself: it builds from `COMMON`, or the sweep fails until it has its own line.

Models are float32, in evaluation mode, and a function of (name, seed). Weights are drawn anew, zeros included:
a gate, a sink, a router bias or a hyper-connection that mlx-lm starts at zero would test nothing.
"""

from __future__ import annotations

import copy
import importlib
import math
import pkgutil
from types import ModuleType

import mlx.core as mx
import mlx.nn as nn
from mlx.utils import tree_flatten, tree_unflatten
from mlx_lm import models

from tests.toys.architecture_configs import COMMON, SPECIFIC, TEXT_MODEL_OF, VOCABULARY, Config

NOT_MODELS: dict[str, str] = {
    "activations": "activation functions",
    "base": "attention masks and the base of ModelArgs",
    "bitlinear_layers": "the ternary linear layer of bitnet",
    "cache": "cache classes",
    "gated_delta": "the gated delta rule",
    "mla": "the linear layer of multi-head latent attention",
    "pipeline": "pipeline parallelism",
    "rope_utils": "rotary position embeddings",
    "ssm": "the state-space scan",
    "switch_layers": "expert layers",
}

NOT_BUILT: dict[str, str] = {"olmo": "exits","bitnet":"","muse_spark":""}

QK_NORMS = ("q_norm", "k_norm", "query_norm", "key_norm", "query_layernorm", "key_layernorm", "q_layernorm", "k_layernorm")
FEED_FORWARD = ("mlp", "ffn", "feed_forward", "expert", "moe")
HEADS = ("lm_head", "output", "embed_out", "linear")


def architecture_names() -> list[str]:
    """The module names of every file in the installed `mlx_lm.models`, sorted: models and helpers alike."""
    return sorted(module.name for module in pkgutil.iter_modules(models.__path__))


def build(name: str, seed: int = 0) -> nn.Module:
    """A tiny model of architecture `name` over at least `VOCABULARY` tokens; the same one for the same seed."""
    mx.random.seed(seed)
    module = importlib.import_module(f"mlx_lm.models.{name}")
    model = module.Model(module.ModelArgs.from_dict(_config(name)))
    _redraw(model)
    model.eval()
    mx.eval(model.parameters())
    return model


def _config(name: str) -> Config:
    inner = TEXT_MODEL_OF.get(name)
    if inner is None:
        return _flat_config(name)
    return {"model_type": name, "vocab_size": VOCABULARY, "text_config": _flat_config(inner)}


def _flat_config(name: str) -> Config:
    return copy.deepcopy(COMMON | {"model_type": name} | SPECIFIC.get(name, {}))


def _redraw(model: nn.Module) -> None:
    """Draw every floating-point parameter anew."""
    drawn = [(path, _draw(path, value)) for path, value in tree_flatten(model.parameters())]
    model.update(tree_unflatten(drawn))


def _draw(path: str, value: mx.array) -> mx.array:
    """New weights that make the text lively: most random models fall into a cycle of a few tokens.

    Layers drown the embedding of the current token, attention outweighs the feed-forward part, and normalized
    queries and keys are scaled up, so that the next token hangs on which earlier tokens attention picks.
    """
    if not mx.issubdtype(value.dtype, mx.floating):
        return value
    noise = mx.random.normal(value.shape)
    if any(norm in path for norm in QK_NORMS):
        return 3 * (noise if value.ndim > 1 else value.astype(mx.float32) + 0.3 * noise)
    if value.ndim < 2 or not path.endswith("weight"):
        return value.astype(mx.float32) + 0.3 * noise
    if value.shape == (VOCABULARY, value.shape[-1]) and not _is_head(path):
        return 0.1 * noise
    convolution = "conv" in path
    fan_in = math.prod(value.shape[1:]) if convolution else value.shape[-1]
    return noise * _gain(path) / math.sqrt(fan_in)


def _gain(path: str) -> float:
    if _is_head(path):
        return 1.5
    return 2.0 if any(part in path for part in FEED_FORWARD) else 3.0


def _is_head(path: str) -> bool:
    return any(part in HEADS for part in path.split("."))
