"""What the config.json of a head says of its decoder layers, in the words of transformers: sizes and rotation."""

from __future__ import annotations

from typing import Any

from models.drafters.head_folder import Fields, HeadFolder
from models.model_config import scaling_of, with_rotation


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
    """Returns base and scaling of the rotary embedding, where transformers 4 named them or transformers 5 does."""
    lifted = _lifted(layer)
    return lifted.number("rope_theta", 10_000.0), scaling_of(lifted.part("rope_scaling").values)


def partial_rotary_factor(layer: Fields) -> float:
    """Returns which part of each head is rotated, 1 for all of it."""
    return min(_lifted(layer).number("partial_rotary_factor", 1.0), 1.0)


def _lifted(layer: Fields) -> Fields:
    layer.part("rope_parameters")  # an object, if it is there
    return Fields(layer.path, with_rotation(dict(layer.values)))


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
