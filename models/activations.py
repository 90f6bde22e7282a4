"""The activation that a configuration names, where mlx-lm 0.32.2 computes the usual one of the family."""

from collections.abc import Callable, Mapping
from functools import cache
from typing import Any, cast

import mlx.core as mx
from mlx import nn

from engine.backend.mlx_lm_imports import SwitchGLU
from engine.errors import ModelError

_ACTIVATIONS: dict[str, Callable[[mx.array], mx.array]] = {
    "silu": nn.silu,
    "swish": nn.silu,
    "gelu": nn.gelu,
    "gelu_python": nn.gelu,
    "gelu_new": nn.gelu_approx,
    "gelu_fast": nn.gelu_approx,
    "gelu_pytorch_tanh": nn.gelu_approx,
    "quick_gelu": nn.gelu_fast_approx,
    "relu": nn.relu,
    "relu2": nn.relu2,
}
# What mlx-lm computes. Families that are not here have no reference, so nobody knows what their configurations mean.
_OTHERS = {
    "gelu": ("gpt_bigcode", "starcoder2"),
    "gelu_new": ("gpt2", "gptj", "phi", "gpt_neox"),
    "gelu_pytorch_tanh": ("gemma2", "gemma3", "gemma3n", "gemma4", "recurrent_gemma"),
    "relu2": ("nanochat", "nemotron"),
}
_SILU = (
    *("afmoe", "cohere", "cohere2", "deepseek_v2", "deepseek_v3", "deepseek_v32", "dots1", "ernie4_5", "ernie4_5_moe"),
    *("exaone", "exaone4", "exaone_moe", "falcon_h1", "falcon_mamba", "glm", "glm4", "glm4_moe", "glm4_moe_lite"),
    *("glm_moe_dsa", "granite", "granitemoe", "granitemoehybrid", "helium", "hunyuan_v1_dense", "internlm3", "jamba"),
    *("kimi_linear", "laguna", "llama", "llama4", "longcat_flash", "mamba", "mamba2", "mellum", "mimo_v2_flash"),
    *("minicpm3", "minimax_m2", "ministral3", "mistral", "mistral4", "mixtral", "muse_glimmer", "olmo2", "olmo3"),
    *("olmo_hybrid", "olmoe", "phi3", "phimoe", "qwen2", "qwen2_5_vl", "qwen2_moe", "qwen2_vl", "qwen3", "qwen3_5"),
    *("qwen3_5_moe", "qwen3_moe", "qwen3_next", "qwen3_vl", "qwen3_vl_moe", "seed_oss", "smollm3", "solar_open"),
    "stablelm",
)
_COMPUTED = {"gemma": "gelu", **dict.fromkeys(_SILU, "silu")} | {
    family: name for name, families in _OTHERS.items() for family in families
}
# In these families the activation is not that of feed-forward parts alone, or these do more than apply matrices.
_UNLIKE = (
    *("falcon_h1", "gemma3n", "gemma4", "granitemoehybrid", "jamba", "kimi_linear", "olmo_hybrid", "qwen3_5"),
    *("qwen3_5_moe", "qwen3_next", "recurrent_gemma"),
)
# The matrices of feed-forward parts, in the order in which they are applied.
_GATED = ("gate_proj", "up_proj", "down_proj")
_PLAIN = (
    ("c_fc", "c_proj"),
    ("dense_h_to_4h", "dense_4h_to_h"),
    ("fc1", "fc2"),
    ("fc_in", "fc_out"),
    ("up_proj", "down_proj"),
)
_FIELDS = ("hidden_activation", "hidden_act", "activation_function")


def correct_activations(network: Any, text: Mapping[str, Any], family: str) -> None:
    """Gives feed-forward parts the activation that the configuration names. Raises ModelError where that is not
    known, or mlx-lm's network has no place for it."""
    named = next((text[field] for field in _FIELDS if text.get(field) is not None), None)
    if family == "gemma" and named in (None, "gelu"):  # its first files said gelu and meant the approximation
        named = "gelu_pytorch_tanh"
    computed = _COMPUTED.get(family)
    if named is None or computed is None or _ACTIVATIONS.get(named) is _ACTIVATIONS[computed]:
        return
    if named not in _ACTIVATIONS:
        raise ModelError(f"its activation {str(named)[:40]!r} is not known; choose another model")
    found = [module for module in network.modules() if _give_activation(module, _ACTIVATIONS[named])]
    if not found or family in _UNLIKE:
        raise ModelError(f"its activation is {named}, and mlx-lm computes {computed}; choose another model")


def _give_activation(module: Any, activation: Callable[[mx.array], mx.array]) -> bool:
    """Gives a module the activation if it is a feed-forward part; returns whether it is one."""
    if isinstance(module, SwitchGLU):
        module.activation = _Gate(activation)
        return True
    if any(isinstance(part, SwitchGLU) for part in module.values()):  # beside a shared expert of its own
        return False
    for names, kind in ((_GATED, _gated), *((pair, _plain) for pair in _PLAIN)):
        if all(name in module for name in names):
            module.__class__ = kind(cast(Any, type(module)))
            module.activation, module.matrices = activation, names
            return True
    return False


class _Gate(nn.Module):
    """What `SwitchGLU` calls between its matrices."""

    def __init__(self, activation: Callable[[mx.array], mx.array]) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.activation = activation

    def __call__(self, x: mx.array, gate: mx.array) -> mx.array:
        return self.activation(gate) * x


@cache
def _gated(kind: Any) -> type:
    class Gated(kind):  # type: ignore[misc]
        def __call__(self, x: mx.array) -> Any:
            gate, up, down = (self[name] for name in self.matrices)
            return down(self.activation(gate(x)) * up(x))

    return named_as(Gated, kind)


@cache
def _plain(kind: Any) -> type:
    class Plain(kind):  # type: ignore[misc]
        def __call__(self, x: mx.array) -> Any:
            first, second = (self[name] for name in self.matrices)
            return second(self.activation(first(x)))

    return named_as(Plain, kind)


def named_as(kind: type, original: type) -> type:
    """Gives a subclass the name and the file of its class, by which mlx-lm and Redline know an architecture."""
    for name in ("__name__", "__qualname__", "__module__"):
        setattr(kind, name, getattr(original, name))
    return kind
