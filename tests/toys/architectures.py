"""A tiny random model of every architecture that the installed mlx-lm knows.

For sweeps that claim something of any architecture. The names come from the installed package, so a file that
a new mlx-lm adds turns up by itself: it builds from `COMMON`, or the sweep fails until it has its own line.

Models are float32, in evaluation mode, and a function of (name, seed). Weights are drawn anew, zeros included:
a gate, a sink, a router bias or a hyper-connection that mlx-lm starts at zero would test nothing.
"""

import copy
import importlib
import math
import pkgutil

import mlx.core as mx
import mlx.nn as nn
from mlx.utils import tree_flatten, tree_unflatten
from mlx_lm import models

from tests.toys.architecture_common import COMMON, VOCABULARY, Config
from tests.toys.architecture_configs import SHELL, SPECIFIC, TEXT_MODEL_OF

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

_BROKEN: dict[str, str] = {
    "olmo": "exits the process where ai2-olmo is missing, and adds the mask 'causal', a string, to its scores: "
    "every pass of more than one token raises ValueError",
}
_METAL_ONLY: dict[str, str] = {
    "muse_spark": "norms, expert routing and RoPE are fused Metal kernels (mlx_lm/kernels) without a CPU path",
}
NOT_BUILT: dict[str, str] = _BROKEN if mx.metal.is_available() else _BROKEN | _METAL_ONLY

# What mlx-lm's Metal kernels need: states of multiples of 32.
ON_METAL: dict[str, Config] = {
    **{name: {"mamba_d_state": 32} for name in ("falcon_h1", "granitemoehybrid", "plamo2")},
    "mamba2": {"state_size": 32},
    "nemotron_h": {"ssm_state_size": 32},
    "rwkv7": {"head_dim": 32},
}

# Random text tends to end in a cycle of a few tokens. Where seed 0 drew such a model, this moves the draw.
_SALT: dict[str, int] = {
    "apertus": 5,
    "baichuan_m1": 1,
    "cohere": 1,
    "deepseek_v2": 1,
    "deepseek_v3": 1,
    "glm4_moe_lite": 1,
    "gpt2": 9,
    "gpt_neox": 6,
    "gpt_oss": 1,
    "gptj": 12,
    "granite": 1,
    "kimi_k25": 1,
    "kimi_vl": 1,
    "llama4_text": 4,
    "longcat_flash": 3,
    "minicpm3": 1,
    "nanochat": 5,
    "nemotron-nas": 1,
    "nemotron_h": 4,
    "olmo2": 8,
    "olmo3": 18,
    "phi": 1,
    "phi3small": 17,
    "phimoe": 3,
    "phixtral": 9,
    "plamo2": 1,
    "recurrent_gemma": 3,
    "rwkv7": 1,
    "starcoder2": 1,
    "talkie": 3,
    "youtu_llm": 1,
}

_QK_NORMS = (
    "q_norm",
    "k_norm",
    "query_norm",
    "key_norm",
    "query_layernorm",
    "key_layernorm",
    "q_layernorm",
    "k_layernorm",
)
_LATENT = ("q_a_proj", "q_b_proj", "kv_a_proj", "kv_b_proj", "embed_q", "unembed_out")
_FEED_FORWARD = ("mlp", "ffn", "feed_forward", "expert", "moe")
_HEADS = ("lm_head", "output", "embed_out")


def architecture_names() -> list[str]:
    """The module names of every file in the installed `mlx_lm.models`, sorted: models and helpers alike."""
    return sorted(module.name for module in pkgutil.iter_modules(models.__path__))


def build(name: str, seed: int = 0, **changes: object) -> nn.Module:
    """A tiny model of architecture `name` over `VOCABULARY` tokens; the same one for the same seed. changes: to its
    config."""
    mx.random.seed(seed + 1000 * _SALT.get(name, 0))
    module, config = importlib.import_module(f"mlx_lm.models.{name}"), _config(name)
    for part in (config, config.get("text_config", config)):
        part.update(changes)
    model = module.Model(module.ModelArgs.from_dict(config))
    _redraw(model)
    if name == "bitnet":
        _redraw_ternary(model)
    elif name == "prism_hadamard_qwen35":
        _redraw_packed(model)
    elif name == "phi3small":
        # It hides these ids without asking whether the vocabulary holds them: mlx would write past the logits.
        model._dummy_tokenizer_ids = mx.array([3, VOCABULARY - 1])
    model.eval()
    mx.eval(model.parameters())
    return model


