"""Turns a published configuration into the one that mlx-lm 0.32.2 reads.

transformers 5 writes other fields than the files that mlx-lm was written for: the rotation of positions lies within
`rope_parameters`, one for all layers or one for each kind of layer, some fields have another name, and what a class
always does is not written at all. Older forms pass unchanged: a field that is there under mlx-lm's name stays, but
for the base and the rotated part of heads, which are those of `rope_parameters`.
"""

from collections.abc import Callable, Mapping
from typing import Any

Config = dict[str, Any]

_FULL, _SLIDING = "full_attention", "sliding_attention"
_UNSCALED = ("default", None)

# Fields of the same meaning: under the first name that is there, they are found under all.
_SYNONYMS = (
    ("num_experts", "num_local_experts"),
    ("num_experts_per_tok", "num_experts_per_token"),
)

# What a family of transformers always computes, and does not write.
_ALWAYS: dict[str, Config] = {
    "apertus": {"mlp_bias": False, "post_norm": False, "qk_norm": True},
    "deepseek_v32": {"topk_method": "noaux_tc", "scoring_func": "sigmoid", "moe_layer_freq": 1},
    "exaone4": {"rope_scaling": None},
    "glm4_moe": {"rope_scaling": None},
    "glm_moe_dsa": {"topk_method": "noaux_tc", "scoring_func": "sigmoid", "moe_layer_freq": 1},
    "longcat_flash": {
        "attention_method": "MLA",
        "zero_expert_type": "identity",
        "mla_scale_q_lora": True,
        "mla_scale_kv_lora": True,
    },
    "minimax_m2": {"shared_intermediate_size": 0},
    "solar_open": {"intermediate_size": 0},
}

# Text models that mlx-lm knows only in the shell of another; what stays outside.
_SHELLS = {
    "gemma3n_text": "gemma3n",
    "llama4_text": "llama4",
    "qwen3_5_text": "qwen3_5",
    "qwen3_5_moe_text": "qwen3_5_moe",
}
_OUTSIDE = ("quantization", "quantization_config", "vocab_size", "eos_token_id", "tie_word_embeddings")
_MODULES = {"lfm2_vl": "lfm2-vl"}

# Families whose heads are as wide as the hidden size allows, where nothing is said; mlx-lm asks for a number.
_HEADS_FILL = ("exaone4", "exaone_moe", "falcon_h1", "glm4_moe", "kimi_linear", "mellum", "qwen3_moe", "qwen3_vl_moe")


def text_of(config: Mapping[str, Any]) -> Mapping[str, Any]:
    """Returns the part of a configuration that is about text: all of it, unless it has such a part."""
    text = config.get("text_config")
    return text if isinstance(text, dict) else config


def config_parts(config: Mapping[str, Any]) -> tuple[Mapping[str, Any], ...]:
    """Returns the whole and, where there is one, the part about text, in which models of several kinds keep their
    sizes."""
    text = text_of(config)
    return (config,) if text is config else (config, text)


def first_count(config: Mapping[str, Any], *keys: str) -> int | None:
    """Returns the first positive int under one of `keys`, in the part about text or else in the whole."""
    found = (part.get(key) for part in reversed(config_parts(config)) for key in keys)
    return next((value for value in found if type(value) is int and value > 0), None)


def for_mlx_lm(published: Mapping[str, Any]) -> Config:
    """Returns the configuration, and its text part where it has one, with the fields that mlx-lm reads."""
    config: Config = _with_floats(dict(published))
    if config.get("model_type") in _SHELLS and not _is_dense_llama4(config):
        inner = {key: value for key, value in config.items() if not key.startswith("quantization")}
        kept = {key: config[key] for key in _OUTSIDE if key in config}
        config = {**kept, "model_type": _SHELLS[config["model_type"]], "text_config": inner}
    config["model_type"] = _MODULES.get(str(config.get("model_type")), config.get("model_type"))
    text = config.get("text_config")
    if not isinstance(text, dict):
        return _for_mlx_lm(config)
    config["text_config"] = _for_mlx_lm({**text, "model_type": text.get("model_type", config.get("model_type"))})
    for name in ("vocab_size", "tie_word_embeddings"):
        if name in text:
            config.setdefault(name, text[name])
    return with_rotation(config)


def _is_dense_llama4(config: Config) -> bool:
    """Whether a model has the layers of Llama 4 and no experts, as MobileLLM-R1: mlx-lm has a file for these."""
    sizes = [config.get(name) for name in ("num_local_experts", "interleave_moe_layer_step")]
    return config.get("model_type") == "llama4_text" and 0 in sizes


def _with_floats(value: Any) -> Any:
    """Returns a value with the floats that transformers writes as {"__float__": "Infinity"}, since JSON has none."""
    if isinstance(value, dict):
        return (
            float(value["__float__"]) if set(value) == {"__float__"} else {k: _with_floats(v) for k, v in value.items()}
        )
    return [_with_floats(one) for one in value] if isinstance(value, list) else value


