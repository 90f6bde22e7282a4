"""The config.json of an EAGLE-3 head: reads any of its layouts, writes that of Speculators.

Which layer an index means, all three as points in the sense of `engine.target.layer_taps`:

    eagle_aux_hidden_state_layer_ids   at the top: the INPUT of that layer (vllm-project/vllm,
                                       `vllm/model_executor/models/llama.py`); within eagle_config: the OUTPUT
                                       (sgl-project/sglang, `python/sglang/srt/models/llama.py`, adds 1)
    neither, or none in it             the inputs of layers 2, n // 2 and n - 3 (SafeAILab/EAGLE,
                                       `eagle/model/modeling_llama_kv.py`; vLLM, Speculators and, where its list is
                                       empty, NVIDIA's ModelOpt alike)
"""

from __future__ import annotations

from collections.abc import Mapping

import mlx.core as mx

from engine.drafters.eagle3 import Eagle3Config
from engine.errors import ModelError, PairError
from models.drafters.drafter_kind import speculator_algorithm
from models.drafters.head_folder import Fields, HeadFolder, speculators_fields
from models.drafters.layer_config import layer_count, partial_rotary_factor, rope_of, sizes_of, windows_of
from models.drafters.target_match import TargetShape, check_vocabulary, check_width

_OTHER = "choose another head"


def config_of(folder: HeadFolder, tensors: Mapping[str, mx.array], target: TargetShape) -> Eagle3Config:
    """Returns sizes and switches of the head in `folder`. tensors: those that it has, as the Speculators layout names
    them.

    They tell what no field tells everywhere. Who norms queries and keys is said by `model_type` in one layout and by
    `architectures` in the other; NVIDIA has `norm_before_fc` within eagle_config (vllm-project/vllm, PR 42143). A head
    of the whole vocabulary without an output matrix shares the target's (SGLang, `llama_eagle3.py`; vLLM,
    `v1/spec_decode/llm_base_proposer.py`). Raises ModelError for a head of another make or nonsense, PairError for one
    whose sizes are not the target's.
    """
    top = folder.config
    layer = top.part("transformer_layer_config") if top.get("transformer_layer_config") is not None else top
    _check_layer(folder, layer)
    points = _points(folder, target.layers)
    width = _check_sizes(folder, layer, points, tensors, target)
    theta, scaling = rope_of(layer)
    vocabulary = layer.count("vocab_size")
    known = top.count("draft_vocab_size", vocabulary)
    return Eagle3Config(
        points=points,
        feature_size=width,
        **sizes_of(layer),
        draft_vocab_size=known,
        rms_norm_eps=layer.number("rms_norm_eps", 1e-6),
        rope_theta=theta,
        rope_scaling=scaling,
        norm_before_residual=top.flag("norm_before_residual"),
        attention_bias=layer.flag("attention_bias"),
        qk_norm="layers.0.self_attn.q_norm.weight" in tensors,
        norm_before_fc=top.flag("norm_before_fc") or "input_norm.weight" in tensors,
        fc_norm=top.flag("fc_norm"),
        norm_output=top.flag("norm_output"),
        own_output=known != vocabulary or "lm_head.weight" in tensors,
        own_embedding="embed_tokens.weight" in tensors and trains_embedding(top),
        windows=windows_of(layer, layer_count(folder, layer, 1)),
        mask_id=top.token("mask_token_id", vocabulary) if speculator_algorithm(top.values) == "peagle" else None,
    )


def trains_embedding(top: Fields) -> bool:
    """Whether a head has an embedding that was trained with it, so that it may differ from the target's."""
    always = speculator_algorithm(top.values) == "peagle"
    return always if top.get("embed_requires_grad") is None else top.flag("embed_requires_grad")


def _check_sizes(
    folder: HeadFolder,
    layer: Fields,
    points: tuple[int, ...],
    tensors: Mapping[str, mx.array],
    target: TargetShape,
) -> int:
    """Compares layers, widths and vocabulary with the target's; returns the width of the features."""
    if max(points) > target.layers:
        raise PairError(
            f"{folder.path}: different number of layers "
            f"(reads layer {max(points)}; {target.name} has {target.layers}); "
            "choose a drafter that was made for this target"
        )
    fused, states = tensors.get("fc.weight"), target.states(points)
    if fused is None or fused.ndim != 2:
        raise ModelError(f"{folder.path}: lacks the tensor 'fc.weight' of an EAGLE-3 head; {_OTHER}")
    if "fc.scales" not in tensors:
        check_width(folder.path, fused.shape[1], states, target)
    if not trains_embedding(folder.config):
        check_width(folder.path, layer.count("hidden_size"), target.hidden, target)
    check_vocabulary(folder.path, layer.count("vocab_size"), target)
    return states


