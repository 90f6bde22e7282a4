"""The config.json of heads with decoder layers of their own, in the words of transformers: EAGLE-3 and blocks."""

from collections.abc import Mapping
from typing import Any

import mlx.core as mx

from engine.drafters.head_layers import HeadConfig
from engine.errors import ModelError
from models.drafters.head_folder import ANOTHER_DRAFTER, Fields, HeadFolder
from models.drafters.target_match import TargetShape, check_vocabulary, check_width, misfit
from models.model_config import scaling_of, with_rotation


def fields_in(
    folder: HeadFolder, layer: Fields, tensors: Mapping[str, mx.array], taps: tuple[int, ...], target: TargetShape
) -> dict[str, Any]:
    """Returns the fields of a `HeadConfig`, without draft vocabulary and windows. layer: where config.json describes
    the layers. tensors: those that the head has, by its network's names. taps: which states of the target it reads.

    Raises ModelError for nonsense, PairError where sizes are not the target's.
    """
    if not 0 <= min(taps) <= max(taps) <= target.layers:
        raise misfit(folder.path, "number of layers", f"reads layer {max(taps)}; {target.name} has {target.layers}")
    fused, width = tensors.get("fc.weight"), target.states(taps)
    if fused is not None and fused.ndim == 2 and "fc.scales" not in tensors:
        check_width(folder.path, fused.shape[1], width, target)
    sizes, own_embedding = sizes_of(layer), "embed_tokens.weight" in tensors
    if not own_embedding:
        check_width(folder.path, sizes["hidden_size"], target.hidden, target)
    check_vocabulary(folder.path, sizes["vocab_size"], target)
    rope = rope_of(layer)
    return {
        "taps": taps,
        "feature_size": width,
        **sizes,
        "rms_norm_eps": layer.number("rms_norm_eps", 1e-6),
        "rope_theta": rope["rope_theta"],
        "rope_scaling": rope["rope_scaling"],
        "attention_bias": layer.flag("attention_bias"),
        "own_embedding": own_embedding,
    }


def written_fields(config: HeadConfig, model_type: str) -> dict[str, object]:
    """Returns what describes the layers of a head in the Speculators layout."""
    sizes = ("hidden_size", "intermediate_size", "num_attention_heads", "num_key_value_heads", "head_dim")
    others = ("vocab_size", "rms_norm_eps", "rope_theta", "rope_scaling", "max_position_embeddings", "attention_bias")
    return {
        "model_type": model_type,
        "num_hidden_layers": len(config.windows),
        "hidden_act": "silu",
        "mlp_bias": False,
        "tie_word_embeddings": False,
        "torch_dtype": "float16",
        **{name: getattr(config, name) for name in (*sizes, *others)},
    }


def refuse_unsupported(folder: HeadFolder, heads: str, layer: Fields, others: Mapping[str, bool]) -> None:
    """Raises ModelError for a head that computes something that Redline's network for such `heads` does not. others:
    what only heads of this kind may have, and whether this one has it."""
    unsupported = {
        "an activation other than SiLU": layer.get("hidden_act", "silu") != "silu",
        "partly rotated heads": rope_of(layer)["partial_rotary_factor"] != 1.0,
        **others,
    }
    for what, is_so in unsupported.items():
        if is_so:
            raise ModelError(f"{folder.path}: Redline does not support {heads} with {what}; {ANOTHER_DRAFTER}")


def sizes_of(layer: Fields) -> dict[str, Any]:
    """Returns the sizes of a decoder layer, by the names of transformers. Raises ModelError for nonsense."""
    hidden, heads = layer.count("hidden_size"), layer.count("num_attention_heads")
    shared, size = layer.count("num_key_value_heads", heads), layer.count("head_dim", max(hidden // heads, 1))
    if heads % shared:
        raise layer.wrong("num_key_value_heads", f"a divisor of {heads}")
    if size % 2:
        raise layer.wrong("head_dim", "an even number")
    return {
        "hidden_size": hidden,
        "intermediate_size": layer.count("intermediate_size"),
        "num_attention_heads": heads,
        "num_key_value_heads": shared,
        "head_dim": size,
        "vocab_size": layer.count("vocab_size"),
        "max_position_embeddings": layer.count("max_position_embeddings", 8192),
    }


def rope_of(layer: Fields) -> dict[str, Any]:
    """Returns base, scaling and rotated part (1 for whole heads) of the rotary embedding by the names of transformers
    4, whether config.json has those or the ones of transformers 5. Raises ModelError for nonsense."""
    layer.part("rope_parameters")  # an object, if it is there
    found = Fields(layer.path, with_rotation(dict(layer.values)))
    return {
        "rope_theta": found.number("rope_theta", 10_000.0),
        "rope_scaling": scaling_of(found.part("rope_scaling").values),
        "partial_rotary_factor": min(found.number("partial_rotary_factor", 1.0), 1.0),
    }


def layer_count(folder: HeadFolder, layer: Fields, otherwise: int | None = None) -> int:
    """Returns the number of decoder layers. Raises ModelError for more than the folder has tensors."""
    count = layer.count("num_hidden_layers", otherwise)
    if count > len(folder.tensors):
        raise layer.wrong("num_hidden_layers", f"at most the {len(folder.tensors)} tensors that are there")
    return count


def windows_of(layer: Fields, layers: int, window: int | None = None) -> tuple[int | None, ...]:
    """Returns how many tokens each of the `layers` sees, None for all. window: of all those with one, where it is known
    from elsewhere than `sliding_window`. Raises ModelError for nonsense."""
    kinds: Any = layer.get("layer_types") or ["full_attention"] * layers
    if not isinstance(kinds, list) or len(kinds) != layers or not all(isinstance(kind, str) for kind in kinds):
        raise layer.wrong("layer_types", f"a list of {layers} kinds of attention")
    if "sliding_attention" not in kinds:
        return (None,) * layers
    window = window or layer.count("sliding_window")
    return tuple(window if kind == "sliding_attention" else None for kind in kinds)
