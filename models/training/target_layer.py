"""What a head in training takes from the target: the sizes of its layers, some of their weights, and its last norm.

Names are those of llama's layers, which most architectures share; what is named or shaped otherwise is left out.
"""

from collections.abc import Mapping
from typing import Any

import mlx.core as mx
import mlx.nn as nn

from engine.errors import FitError
from engine.target.model_layout import embed, layers_of, output_rows
from models.loader import Loaded
from models.model_config import first_count, text_of, with_rotation

FINAL_NORMS = ("norm", "ln_f", "final_layernorm", "norm_f")  # as architectures call the norm after the last layer
SPREAD = 0.02  # of weights that begin at random


def points(layers: int) -> tuple[int, ...]:
    """Returns which hidden states a head reads: low, middle and high (SafeAILab's choice), of any number of layers."""
    return tuple(sorted((min(2, layers - 1), layers // 2, max(layers - 3, 0))))


def layer_fields(target: Loaded, hidden: int) -> dict[str, Any]:
    """Returns the sizes of a layer like the target's, by the names of transformers. hidden: of a hidden state.

    Raises FitError if the embedding is narrower or wider than the hidden states.
    """
    if int(embed(target.network)(mx.zeros(1, mx.int32)).shape[-1]) != hidden:
        raise FitError("the target's embedding is not as wide as its hidden states: choose --kind medusa or draft")
    config = with_rotation({**target.folder.config, **text_of(target.folder.config)})
    heads = first_count(config, "num_attention_heads") or max(1, hidden // 64)
    return {
        "hidden_size": hidden,
        "intermediate_size": min(first_count(config, "intermediate_size") or 4 * hidden, 4 * hidden),
        "num_attention_heads": heads,
        "num_key_value_heads": first_count(config, "num_key_value_heads") or heads,
        "head_dim": first_count(config, "head_dim") or max(2, hidden // heads),
        "vocab_size": target.model.vocabulary,
        "rms_norm_eps": _number(config, "rms_norm_eps", 1e-5),
        "rope_theta": _number(config, "rope_theta", 10_000.0),
        "max_position_embeddings": first_count(config, "max_position_embeddings") or 8192,
    }


def _number(config: Mapping[str, Any], key: str, otherwise: float) -> float:
    value = config.get(key)
    return float(value) if isinstance(value, int | float) and value > 0 else otherwise


def copy_layer(own: Any, theirs: Any) -> None:
    """Copies the weights of the target's layer `theirs` to the linear maps and norms of `own` with their names and
    shapes."""
    for name, module in own.named_modules():
        if "weight" in module:
            copy_weight(module, weight_at(theirs, name))


def weight_at(module: Any, name: str) -> mx.array | None:
    """Returns the weight of the linear map or the norm `name` below `module`, dequantized; None for anything else."""
    for part in name.split("."):
        module = getattr(module, part, None)
    if not isinstance(module, nn.Linear | nn.QuantizedLinear | nn.RMSNorm):
        return None
    weight: mx.array = module.weight
    if not isinstance(module, nn.QuantizedLinear):
        return weight
    return mx.dequantize(weight, module.scales, module.get("biases"), module.group_size, module.bits, module.mode)


def copy_weight(module: Any, weight: mx.array | None) -> None:
    """Makes `weight` the weight of `module`, in float32, if there is one of its shape."""
    if weight is not None and weight.shape == module.weight.shape:
        module.weight = weight.astype(mx.float32)


def begin_like(head: Any, target: Loaded) -> None:
    """Gives a head the target's output rows of the tokens that it knows and the target's last norm, and has `fc`, whose
    other weights are small and random, pass on the highest of the features."""
    hidden = head.config.hidden_size
    copy_weight(head.lm_head, output_rows(target.network, head.ids))
    copy_weight(head.norm, final_norm(target.network, hidden))
    fused = mx.random.normal(head.fc.weight.shape, scale=SPREAD / hidden**0.5)
    fused[:, -hidden:] = fused[:, -hidden:] + mx.eye(hidden)
    head.fc.weight = fused


def final_norm(network: Any, hidden: int) -> mx.array | None:
    """Returns the weight (hidden,) of the norm after the target's last layer, None where none is found."""
    inside = {id(part) for layer in layers_of(network) for part in layer.modules()}
    for name, module in network.named_modules():
        if name.rpartition(".")[2] in FINAL_NORMS and id(module) not in inside:
            weight = module.get("weight")
            if weight is not None and weight.shape == (hidden,) and isinstance(module, nn.RMSNorm):
                return mx.array(weight)
    return None