def _for_mlx_lm(config: Config) -> Config:
    family = str(config.get("model_type")).removesuffix("_text")
    for names in _SYNONYMS:
        found = next((config[name] for name in names if config.get(name) is not None), None)
        if found is not None:
            config = {**dict.fromkeys(names, found), **config}
    config = with_rotation(config)
    if family in _HEADS_FILL and config.get("head_dim") is None:
        config["head_dim"] = config["hidden_size"] // config["num_attention_heads"]
    config = _ALWAYS.get(family, {}) | config
    return _FAMILIES.get(family, _as_it_is)(config)


def with_rotation(config: Config) -> Config:
    """Returns the configuration with the rotation of `rope_parameters` under the names of older files: `rope_theta`,
    `rope_scaling`, `partial_rotary_factor`, and `rope_local_base_freq` for the base of layers with a window. A scaling
    that somebody added under the older name goes before, as in transformers (5.24, `modeling_rope_utils.py`)."""
    whole = config.get("rope_parameters")
    if not isinstance(whole, dict):
        return config
    by_layer = {kind: value for kind, value in whole.items() if isinstance(value, dict)}
    rope = by_layer.get(_FULL, {}) if by_layer else whole
    fields = {name: rope[name] for name in ("rope_theta", "partial_rotary_factor") if rope.get(name) is not None}
    scaling = scaling_of(rope)
    original = config.get("original_max_position_embeddings")
    if scaling is not None and scaling["type"] == "longrope" and original is not None:
        scaling["original_max_position_embeddings"] = original
    if not config.get("rope_scaling") and (scaling is not None or "rope_theta" in fields):
        fields["rope_scaling"] = scaling
    local = by_layer.get(_SLIDING, {}).get("rope_theta")
    if local is not None:
        fields |= {"rope_local_base_freq": local, "swa_rope_theta": local}
    return {**config, **fields}


def scaling_of(rope: Mapping[str, Any]) -> Config | None:
    """Returns the scaling within `rope_parameters` or `rope_scaling`, with its kind under both of its names; None where
    positions are not scaled."""
    kind = rope.get("rope_type", rope.get("type"))
    kind = "longrope" if kind == "su" else kind  # its first name
    if kind in _UNSCALED and "mrope_section" not in rope:
        return None
    return {**rope, "rope_type": kind, "type": "mrope" if kind in _UNSCALED else kind}


def context_length(config: Mapping[str, Any], declared: int | None) -> int | None:
    """Returns how many tokens a model can compute: the `declared` number, or what YaRN stretches its original context
    to, where that is more."""
    scaling = with_rotation(dict(config)).get("rope_scaling")
    if declared is None or not isinstance(scaling, dict):
        return declared
    kind = scaling.get("rope_type", scaling.get("type"))
    original = scaling.get("original_max_position_embeddings", config.get("original_max_position_embeddings"))
    if type(original) is not int or original < 1:
        return declared
    factor = scaling.get("factor")
    if kind != "yarn" or not isinstance(factor, int | float) or not 1 <= factor <= 1024:
        return declared
    return max(declared, int(original * factor))


def _as_it_is(config: Config) -> Config:
    return config


def _pattern_length(config: Config) -> Config:
    """Every so many layers one sees everything: read off `layer_types`."""
    kinds = config.get("layer_types")
    if isinstance(kinds, list) and _FULL in kinds:
        config["sliding_window_pattern"] = kinds.index(_FULL) + 1
    elif isinstance(kinds, list):
        config["sliding_window_pattern"] = len(kinds) + 1
    return config


def _mimo_v2_flash(config: Config) -> Config:
    kinds, feeds = config.get("layer_types"), config.get("mlp_layer_types")
    if not isinstance(kinds, list) or not isinstance(feeds, list) or "hybrid_layer_pattern" in config:
        return config
    heads = {
        "num_attention_heads": "swa_num_attention_heads",
        "head_dim": "swa_head_dim",
        "v_head_dim": "swa_v_head_dim",
    }
    return {
        "add_swa_attention_sink_bias": True,
        "add_full_attention_sink_bias": False,
        "n_shared_experts": None,
        "topk_method": "noaux_tc",
        "scoring_func": "sigmoid",
        "hybrid_layer_pattern": [int(kind == _SLIDING) for kind in kinds],
        "moe_layer_freq": [int(kind == "sparse") for kind in feeds],
        "sliding_window_size": config["sliding_window"],
        "layernorm_epsilon": config["rms_norm_eps"],
        "swa_num_key_value_heads": 2 * config["num_key_value_heads"],
        **{swa: config[name] for name, swa in heads.items()},
        **config,
    }