def _config(name: str) -> Config:
    inner = TEXT_MODEL_OF.get(name)
    if inner is None:
        return _flat_config(name)
    shell = {"model_type": name, "vocab_size": VOCABULARY, "text_config": _flat_config(inner)}
    return shell | SHELL.get(name, {})


def _flat_config(name: str) -> Config:
    found = copy.deepcopy(COMMON | {"model_type": name} | SPECIFIC.get(name, {}))
    return found | (ON_METAL.get(name, {}) if mx.metal.is_available() else {})


def _redraw(model: nn.Module) -> None:
    """Draw every floating-point parameter anew."""
    embeddings = {f"{path}.weight" for path, part in model.named_modules() if isinstance(part, nn.Embedding)}
    drawn = []
    for path, value in tree_flatten(model.parameters()):
        if path in embeddings:
            value = 0.1 * mx.random.normal(value.shape)
        elif mx.issubdtype(value.dtype, mx.floating):
            value = _draw(path, value)
        drawn.append((path, value))
    model.update(tree_unflatten(drawn))


def _draw(path: str, value: mx.array) -> mx.array:
    """New weights that make the text lively: most random models fall into a cycle of a few tokens.

    Layers drown the embedding of the current token, attention outweighs the feed-forward part, and normalized
    queries and keys are scaled up, so that the next token hangs on which earlier tokens attention picks.
    """
    noise = mx.random.normal(value.shape)
    if any(norm in path for norm in _QK_NORMS):
        return 2 * (noise if value.ndim > 1 else value.astype(mx.float32) + 0.3 * noise)
    if path.endswith("A_log"):
        return noise - 2  # slow decay: a state that forgets at once would hide a bad rewind
    if path.endswith("recurrent_param"):
        return noise - 4  # slow decay again
    if value.ndim < 2 or not path.endswith("weight"):
        return value.astype(mx.float32) + 0.3 * noise
    fan_in = math.prod(value.shape[1:]) if "conv" in path else value.shape[-1]
    return noise * _gain(path) / math.sqrt(fan_in)


def _gain(path: str) -> float:
    if any(part in _HEADS for part in path.split(".")):
        return 1.5
    return 1.5 if any(part in path for part in _FEED_FORWARD + _LATENT) else 2.0


def _redraw_ternary(model: nn.Module) -> None:
    """Random weights in {-1, 0, 1} for bitnet. Its product is a Metal kernel: elsewhere a plain one stands in."""
    layers = [(path, part) for path, part in model.named_modules() if type(part).__name__ == "BitLinear"]
    for _, layer in layers:
        digits = mx.random.randint(0, 3, (4, *layer.weight.shape)).astype(mx.uint8)
        layer.weight = sum(digits[i] << (2 * i) for i in range(4))
        layer.weight_scale = mx.array([3.0 / math.sqrt(layer.in_features)])
    if not mx.metal.is_available():
        model.update_modules(tree_unflatten([(path, _dense(layer)) for path, layer in layers]))


def _dense(layer: nn.Module) -> nn.Linear:
    """The plain linear layer that computes what a BitLinear does. Four rows share one row of bytes."""
    quarters = [((layer.weight >> (2 * i)) & 3).astype(mx.float32) - 1 for i in range(4)]
    dense = nn.Linear(layer.in_features, layer.out_features, bias=layer.bias is not None)
    dense.weight = mx.concatenate(quarters)[: layer.out_features] * layer.weight_scale
    if layer.bias is not None:
        dense.bias = layer.bias
    return dense


def _redraw_packed(model: nn.Module) -> None:
    """Random 2-bit weights and rotation signs. Scales become float32: float16 would round per pass width."""
    for _, layer in model.named_modules():
        if type(layer).__name__ != "HadamardQuantizedLinear":
            continue
        rows, width = layer.weight.shape[0], layer.weight.shape[1] * 16
        dense = mx.random.normal((rows, width)) * 2 / math.sqrt(width)
        layer.weight, layer.scales, layer.biases = mx.quantize(dense, layer.group_size, layer.bits)
        if layer.block:
            layer.signs = mx.where(mx.random.bernoulli(shape=(width,)), 1.0, -1.0)
