"""Corrections of mlx-lm 0.32.2: where its network computes something else than the makers' implementation.

Each is the smallest change of mlx-lm's own network, made as it is built: a layer gets a subclass of its own class, a
rotary module other frequencies. `tests/models/references` compares every one with transformers, and fails once mlx-lm
is right without it: then it goes from here. What is not corrected is refused, with the reason.
"""

import sys
from collections.abc import Callable, Mapping, Set
from functools import cache
from typing import Any

import mlx.core as mx
from mlx import nn

from engine.backend.mlx_lm_imports import KVCache, RotatingKVCache, create_attention_mask, model_classes
from engine.errors import ModelError
from engine.rotary_embedding import correct_frequencies, rotary_embedding
from models.activations import correct_activations, named_as
from models.fixed_fields import check_fields
from models.model_config import scaling_of, text_of
from models.stored_weights import renamed, with_every_layer, with_positive_biases

Config = Mapping[str, Any]
Weights = dict[str, mx.array]

_FULL, _SLIDING = "full_attention", "sliding_attention"

# Families in which transformers gives every layer the window, and those in which it gives some layers one. mlx-lm
# computes them without.
_WINDOW_EVERYWHERE = ("mistral", "mixtral", "phi3", "phimoe", "starcoder2", "qwen3_moe")
_WINDOW_BY_LAYER = ("gemma2", "qwen2", "qwen2_moe", "qwen3", "smollm3", "dots1")
_WINDOW_IF_SWITCHED_ON = ("qwen2", "qwen2_moe", "qwen3", "qwen3_moe", "smollm3")  # by `use_sliding_window`

_DROPPING_LAYER_61 = ("deepseek_v3", "kimi_k25")
_LATENT_NORMS = ("glm4_moe_lite", "kimi_linear", "longcat_flash", "minicpm3")


def corrected_classes(config: Config, in_float32: bool = False, without: Set[str] = frozenset()) -> tuple[type, Any]:
    """Returns mlx-lm's classes of network and arguments for a configuration, the network's corrected. What
    `load_model` takes as `get_model_classes`. in_float32: whether what is computed of the weights as they are loaded
    (norms plus one, folded factors) is computed in 32 bits. without: names of tensors that are not the network's."""
    check_fields(text_of(config), family_of(text_of(config)))
    network, arguments = model_classes(dict(config))
    return _corrected(network, config, in_float32, without), arguments


def _corrected(kind: Any, config: Config, in_float32: bool, without: Set[str]) -> type:
    windows = windows_of(text_of(config))

    class Corrected(kind):  # type: ignore[misc]
        def __init__(self, arguments: Any) -> None:
            super().__init__(arguments)
            correct(self, config, windows)

        def sanitize(self, weights: Weights) -> Weights:
            found = getattr(super(), "sanitize", lambda weights: weights)
            _check_packed(weights, family_of(text_of(config)))
            if kind.__module__.rpartition(".")[2] in _DROPPING_LAYER_61:
                found = with_every_layer(found)
            stored = renamed({name: value for name, value in weights.items() if name not in without}, config)
            if in_float32:
                stored = {name: _widened(value) for name, value in stored.items()}
            return with_positive_biases(_with_biases(self, stored, found(dict(stored))))

    if any(windows):
        Corrected.make_cache = lambda self: [_cache_for(layer) for layer in self.layers]
    return named_as(Corrected, kind)


def _cache_for(layer: Any) -> Any:
    """Returns the cache of a layer, which may be one of a few that a rank of a pipeline holds."""
    return RotatingKVCache(max_size=layer.window) if layer.window else KVCache()


def _widened(value: mx.array) -> mx.array:
    return value.astype(mx.float32) if value.dtype in (mx.float16, mx.bfloat16) else value


def correct(network: Any, config: Config, windows: tuple[int | None, ...]) -> None:
    """Corrects a network that was just built. Raises ModelError for what cannot be corrected."""
    text = text_of(config)
    family = family_of(text)
    if any(windows):
        for layer, window in zip(network.layers, windows, strict=True):
            _give_class(layer, _windowed)
            layer.window = window
    correct_activations(network, text, family)
    scale_rotation(network, text)
    correct_modules(network, text)