def _also(**names: str) -> Callable[[Config], Config]:
    """Returns what gives fields the values of others, where they are missing."""
    return lambda config: {**{name: config[other] for name, other in names.items() if other in config}, **config}


def _exaone4(config: Config) -> Config:
    pattern, kinds = config.get("sliding_window_pattern"), config.get("layer_types")
    if isinstance(pattern, int) and isinstance(kinds, list):
        config["sliding_window_pattern"] = "".join("G" if kind == _FULL else "L" for kind in kinds[:pattern])
    return config


def _exaone_moe(config: Config) -> Config:
    if "mlp_layer_types" in config:
        config.setdefault("is_moe_layer", [kind == "sparse" for kind in config["mlp_layer_types"]])
    return config


def _dense_first(config: Config) -> Config:
    kinds = config.get("mlp_layer_types")
    if isinstance(kinds, list):
        config.setdefault("first_k_dense_replace", kinds.index("sparse") if "sparse" in kinds else len(kinds))
    return config


def _gpt_bigcode(config: Config) -> Config:
    return config | ({"n_inner": 4 * config["n_embd"]} if config.get("n_inner") is None else {})


def _gpt_neox(config: Config) -> Config:
    names = {"rotary_emb_base": "rope_theta", "rotary_pct": "partial_rotary_factor"}
    return config | {old: config[new] for old, new in names.items() if new in config}


def _granite_hybrid(config: Config) -> Config:
    names = {"linear_attention": "mamba", _FULL: "attention"}
    return config | {"layer_types": [names.get(kind, kind) for kind in config.get("layer_types") or ()]}


def _mamba2(config: Config) -> Config:
    if "expand" in config:
        config.setdefault("intermediate_size", int(config["expand"] * config["hidden_size"]))
    return config


def _minimax(config: Config) -> Config:
    width = config.get("head_dim") or config["hidden_size"] // config["num_attention_heads"]
    config.setdefault("rotary_dim", int(width * config.get("partial_rotary_factor", 1.0)))
    return config


def _minimax_m3(config: Config) -> Config:
    if "partial_rotary_factor" in config and config.get("head_dim"):
        config["rotary_dim"] = int(config["head_dim"] * config["partial_rotary_factor"])
    return config


def _phi3(config: Config) -> Config:
    """LongRoPE had other names in the first files; transformers knows no other scaling of these factors."""
    scaling = config.get("rope_scaling")
    if isinstance(scaling, dict) and "short_factor" in scaling:
        config["rope_scaling"] = {**scaling, "type": "longrope", "rope_type": "longrope"}
    return config


def _kimi_linear(config: Config) -> Config:
    kinds = config.get("layer_types")
    if isinstance(kinds, list) and "linear_attn_config" not in config:
        config["linear_attn_config"] = {
            "kda_layers": [place + 1 for place, kind in enumerate(kinds) if kind == "linear_attention"],
            "num_heads": config["linear_num_heads"],
            "head_dim": config["linear_head_dim"],
            "short_conv_kernel_size": config["linear_conv_kernel_dim"],
        }
        config.setdefault("rope_theta", 10_000.0)  # read, and then not used: positions are not rotated
    return _dense_first(config)


def _gemma4(config: Config) -> Config:
    """Heads of full layers: under `per_layer_config` from transformers 5.22 on."""
    per_layer, kinds = config.get("per_layer_config"), config.get("layer_types")
    if isinstance(per_layer, dict) and isinstance(kinds, list) and _FULL in kinds:
        layers = {int(place): fields for place, fields in per_layer.items()}
        full = layers.get(kinds.index(_FULL), {})
        names = {"global_head_dim": "head_dim", "num_global_key_value_heads": "num_key_value_heads"}
        config |= {name: full.get(of, config.get(of)) for name, of in names.items() if full.get(of) is not None}
        config.setdefault("global_head_dim", config.get("head_dim"))
    return config


_FAMILIES: dict[str, Callable[[Config], Config]] = {
    "deepseek_v32": _dense_first,
    "exaone": _also(num_layers="num_hidden_layers", layer_norm_epsilon="rms_norm_eps"),
    "exaone4": _exaone4,
    "exaone_moe": _exaone_moe,
    "gemma3": _pattern_length,
    "gemma4": _gemma4,
    "glm4_moe_lite": _dense_first,
    "glm_moe_dsa": _dense_first,
    "gpt2": _also(n_ctx="n_positions"),
    "gpt_bigcode": _gpt_bigcode,
    "gpt_neox": _gpt_neox,
    "granitemoehybrid": _granite_hybrid,
    "kimi_linear": _kimi_linear,
    "lfm2": _also(block_dim="hidden_size"),
    "mamba2": _mamba2,
    "mimo_v2_flash": _mimo_v2_flash,
    "minimax_m2": _minimax,
    "phi3": _phi3,
    "minimax_m3_vl": _minimax_m3,
}
