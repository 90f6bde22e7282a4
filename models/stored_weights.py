"""Turns the names and shapes of tensors that transformers 5 writes into those that mlx-lm 0.32.2 reads.

Only what `sanitize` of mlx-lm's own network does not know is done here, before it. A folder whose tensors have the
older names, or were converted for MLX, passes unchanged.
"""

import re
from collections.abc import Callable, Mapping
from typing import Any

import mlx.core as mx

Config = Mapping[str, Any]
Weights = dict[str, mx.array]

_VISION_PARTS = (
    "vision_tower.",
    "visual.",
    "vision_adapter.",
    "vision_projection.",
    "multi_modal_projector.",
    "mm_projector.",
)
_LAYER_61 = re.compile(r"^((?:language_model\.)?model\.)layers\.61\.")
_LAYER_0 = re.compile(r"^((?:language_model\.)?model\.)layers\.0\.")
_ROUTING_BIASES = ("e_score_correction_bias", "expert_bias")

# By family: what stands in names, and what mlx-lm looks for.
_NAMES: dict[str, tuple[tuple[str, str], ...]] = {
    "gemma3n": ((r"^model\.(?!language_model\.)", "model.language_model."),),
    "gpt2": ((r"^transformer\.", ""),),
    "kimi_k25": ((r"^language_model\.model\.blocks\.", "language_model.model.layers."),),
    "kimi_linear": ((r"\.block_sparse_moe\.(gate_proj|up_proj|down_proj)\.", r".mlp.\1."),),
    "lfm2-vl": ((r"^model\.language_model\.", "language_model.model."),),
    "llama4": ((r"^(model|lm_head)\.(?!language_model)", r"language_model.\1."),),
    "nanochat": (
        (r"^model\.embed_tokens\.", "transformer.wte."),
        (r"^model\.layers\.", "transformer.h."),
        (r"\.self_attn\.([qkv])_proj\.", r".attn.c_\1."),
        (r"\.self_attn\.o_proj\.", ".attn.c_proj."),
        (r"\.mlp\.fc1\.", ".mlp.c_fc."),
        (r"\.mlp\.fc2\.", ".mlp.c_proj."),
    ),
    "olmo_hybrid": (
        (r"\.attention_layer_norm\.", ".input_layernorm."),
        (r"\.feedforward_layer_norm\.", ".post_attention_layernorm."),
    ),
}
_VISION_NOT_DROPPED = ("kimi_k25", "lfm2-vl", "muse_glimmer")  # by mlx-lm, where it stands under `model.`


def renamed(weights: Weights, config: Config) -> Weights:
    """Returns the tensors of a folder as mlx-lm's `sanitize` of its family reads them. Nothing is evaluated."""
    family = str(config.get("model_type")).removesuffix("_text")
    names = _NAMES.get(family, ())
    if family == "gemma3n" and any(key.startswith("model.language_model.") for key in weights):
        names = ()  # the whole model, with vision and audio, has mlx-lm's names
    for pattern, name in names:
        weights = {re.sub(pattern, name, key): value for key, value in weights.items()}
    if family in _VISION_NOT_DROPPED:
        weights = {
            key: value for key, value in weights.items() if not key.removeprefix("model.").startswith(_VISION_PARTS)
        }
    return _LAYOUTS[family](weights, config) if family in _LAYOUTS else weights


def with_every_layer(sanitize: Callable[[Weights], Weights]) -> Callable[[Weights], Weights]:
    """Returns mlx-lm's `sanitize` of a network so that layer 61 stays: for shapes like DeepSeek-V3's it drops that
    layer, where DeepSeek-V3 itself has a head. It is converted under the name of the first layer."""

    def whole(weights: Weights) -> Weights:
        apart = {key: value for key, value in weights.items() if _LAYER_61.match(key)}
        found = sanitize({key: value for key, value in weights.items() if key not in apart})
        if not apart:
            return found
        first = sanitize({_LAYER_61.sub(r"\1layers.0.", key): value for key, value in apart.items()})
        return found | {_LAYER_0.sub(r"\1layers.61.", key): value for key, value in first.items()}

    return whole