def correct_modules(network: Any, text: Config) -> None:
    """Corrects what single modules of a network, or of one layer as a head has it, do otherwise than the makers'.
    text: the configuration of the language model."""
    family = family_of(text)
    for module in network.modules():
        correct_rotation(module, text)
        if family in _LATENT_NORMS:
            _latent_norms(module)
        name = f"{family}.{type(module).__name__}"
        if name in _MODULES:
            _MODULES[name](module, text)


def family_of(text: Config) -> str:
    return str(text.get("model_type")).removesuffix("_text")


# Windows


def windows_of(text: Config) -> tuple[int | None, ...]:
    """Returns how many tokens each layer sees, None for all; empty where mlx-lm gets it right by itself."""
    family, window = family_of(text), text.get("sliding_window")
    if family not in _WINDOW_EVERYWHERE + _WINDOW_BY_LAYER or not window:
        return ()
    if family in _WINDOW_IF_SWITCHED_ON and not text.get("use_sliding_window", False):
        return ()
    if window >= (text.get("max_position_embeddings") or 2**62):
        return ()
    layers = int(text["num_hidden_layers"])
    if family in _WINDOW_EVERYWHERE:
        return (window,) * layers
    kinds = text.get("layer_types") or _usual_kinds(text, family, layers)
    return tuple(window if kind == _SLIDING else None for kind in kinds)


def _usual_kinds(text: Config, family: str, layers: int) -> list[str]:
    """Returns the kinds of layers where the configuration does not list them, as transformers' classes do."""
    if family == "gemma2":
        return [_FULL if place % 2 else _SLIDING for place in range(layers)]
    first = text.get("max_window_layers", 28)
    return [_SLIDING if place >= first else _FULL for place in range(layers)]


def _give_class(module: Any, subclass: Callable[[Any], type]) -> None:
    module.__class__ = subclass(type(module))


@cache
def _windowed(kind: Any) -> type:
    """A decoder layer that makes its own mask: by its window, and by its own cache."""

    class Windowed(kind):  # type: ignore[misc]
        window: int | None

        def __call__(self, x: mx.array, mask: Any = None, cache: Any = None) -> Any:
            as_array = not isinstance(mask, str)
            own = create_attention_mask(x, cache, window_size=self.window, return_array=as_array)
            return super().__call__(x, own, cache)

    return named_as(Windowed, kind)


# Rotation


def correct_rotation(module: Any, text: Config) -> None:
    """Gives a rotary module the frequencies that the configuration means."""
    scaling = scaling_of(text.get("rope_scaling") or {})
    if scaling is not None:
        correct_frequencies(module, float(text.get("rope_theta", 10_000.0)), scaling)


def scale_rotation(network: Any, text: Config) -> None:
    """Scales positions where a configuration says so and mlx-lm's network of the family never does."""
    scaling = scaling_of(text.get("rope_scaling") or {})
    if scaling is None or scaling["type"] == "mrope" or any(map(_is_scaled, network.modules())):
        return
    for module in network.modules():
        rope = getattr(module, "rope", None)
        if type(rope) is nn.RoPE:
            length = text.get("max_position_embeddings")
            module.rope = rotary_embedding(rope.dims, rope.base, rope.traditional, scaling, length)


def _is_scaled(module: Any) -> bool:
    name = type(module).__name__
    return getattr(module, "scale", 1.0) != 1.0 if isinstance(module, nn.RoPE) else "RoPE" in name or "Rotary" in name


# Experts, and what else a module does by another rule


def _glm_rotation(attention: Any, text: Config) -> None:
    """mlx-lm rotates whole heads."""
    attention.rope.dims = int(attention.head_dim * text.get("partial_rotary_factor", 0.5))


def _falcon_h1_attention(attention: Any, text: Config) -> None:
    """mlx-lm looks for the weights of keys under a name that they do not have, and so does not scale them."""
    attention.scale *= text.get("key_multiplier", 1.0)


def _gemma3_embedding(model: Any, text: Config) -> None:
    """mlx-lm multiplies by the root of the hidden size rounded to bfloat16 in every type; the makers round it to the
    type of the weights."""
    root = float(model.args.hidden_size) ** 0.5
    _give_class(model.embed_tokens, _scaled_in_float32)
    model.embed_tokens.float32_scale = root / mx.array(root, mx.bfloat16).item()


@cache
def _scaled_in_float32(kind: Any) -> type:
    class Scaled(kind):  # type: ignore[misc]
        def __call__(self, x: mx.array) -> Any:
            found = super().__call__(x)
            return found * self.float32_scale if found.dtype == mx.float32 else found

    return named_as(Scaled, kind)


