"""Fields of configurations that mlx-lm 0.32.2 does not read, with what it computes whatever they say.

A folder that says something else is refused: it would be another model than its makers published. Found by
`python -m tests.programs.config_fields`, which changes every field of the reference networks, one at a time.
"""

from collections.abc import Mapping
from typing import Any

from engine.errors import ModelError

Config = Mapping[str, Any]


def _every_fourth_without(text: Config) -> list[int]:
    return [int((place + 1) % 4 != 0) for place in range(int(text["num_hidden_layers"]))]


def _interval_that_counts(text: Config) -> Any:
    """The interval between layers without positions counts only where there is no list of them."""
    return text.get("no_rope_layer_interval") if text.get("no_rope_layers") else 4


# By family: a field, or a path of fields, and the value that is computed with. A function gives that of a
# configuration. A field that is missing or null says nothing.
_COMPUTED: dict[str, dict[str, Any]] = {
    "bailing_hybrid": {"kda_lower_bound": None},  # transformers: Kimi's delta rule; mlx-lm: lightning attention
    "dbrx": {"ffn_config.moe_normalize_expert_weights": 1.0},
    "deepseek_v2": {"rope_scaling.attention_factor": None},
    "deepseek_v3": {"rope_interleave": True},
    "falcon_h1": {"attention_in_multiplier": 1.0},
    "falcon_mamba": {"layer_norm_epsilon": 1e-5},
    "gemma3": {"use_bidirectional_attention": False, "final_logit_softcapping": None},
    "glm4_moe_lite": {"rope_interleave": True},
    "gpt_oss": {"swiglu_alpha": 1.702, "swiglu_limit": 7.0},
    "llama4": {"no_rope_layers": _every_fourth_without, "no_rope_layer_interval": _interval_that_counts},
    "mamba": {"layer_norm_epsilon": 1e-5},
    "mamba2": {"layer_norm_epsilon": 1e-5},
    "mimo_v2_flash": {
        "rope_parameters.sliding_attention.partial_rotary_factor": lambda text: text.get("partial_rotary_factor")
    },
    "ministral3": {"sliding_window": None},
    "nanochat": {"final_logit_softcapping": 15.0},
    "nemotron_h": {"mlp_hidden_act": "relu2", "mamba_hidden_act": "silu"},
    "olmo3": {"rope_parameters.sliding_attention.rope_theta": lambda text: text.get("rope_theta")},
    "olmoe": {"clip_qkv": None},
    "qwen2_moe": {"mlp_only_layers": [], "decoder_sparse_step": 1},
    "recurrent_gemma": {"rope_theta": 10_000.0, "partial_rotary_factor": 0.5, "rms_norm_eps": 1e-6},
}


def check_fields(text: Config, family: str) -> None:
    """Raises ModelError for a configuration with a value that mlx-lm would not compute with. text: the part of it that
    is about text, as `models.model_config.for_mlx_lm` returns it."""
    for path, computed in _COMPUTED.get(family, {}).items():
        said = _value_at(text, path)
        expected = computed(text) if callable(computed) else computed
        if said not in (None, [], expected):
            raise ModelError(
                f"config.json sets {path} to {str(said)[:40]}, which mlx-lm does not compute: choose another model"
            )


def _value_at(text: Config, path: str) -> Any:
    value: Any = text
    for name in path.split("."):
        value = value.get(name) if isinstance(value, Mapping) else None
    return value