def with_positive_biases(weights: Weights) -> Weights:
    """Returns the weights with the biases for choosing experts moved up together until none is negative.

    Groups of experts that may not be chosen get the score 0 from mlx-lm, minus infinity from the makers: with negative
    biases an expert of such a group would win. To move all biases changes no choice, and they weigh nothing.
    """
    return {
        key: _moved_up(value) if key.endswith(_ROUTING_BIASES) else value  # one for each expert
        for key, value in weights.items()
    }


def _moved_up(bias: mx.array) -> mx.array:
    bias = bias.astype(mx.float32)
    return bias - mx.minimum(mx.min(bias), 0)


def _qwen3_vl_experts(weights: Weights, config: Config) -> Weights:
    """The published files have the input of a matrix before its output; transformers 5 writes it after."""
    hidden = config["text_config"]["hidden_size"]
    downs = [key for key in weights if key.endswith(".experts.down_proj") and weights[key].shape[1] == hidden]
    for key in downs:
        other = key.replace("down_proj", "gate_up_proj")
        weights |= {key: weights[key].swapaxes(1, 2), other: weights[other].swapaxes(1, 2)}
    return weights


def _qwen3_5_experts(weights: Weights, config: Config) -> Weights:
    """One matrix for each expert, in place of all in one tensor."""
    for first in [key for key in weights if re.search(r"\.experts\.0\.\w+\.weight$", key)]:
        prefix, name = first.split(".experts.0.")
        count = len([key for key in weights if key.startswith(f"{prefix}.experts.") and key.endswith(f".{name}")])
        stacked = mx.stack([weights.pop(f"{prefix}.experts.{place}.{name}") for place in range(count)])
        weights[f"{prefix}.switch_mlp.{name}"] = stacked
    return weights


def _gpt_oss_experts(weights: Weights, config: Config) -> Weights:
    """Experts that are not quantized: mlx-lm looks for them in the layout of MXFP4."""
    for key in [key for key in weights if re.search(r"\.experts\.(gate_up|down)_proj(_bias)?$", key)]:
        value, bias = weights.pop(key), key.endswith("_bias")
        value = value if bias else value.swapaxes(1, 2)
        stem, part = key.removesuffix("_bias"), "bias" if bias else "weight"
        if stem.endswith("down_proj"):
            weights[f"{stem}.{part}"] = value
            continue
        stem = stem.removesuffix("gate_up_proj")
        weights[f"{stem}gate_proj.{part}"], weights[f"{stem}up_proj.{part}"] = value[:, ::2], value[:, 1::2]
    return weights


def _longcat_experts(weights: Weights, config: Config) -> Weights:
    """Experts that hand their input on have no weights, but transformers 5 writes some for them."""
    count = config["n_routed_experts"]

    def real(key: str) -> bool:
        found = re.search(r"\.mlp\.experts\.(\d+)\.", key)
        return found is None or int(found[1]) < count

    return {key: value for key, value in weights.items() if real(key)}


def _gemma3n_shared_keys(weights: Weights, config: Config) -> Weights:
    """Layers that read the keys and values of others: transformers 5 stores none for them, mlx-lm asks for some."""
    text = config["text_config"]
    for place in range(text["num_hidden_layers"] - text.get("num_kv_shared_layers", 0), text["num_hidden_layers"]):
        for name in ("k_norm", "k_proj", "v_proj"):
            of = "model.language_model.layers.{}.self_attn." + name + ".weight"
            if of.format(0) in weights:
                weights.setdefault(of.format(place), mx.zeros_like(weights[of.format(0)]))
    return weights


def _lfm2_convolutions(weights: Weights, config: Config) -> Weights:
    return {
        key: value.swapaxes(1, 2) if key.endswith("conv.conv.weight") and value.shape[1] == 1 else value
        for key, value in weights.items()
    }


_LAYOUTS: dict[str, Callable[[Weights, Config], Weights]] = {
    "gemma3n": _gemma3n_shared_keys,
    "gpt_oss": _gpt_oss_experts,
    "lfm2-vl": _lfm2_convolutions,
    "longcat_flash": _longcat_experts,
    "qwen3_5_moe": _qwen3_5_experts,
    "qwen3_vl_moe": _qwen3_vl_experts,
}