def _recurrent_gemma_embedding(model: Any, text: Config) -> None:
    """The makers round the root of the hidden size to bfloat16 in every type; mlx-lm does not."""
    root = float(text["hidden_size"]) ** 0.5
    _give_class(model.embed_tokens, _scaled_in_float32)
    model.embed_tokens.float32_scale = mx.array(root, mx.bfloat16).item() / root


def _mamba2_norm(norm: Any, text: Config) -> None:
    """mlx-lm takes the mean over all groups."""
    if text.get("n_groups", 1) > 1:
        _give_class(norm, _normalizing_groups)
        norm.groups = text["n_groups"]


@cache
def _normalizing_groups(kind: Any) -> type:
    class Grouped(kind):  # type: ignore[misc]
        def __call__(self, x: mx.array, gate: mx.array | None = None) -> Any:
            x = x if gate is None else x * nn.silu(gate)
            grouped = mx.fast.rms_norm(mx.unflatten(x, -1, (self.groups, -1)), None, self.eps)
            return self.weight * grouped.flatten(-2)

    return named_as(Grouped, kind)


def _check_packed(weights: Weights, family: str) -> None:
    """Raises ModelError for a BitNet whose numbers are not packed."""
    if family == "bitnet" and not any(name.endswith("weight_scale") for name in weights):
        raise ModelError(
            "the weights of this BitNet are not packed to ternary numbers, and mlx-lm computes no others: choose the "
            "packed folder of the same model"
        )


def _gpt2_scales(model: Any, text: Config) -> None:
    """mlx-lm divides scores by the root of the heads' width in every layer, whatever the configuration says."""
    for place, layer in enumerate(model.h):
        if text.get("scale_attn_weights") is False:
            layer.attn.scale = 1.0
        if text.get("scale_attn_by_inverse_layer_idx"):
            layer.attn.scale /= place + 1


def _llama4_norms(attention: Any, text: Config) -> None:
    """mlx-lm normalizes rotated queries and keys with an epsilon of 1e-6."""
    if attention.use_qk_norm:
        _give_class(attention.rope, _normalizing_rotated)
        attention.rope.eps = text["rms_norm_eps"]
        attention.use_qk_norm = False


@cache
def _normalizing_rotated(kind: Any) -> type:
    class Normalizing(kind):  # type: ignore[misc]
        def __call__(self, x: mx.array, offset: Any = 0, **named: Any) -> Any:
            return mx.fast.rms_norm(super().__call__(x, offset=offset, **named), None, self.eps)

    return named_as(Normalizing, kind)


def _nanochat_norms(block: Any, text: Config) -> None:
    """mlx-lm's norms have an epsilon of 1e-5. They are one function of its file, so it is replaced there."""
    eps = text.get("rms_norm_eps", 1e-6)
    sys.modules[type(block).__module__].rms_norm = lambda x: mx.fast.rms_norm(x, None, eps)  # type: ignore[attr-defined]


def _minicpm3_output(model: Any, text: Config) -> None:
    """mlx-lm scales the logits down only where their matrix is not the embedding's."""
    if text.get("tie_word_embeddings", True):
        _give_class(model.norm, _scaled_output)
        model.norm.output_scale = text["dim_model_base"] / text["hidden_size"]


@cache
def _scaled_output(kind: Any) -> type:
    class Scaled(kind):  # type: ignore[misc]
        def __call__(self, x: mx.array) -> Any:
            return super().__call__(x) * self.output_scale

    return named_as(Scaled, kind)


def _latent_norms(module: Any) -> None:
    """The makers leave the norms within latent attention at an epsilon of 1e-6, whatever the configuration says."""
    for name in ("q_a_layernorm", "kv_a_layernorm"):
        if name in module:
            module[name].eps = 1e-6


def _deepseek_indexer(indexer: Any, text: Config) -> None:
    indexer.k_norm.eps = 1e-6


def _jamba_experts(block: Any, text: Config) -> None:
    _give_class(block, _weighing_before_choosing)
    block.normalize = False


def _qwen2_moe_experts(block: Any, text: Config) -> None:
    if text.get("norm_topk_prob"):
        _give_class(block, _normalizing_qwen2)


