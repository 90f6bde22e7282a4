"""What the config.json of a head says of its decoder layers, in the words of transformers: sizes and rotation."""

from __future__ import annotations

from typing import Any

from models.drafters.head_folder import Fields


def sizes_of(layer: Fields) -> dict[str, int]:
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


def rope_of(layer: Fields) -> tuple[float, dict[str, Any] | None]:
    """Returns base and scaling of the rotary embedding: transformers 4 names them apart, transformers 5 within
    `rope_parameters`."""
    whole = layer.part("rope_parameters")
    theta = whole.number("rope_theta", layer.number("rope_theta", 10_000.0))
    scaling = {**layer.part("rope_scaling").values, **whole.values}
    kind = scaling.get("rope_type", scaling.get("type", "default"))
    return theta, (scaling if kind != "default" else None)


def partial_rotary_factor(layer: Fields) -> float:
    """Returns which part of each head is rotated, 1 for all of it."""
    parts = layer.part("rope_parameters").number("partial_rotary_factor", 1.0)
    return min(parts, layer.number("partial_rotary_factor", 1.0))