def _check_layer(folder: HeadFolder, layer: Fields) -> None:
    """Refuse a head whose layer computes something else than `engine.drafters.eagle3` does."""
    middle = folder.config.part("eagle_config").values
    unsupported = {
        f"a {layer.get('model_type')} layer": layer.get("model_type", "llama") not in ("llama", "qwen3"),
        "an activation other than SiLU": layer.get("hidden_act", "silu") != "silu",
        "biases in its feed-forward part": layer.flag("mlp_bias"),
        "partly rotated heads": partial_rotary_factor(layer) != 1.0,
        "no sight of the target's middle layers": middle.get("use_aux_hidden_state") is False,
    }
    for what, is_so in unsupported.items():
        if is_so:
            raise ModelError(f"{folder.path}: Redline does not support EAGLE-3 heads with {what}; {_OTHER}")


def _points(folder: HeadFolder, layers: int) -> tuple[int, ...]:
    """Which states the head reads, as points, in the order of layers: so they are gathered in every engine, however
    the list stands (NVIDIA's ModelOpt writes that of a set)."""
    inputs = folder.config.places("eagle_aux_hidden_state_layer_ids")
    outputs = folder.config.part("eagle_config").places("eagle_aux_hidden_state_layer_ids")
    if inputs:
        return tuple(sorted(inputs))
    if outputs:
        return tuple(sorted(place + 1 for place in outputs))
    if layers < 3:
        raise PairError(
            f"{folder.path}: different number of layers (reads layers 2, n/2 and n-3; the target has {layers} layers); "
            "choose a drafter that was made for this target"
        )
    return tuple(sorted((2, layers // 2, layers - 3)))


def readings(folder: HeadFolder, config: Eagle3Config) -> list[tuple[str, tuple[int, ...], bool]]:
    """Returns the ways to read a head whose config.json leaves them open: what each does, its points, and whether the
    normed state is added to. The first is `config`'s.

    Sources disagree about two things: ids within eagle_config are outputs of layers to SGLang and inputs to vLLM, and
    where nothing says `norm_before_residual`, it is true to vLLM and false to Speculators and SafeAILab, except of
    P-EAGLE heads, where it is false to all.
    """
    top = folder.config
    nested = top.part("eagle_config").places("eagle_aux_hidden_state_layer_ids")
    layers = [("layer ids as outputs", config.points)]
    if nested and not top.places("eagle_aux_hidden_state_layer_ids"):
        layers.append(("layer ids as inputs", tuple(point - 1 for point in config.points)))
    residuals = [("the plain residual", config.norm_before_residual)]
    if top.get("norm_before_residual") is None and config.mask_id is None:
        residuals.append(("the normed residual", True))
    both = len(layers) > 1 and len(residuals) > 1
    return [
        (f"{ids} and {residual}" if both else ids if len(layers) > 1 else residual, points, normed)
        for ids, points in layers
        for residual, normed in residuals
    ]


def fields_of(config: Eagle3Config, about: Mapping[str, object], dtype: str) -> dict[str, object]:
    """config.json of such a head in the Speculators layout. about: what it says under "redline"."""
    return {
        **speculators_fields("eagle3", "Eagle3Speculator", about),
        "draft_vocab_size": config.draft_vocab_size,
        "eagle_aux_hidden_state_layer_ids": list(config.points),
        "norm_before_residual": config.norm_before_residual,
        "norm_before_fc": config.norm_before_fc,
        "fc_norm": config.fc_norm,
        "norm_output": config.norm_output,
        "target_hidden_size": None,
        "tie_word_embeddings": False,
        "torch_dtype": dtype,
        "transformer_layer_config": {**_layer_fields(config), "torch_dtype": dtype},
    }


def _layer_fields(config: Eagle3Config) -> dict[str, object]:
    return {
        "model_type": "qwen3" if config.qk_norm else "llama",
        "num_hidden_layers": len(config.windows),
        "hidden_size": config.hidden_size,
        "intermediate_size": config.intermediate_size,
        "num_attention_heads": config.num_attention_heads,
        "num_key_value_heads": config.num_key_value_heads,
        "head_dim": config.head_dim,
        "hidden_act": "silu",
        "attention_bias": config.attention_bias,
        "mlp_bias": False,
        "rms_norm_eps": config.rms_norm_eps,
        "rope_theta": config.rope_theta,
        "rope_scaling": config.rope_scaling,
        "max_position_embeddings": config.max_position_embeddings,
        "vocab_size": config.vocab_size,
        "tie_word_embeddings": False,
    }