def _ernie_experts(block: Any, text: Config) -> None:
    if text.get("moe_use_aux_free", True):
        _give_class(block, _choosing_by_bias)
        block.correction_bias = mx.zeros(text["moe_num_experts"])


@cache
def _weighing_before_choosing(kind: Any) -> type:
    """Weighs experts by a softmax over all of them: mlx-lm takes it over the chosen ones."""

    class Weighing(kind):  # type: ignore[misc]
        def __call__(self, x: mx.array) -> Any:
            gates = mx.softmax(self.router(x), axis=-1, precise=True)
            chosen = mx.stop_gradient(mx.argpartition(-gates, kth=self.num_experts_per_tok - 1, axis=-1))
            chosen = chosen[..., : self.num_experts_per_tok]
            scores = mx.take_along_axis(gates, chosen, axis=-1)
            return (self.switch_mlp(x, chosen) * scores[..., None]).sum(axis=-2)

    return named_as(Weighing, kind)


@cache
def _normalizing_qwen2(kind: Any) -> type:
    """Makes the weights of the chosen experts add up to one."""

    class Normalizing(kind):  # type: ignore[misc]
        def __call__(self, x: mx.array) -> Any:
            gates = mx.softmax(self.gate(x), axis=-1, precise=True)
            chosen = mx.stop_gradient(mx.argpartition(-gates, kth=self.top_k - 1, axis=-1)[..., : self.top_k])
            scores = mx.take_along_axis(gates, chosen, axis=-1)
            scores = scores / scores.sum(axis=-1, keepdims=True)
            routed = (self.switch_mlp(x, chosen) * scores[..., None]).sum(axis=-2)
            return routed + mx.sigmoid(self.shared_expert_gate(x)) * self.shared_expert(x)

    return named_as(Normalizing, kind)


@cache
def _choosing_by_bias(kind: Any) -> type:
    """Chooses experts by their weight and a bias, which mlx-lm drops."""

    class Choosing(kind):  # type: ignore[misc]
        def __call__(self, x: mx.array) -> Any:
            gates = self.gate_act(self.gate(x).astype(mx.float32))
            biased = gates + self.correction_bias.astype(mx.float32)
            chosen = mx.stop_gradient(mx.argpartition(-biased, kth=self.k - 1, axis=-1)[..., : self.k])
            scores = mx.take_along_axis(gates, chosen, axis=-1)
            scores = scores / mx.maximum(scores.sum(axis=-1, keepdims=True), 1e-12)
            y = self.switch_mlp(x, chosen)
            y = (y * scores[..., None]).sum(axis=-2).astype(y.dtype)
            return y if self.shared_experts is None else y + self.shared_experts(x)

    return named_as(Choosing, kind)


_MODULES: dict[str, Callable[[Any, Config], None]] = {
    "ernie4_5_moe.Ernie4_5_MoeMLP": _ernie_experts,
    "falcon_h1.FalconH1Attention": _falcon_h1_attention,
    "deepseek_v32.Indexer": _deepseek_indexer,
    "gemma3.Gemma3Model": _gemma3_embedding,
    "glm_moe_dsa.Indexer": _deepseek_indexer,
    "mamba2.MambaRMSNormGated": _mamba2_norm,
    "nanochat.NanoChatModel": _nanochat_norms,
    "recurrent_gemma.Griffin": _recurrent_gemma_embedding,
    "minicpm3.MiniCPM3Model": _minicpm3_output,
    "glm.GLMAttention": _glm_rotation,
    "gpt2.GPT2Model": _gpt2_scales,
    "gpt_bigcode.GPTBigCodeModel": _gpt2_scales,
    "llama4.Attention": _llama4_norms,
    "jamba.JambaSparseMoeBlock": _jamba_experts,
    "qwen2_moe.Qwen2MoeSparseMoeBlock": _qwen2_moe_experts,
}


def _with_biases(network: Any, stored: Weights, weights: Weights) -> Weights:
    """Returns the weights that mlx-lm's `sanitize` left, with the biases for choosing experts that it dropped."""
    for path, module in network.named_modules():
        if not hasattr(module, "correction_bias"):
            continue
        name = f"{path}.correction_bias"
        bias = stored.get(name, stored.get(f"{path}.moe_statics.e_score_correction_bias"))
        weights[name] = mx.zeros(module.correction_bias.shape) if bias is None else bias.reshape(-1)
    return weights
