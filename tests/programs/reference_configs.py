"""The configurations of the reference networks: as published, shrunk until a network has some ten thousand numbers.

`COMMON` answers the fields that most families share, where transformers' class of a family has them. A reference is
named after the architecture of mlx-lm that it is for, and after what is special about it. Thresholds lie within the
text: windows of `WINDOW` tokens, contexts that are scaled past `ORIGINAL`.
"""

from __future__ import annotations

from typing import Any

Config = dict[str, Any]

VOCABULARY = 64
TOKENS = 48
WINDOW = 12
ORIGINAL = 24  # tokens of the shorter text too: what is chosen by the length of a text is right in both
SLIDING, FULL, LINEAR = "sliding_attention", "full_attention", "linear_attention"

COMMON: Config = {
    "vocab_size": VOCABULARY,
    "hidden_size": 32,
    "intermediate_size": 32,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "head_dim": 8,
    "max_position_embeddings": 256,
    "n_embd": 32,
    "n_layer": 2,
    "n_head": 4,
    "n_positions": 256,
    "tie_word_embeddings": False,
    "initializer_range": 0.02,
    "bos_token_id": 1,
    "eos_token_id": 2,
    "pad_token_id": 0,
    "q_lora_rank": 24,
    "kv_lora_rank": 16,
    "qk_rope_head_dim": 8,
    "qk_nope_head_dim": 8,
    "v_head_dim": 8,
    "num_experts": 4,
    "num_local_experts": 4,
    "n_routed_experts": 4,
    "num_experts_per_tok": 2,
    "n_shared_experts": 1,
    "num_shared_experts": 1,
    "moe_intermediate_size": 16,
    "shared_expert_intermediate_size": 16,
    "shared_intermediate_size": 16,
    "first_k_dense_replace": 1,
    "n_group": 2,
    "topk_group": 1,
    "linear_num_key_heads": 2,
    "linear_num_value_heads": 4,
    "linear_key_head_dim": 8,
    "linear_value_head_dim": 8,
}


def rope(theta: float = 10_000.0, kind: str = "default", **fields: object) -> Config:
    return {"rope_parameters": {"rope_type": kind, "rope_theta": theta, **fields}}


def yarn(theta: float, factor: float = 4.0, **fields: object) -> Config:
    fields = {"original_max_position_embeddings": ORIGINAL, **fields}
    return rope(theta, "yarn", factor=factor, **fields) | {"max_position_embeddings": int(factor * ORIGINAL)}


def longrope(theta: float, size: int, **fields: object) -> Config:
    """size: how many frequencies there are."""
    factors = {
        "short_factor": [1.0 + 0.1 * place for place in range(size)],
        "long_factor": [1.0 + place for place in range(size)],
    }
    scaled = rope(theta, "longrope", original_max_position_embeddings=ORIGINAL, **factors, **fields)
    return scaled | {"max_position_embeddings": 4 * ORIGINAL, "original_max_position_embeddings": ORIGINAL}


LLAMA3: Config = rope(
    500_000.0,
    "llama3",
    factor=8.0,
    low_freq_factor=1.0,
    high_freq_factor=4.0,
    original_max_position_embeddings=ORIGINAL,
)
PATTERN: Config = {"num_hidden_layers": 4, "layer_types": [SLIDING, SLIDING, SLIDING, FULL], "sliding_window": WINDOW}
BY_LAYER: Config = {
    "rope_parameters": {
        SLIDING: {"rope_type": "default", "rope_theta": 10_000.0},
        FULL: {"rope_type": "linear", "rope_theta": 1_000_000.0, "factor": 8.0},
    }
}
HYBRID: Config = {"num_hidden_layers": 4, "layer_types": [LINEAR, LINEAR, LINEAR, FULL]}
LATENT_YARN: Config = {"num_key_value_heads": 4} | yarn(
    10_000.0, mscale=0.707, mscale_all_dim=1.0, beta_fast=32, beta_slow=1
)

# By name of the reference: the model type of transformers, and what its configuration says besides `COMMON`.
REFERENCES: dict[str, tuple[str, Config]] = {
    "afmoe": ("afmoe", PATTERN | {"num_dense_layers": 1, "mup_enabled": True, "route_scale": 2.0} | rope(50_000.0)),
    "apertus": ("apertus", LLAMA3),
    "bailing_hybrid": (
        "bailing_hybrid",
        HYBRID
        | {
            "layer_group_size": 4,
            "num_nextn_predict_layers": 0,
            "linear_head_dim": 8,
            "linear_num_heads": 4,
            "num_experts_per_token": 2,
            "num_expert_group": 2,
            "num_key_value_heads": 4,
            "mlp_layer_types": ["dense", "sparse", "sparse", "sparse"],
        },
    ),
    "bitnet": ("bitnet", rope(500_000.0)),
    "cohere": ("cohere", rope(8_000_000.0) | {"tie_word_embeddings": True, "use_qk_norm": True, "logit_scale": 0.8}),
    "cohere2": ("cohere2", PATTERN | rope(50_000.0) | {"tie_word_embeddings": True, "logit_scale": 0.8}),
    "dbrx": (
        "dbrx",
        {
            **rope(500_000.0),  # transformers reads it here alone, the makers in attn_config
            "d_model": 32,
            "n_heads": 4,
            "n_layers": 2,
            "max_seq_len": 256,
            "attn_config": {"kv_n_heads": 2, "clip_qkv": 2.0, "rope_theta": 500_000.0},
            "ffn_config": {"ffn_hidden_size": 16, "moe_num_experts": 4, "moe_top_k": 2, "hidden_size": 32},
        },
    ),
    "deepseek_v2": (
        "deepseek_v2",
        LATENT_YARN | {"topk_method": "group_limited_greedy", "routed_scaling_factor": 4.0},
    ),
    "deepseek_v2_lite": (
        "deepseek_v2",
        LATENT_YARN | {"q_lora_rank": None, "topk_method": "greedy", "n_group": 1, "topk_group": 1},
    ),
    "deepseek_v3": ("deepseek_v3", LATENT_YARN | {"num_nextn_predict_layers": 0}),
    "deepseek_v32": (
        "deepseek_v32",
        LATENT_YARN
        | {"index_topk": 16, "index_head_dim": 16, "index_n_heads": 16, "mlp_layer_types": ["dense", "sparse"]},
    ),
    "dots1": (
        "dots1",
        rope(10_000_000.0) | {"norm_topk_prob": True, "routed_scaling_factor": 2.5, "layer_types": [FULL] * 2},
    ),
    "dots1_sliding": (
        "dots1",
        rope(10_000_000.0)
        | {"norm_topk_prob": True, "layer_types": [FULL, SLIDING], "sliding_window": WINDOW, "max_window_layers": 1},
    ),
    "ernie4_5": ("ernie4_5", rope(500_000.0) | {"tie_word_embeddings": True}),
    "ernie4_5_moe": (
        "ernie4_5_moe",
        rope(500_000.0)
        | {
            "moe_k": 2,
            "moe_num_experts": 4,
            "moe_num_shared_experts": 1,
            "moe_layer_start_index": 1,
            "moe_layer_end_index": 1,
        },
    ),
    "exaone": ("exaone", rope(1_000_000.0) | {"tie_word_embeddings": True}),
    "exaone4": ("exaone4", PATTERN | LLAMA3),
    "exaone_moe": (
        "exaone_moe",
        PATTERN | rope(1_000_000.0) | {"mlp_layer_types": ["dense", "sparse", "sparse", "sparse"]},
    ),
    "falcon_h1": (
        "falcon_h1",
        rope(100_000_000_000.0)
        | {
            "mamba_d_ssm": 32,
            "mamba_n_heads": 4,
            "mamba_d_head": 8,
            "mamba_n_groups": 2,
            "mamba_d_state": 16,
            "mamba_chunk_size": 16,
            "embedding_multiplier": 5.5,
            "lm_head_multiplier": 0.5,
            "mlp_multipliers": [0.8, 0.5],
            "key_multiplier": 0.4,
            "attention_out_multiplier": 0.9,
            "attention_in_multiplier": 1.0,
            "ssm_multipliers": [0.7, 0.5, 0.3, 0.5, 0.4],
            "ssm_in_multiplier": 1.25,
            "ssm_out_multiplier": 0.5,
        },
    ),
    "gemma": ("gemma", {"tie_word_embeddings": True, "hidden_act": "gelu_pytorch_tanh"}),
    "gemma2": (
        "gemma2",
        {
            "tie_word_embeddings": True,
            "sliding_window": WINDOW,
            "query_pre_attn_scalar": 12,
            "layer_types": [SLIDING, FULL],
            "final_logit_softcapping": 3.0,
            "attn_logit_softcapping": 5.0,
        },
    ),
    "gemma3_text": (
        "gemma3_text",
        PATTERN | BY_LAYER | {"tie_word_embeddings": True, "query_pre_attn_scalar": 12, "_sliding_window_pattern": 4},
    ),
    "gemma3n": (
        "gemma3n_text",
        {
            "num_hidden_layers": 4,
            "layer_types": [SLIDING, FULL, SLIDING, FULL],
            "sliding_window": WINDOW,
            "num_kv_shared_layers": 2,
            "vocab_size_per_layer_input": VOCABULARY,
            "hidden_size_per_layer_input": 8,
            "intermediate_size": [32] * 4,
            "laurel_rank": 8,
            "activation_sparsity_pattern": [0.5, 0.0, 0.0, 0.0],
            "tie_word_embeddings": True,
        },
    ),
    "gemma4_text": (
        "gemma4_text",
        {
            "num_hidden_layers": 4,
            "layer_types": [SLIDING, FULL, SLIDING, FULL],
            "sliding_window": WINDOW,
            "num_kv_shared_layers": 2,
            "vocab_size_per_layer_input": VOCABULARY,
            "hidden_size_per_layer_input": 8,
            "head_dim": 8,
            "global_head_dim": 16,
            "per_layer_config": {"01": {"head_dim": 16}, "03": {"head_dim": 16}},
            "final_logit_softcapping": 3.0,
            "tie_word_embeddings": True,
        },
    ),
    "gemma4_text_moe": (
        "gemma4_text",
        {
            "layer_types": [SLIDING, FULL],
            "sliding_window": WINDOW,
            "hidden_size_per_layer_input": 0,
            "moe_intermediate_size": 16,
            "enable_moe_block": True,
            "num_experts": 4,
            "top_k_experts": 2,
            "attention_k_eq_v": True,
            "num_global_key_value_heads": 1,
            "final_logit_softcapping": 3.0,
            "tie_word_embeddings": True,
        },
    ),
    "glm": ("glm", rope(partial_rotary_factor=0.5) | {"attention_bias": True}),
    "glm4": ("glm4", rope(partial_rotary_factor=0.5) | {"attention_bias": True}),
    "glm4_moe": (
        "glm4_moe",
        rope(1_000_000.0, partial_rotary_factor=0.5)
        | {"attention_bias": True, "use_qk_norm": True, "routed_scaling_factor": 2.5, "num_nextn_predict_layers": 0},
    ),
    "glm4_moe_lite": (
        "glm4_moe_lite",
        rope(1_000_000.0)
        | {"mlp_layer_types": ["dense", "sparse"], "num_key_value_heads": 4, "num_nextn_predict_layers": 0},
    ),
    "glm_moe_dsa": (
        "glm_moe_dsa",
        rope(1_000_000.0)
        | {
            "num_key_value_heads": 4,
            "index_topk": 16,
            "index_head_dim": 16,
            "index_n_heads": 16,
            "mlp_layer_types": ["dense", "sparse"],
        },
    ),
    "gpt2": ("gpt2", {"tie_word_embeddings": True}),
    "gpt2_scaled": ("gpt2", {"tie_word_embeddings": True, "scale_attn_by_inverse_layer_idx": True}),
    "gpt_bigcode": ("gpt_bigcode", {"tie_word_embeddings": True}),
    "gpt_neox": ("gpt_neox", rope(partial_rotary_factor=0.25) | {"hidden_act": "gelu_fast", "intermediate_size": 128}),
    "gpt_neox_gelu": ("gpt_neox", rope(partial_rotary_factor=0.25) | {"hidden_act": "gelu", "intermediate_size": 128}),
    "gpt_oss": (
        "gpt_oss",
        yarn(150_000.0, 32.0, beta_fast=32.0, beta_slow=1.0, truncate=False)
        | {"layer_types": [SLIDING, FULL], "sliding_window": WINDOW},
    ),
    "gptj": ("gptj", {"rotary_dim": 4}),
    "granite": (
        "granite",
        rope(10_000_000.0)
        | {"embedding_multiplier": 4.0, "logits_scaling": 0.5, "residual_multiplier": 0.5, "attention_multiplier": 0.2}
        | {"tie_word_embeddings": True},
    ),
    "granitemoe": (
        "granitemoe",
        rope(1_500_000.0)
        | {"embedding_multiplier": 4.0, "logits_scaling": 0.5, "residual_multiplier": 0.5, "attention_multiplier": 0.2}
        | {"tie_word_embeddings": True},
    ),
    "granitemoehybrid": (
        "granitemoehybrid",
        {
            "num_hidden_layers": 3,
            "layer_types": ["mamba", "attention", "mamba"],
            "position_embedding_type": "nope",
            "embedding_multiplier": 4.0,
            "logits_scaling": 0.5,
            "residual_multiplier": 0.5,
            "attention_multiplier": 0.2,
            "tie_word_embeddings": True,
            "mamba_n_heads": 8,
            "mamba_n_groups": 1,
            "mamba_d_state": 16,
            "mamba_d_head": 8,
            "mamba_chunk_size": 16,
        },
    ),
    "helium": ("helium", rope(100_000.0)),
    "hunyuan_v1_dense": (
        "hunyuan_v1_dense",
        rope(kind="dynamic", alpha=50.0, factor=1.0, beta_fast=32, beta_slow=1, mscale=1.0, mscale_all_dim=0.0),
    ),
    "internlm3": ("internlm3", rope(50_000_000.0, "dynamic", factor=6.0) | {"max_position_embeddings": ORIGINAL}),
    "jamba": (
        "jamba",
        {
            "num_hidden_layers": 4,
            "attn_layer_period": 4,
            "attn_layer_offset": 2,
            "expert_layer_period": 2,
            "expert_layer_offset": 1,
            "mamba_d_state": 8,
            "mamba_dt_rank": 4,
            "use_mamba_kernels": False,
        },
    ),
    "kimi_linear": (
        "kimi_linear",
        HYBRID
        | {
            "mlp_layer_types": ["dense", "sparse", "sparse", "sparse"],
            "linear_head_dim": 8,
            "linear_num_heads": 4,
            "num_experts_per_token": 2,
            "num_expert_group": 1,
            "q_lora_rank": None,
            "num_key_value_heads": 4,
        },
    ),
    "laguna": (
        "laguna",
        PATTERN
        | {
            "num_attention_heads_per_layer": [4, 4, 4, 4],
            "mlp_layer_types": ["dense", "sparse", "sparse", "sparse"],
            "rope_parameters": {
                FULL: {
                    "rope_type": "yarn",
                    "rope_theta": 500_000.0,
                    "factor": 4.0,
                    "original_max_position_embeddings": ORIGINAL,
                    "partial_rotary_factor": 0.5,
                },
                SLIDING: {"rope_type": "default", "rope_theta": 10_000.0, "partial_rotary_factor": 1.0},
            },
        },
    ),
    "lfm2": (
        "lfm2",
        rope(1_000_000.0)
        | {
            "num_hidden_layers": 3,
            "layer_types": ["conv", FULL, "conv"],
            "block_multiple_of": 16,
            "tie_word_embeddings": True,
        },
    ),
    "lfm2_moe": (
        "lfm2_moe",
        rope(1_000_000.0)
        | {
            "num_hidden_layers": 3,
            "layer_types": ["conv", FULL, "conv"],
            "tie_word_embeddings": True,
            "num_dense_layers": 1,
        },
    ),
    "llama": ("llama", rope(500_000.0)),
    "llama_llama3": ("llama", LLAMA3 | {"tie_word_embeddings": True}),
    "llama_linear": ("llama", rope(100_000.0, "linear", factor=4.0) | {"attention_bias": True, "mlp_bias": True}),
    "llama_yarn": ("llama", yarn(10_000.0, 4.0)),
    "llama_yarn_factor": ("llama", yarn(10_000.0, 4.0, attention_factor=1.3, truncate=False)),
    "llama_dynamic": ("llama", rope(10_000.0, "dynamic", factor=2.0) | {"max_position_embeddings": ORIGINAL}),
    "llama_gelu": ("llama", rope(500_000.0) | {"hidden_act": "gelu"}),
    "llama_mistral": ("mistral", rope(10_000.0) | {"sliding_window": WINDOW}),
    "llama_mistral_full": ("mistral", rope(1_000_000.0) | {"sliding_window": None}),
    "llama4_text": (
        "llama4_text",
        LLAMA3
        | {
            "num_hidden_layers": 4,
            "intermediate_size_mlp": 32,
            "interleave_moe_layer_step": 2,
            "moe_layers": [1, 3],
            "no_rope_layers": [1, 1, 1, 0],
            "layer_types": ["chunked_attention"] * 3 + [FULL],
            "attention_chunk_size": WINDOW,
            "num_experts_per_tok": 1,
            "floor_scale": 16,
        },
    ),
    "longcat_flash": (
        "longcat_flash",
        rope(10_000_000.0)
        | {
            "num_layers": 2,
            "ffn_hidden_size": 32,
            "moe_topk": 2,
            "zero_expert_num": 2,
            "expert_ffn_hidden_size": 24,
            "num_key_value_heads": 4,
            "head_dim": 8,
        },
    ),
    "mamba": ("mamba", {"state_size": 8, "time_step_rank": 4, "intermediate_size": 64, "tie_word_embeddings": True}),
    "mamba_falcon": (
        "falcon_mamba",
        {"state_size": 8, "time_step_rank": 4, "intermediate_size": 64, "tie_word_embeddings": True},
    ),
    "mamba2": ("mamba2", {"num_heads": 8, "head_dim": 8, "state_size": 16, "n_groups": 2, "chunk_size": 16}),
    "mellum": (
        "mellum",
        PATTERN
        | {
            "mlp_layer_types": ["sparse"] * 4,
            "rope_parameters": {
                FULL: {
                    "rope_type": "yarn",
                    "rope_theta": 500_000.0,
                    "factor": 4.0,
                    "original_max_position_embeddings": ORIGINAL,
                },
                SLIDING: {"rope_type": "default", "rope_theta": 10_000.0},
            },
        },
    ),
    "mimo_v2_flash": (
        "mimo_v2_flash",
        PATTERN | {"head_dim": 12, "v_head_dim": 8, "mlp_layer_types": ["dense", "sparse", "sparse", "sparse"]},
    ),
    "minicpm3": (
        "minicpm3",
        longrope(10_000.0, 4) | {"tie_word_embeddings": True, "num_key_value_heads": 4, "dim_model_base": 16},
    ),
    "minimax_m2": ("minimax_m2", rope(5_000_000.0, partial_rotary_factor=0.5)),
    "ministral3": (
        "ministral3",
        yarn(1_000_000.0, 4.0, beta_fast=32.0, beta_slow=1.0, mscale=1.0, mscale_all_dim=1.0, llama_4_scaling_beta=0.1),
    ),
    "mistral4": (
        "mistral4",
        yarn(
            10_000.0,
            4.0,
            beta_fast=32.0,
            beta_slow=1.0,
            mscale=1.0,
            mscale_all_dim=1.0,
            llama_4_scaling_beta=0.1,
        )
        | {"n_group": 1, "num_key_value_heads": 4, "routed_scaling_factor": 1.5, "head_dim": 16},
    ),
    "mixtral": ("mixtral", rope(1_000_000.0) | {"sliding_window": None}),
    "mixtral_sliding": ("mixtral", rope(1_000_000.0) | {"sliding_window": WINDOW}),
    "nanochat": ("nanochat", {"final_logit_softcapping": 15.0}),
    "nemotron": ("nemotron", rope(partial_rotary_factor=0.5)),
    "nemotron_h": (
        "nemotron_h",
        {
            "layers_block_type": [LINEAR, "moe", FULL, "mlp"],
            "num_hidden_layers": 4,
            "ssm_state_size": 16,
            "mamba_num_heads": 4,
            "mamba_head_dim": 8,
            "n_groups": 2,
            "chunk_size": 16,
            "moe_shared_expert_intermediate_size": 24,
            "moe_latent_size": None,
            "routed_scaling_factor": 2.5,
            "use_mamba_kernels": False,
            "time_step_min": 1e-30,  # the bound below in transformers; the makers' kernels take time_step_limit's
        },
    ),
    "olmo": ("olmo", {"clip_qkv": 2.0}),
    "olmo2": ("olmo2", rope(500_000.0)),
    "olmo3": (
        "olmo3",
        PATTERN
        | {
            "rope_parameters": {
                SLIDING: {"rope_type": "default", "rope_theta": 500_000.0},
                FULL: {
                    "rope_type": "yarn",
                    "rope_theta": 500_000.0,
                    "factor": 4.0,
                    "original_max_position_embeddings": ORIGINAL,
                },
            }
        },
    ),
    "olmo_hybrid": ("olmo_hybrid", HYBRID | {"linear_num_key_heads": 4, "linear_num_value_heads": 4}),
    "olmoe": ("olmoe", rope(50_000.0)),
    "phi": ("phi", rope(partial_rotary_factor=0.5)),
    "phi3": ("phi3", {"sliding_window": WINDOW}),
    "phi3_longrope": ("phi3", longrope(10_000.0, 4)),
    "phi3_partial": ("phi3", longrope(10_000.0, 3, partial_rotary_factor=0.75) | {"tie_word_embeddings": True}),
    "phimoe": (
        "phimoe",
        longrope(10_000.0, 4, short_mscale=1.1, long_mscale=1.2) | {"attention_bias": True, "lm_head_bias": True},
    ),
    "qwen2": ("qwen2", rope(1_000_000.0) | {"tie_word_embeddings": True}),
    "qwen2_yarn": ("qwen2", yarn(1_000_000.0, 4.0)),
    "qwen2_sliding": (
        "qwen2",
        rope(1_000_000.0)
        | {
            "use_sliding_window": True,
            "sliding_window": WINDOW,
            "max_window_layers": 1,
            "layer_types": [FULL, SLIDING],
        },
    ),
    "qwen2_moe": ("qwen2_moe", rope(1_000_000.0) | {"norm_topk_prob": False}),
    "qwen2_moe_normalized": ("qwen2_moe", rope(1_000_000.0) | {"norm_topk_prob": True}),
    "qwen3": ("qwen3", yarn(1_000_000.0, 4.0) | {"tie_word_embeddings": True}),
    "qwen3_moe": ("qwen3_moe", rope(1_000_000.0) | {"norm_topk_prob": True}),
    "qwen3_moe_gelu": ("qwen3_moe", rope(1_000_000.0) | {"hidden_act": "gelu"}),
    "qwen3_next": ("qwen3_next", HYBRID | rope(10_000_000.0, partial_rotary_factor=0.25) | {"head_dim": 16}),
    "qwen3_5": (
        "qwen3_5_text",
        HYBRID | rope(10_000_000.0, partial_rotary_factor=0.25, mrope_section=[1, 1, 0]) | {"head_dim": 16},
    ),
    "qwen3_5_moe": (
        "qwen3_5_moe_text",
        HYBRID | rope(10_000_000.0, partial_rotary_factor=0.25, mrope_section=[1, 1, 0]) | {"head_dim": 16},
    ),
    "recurrent_gemma": (
        "recurrent_gemma",
        rope(partial_rotary_factor=0.5)
        | {
            "num_hidden_layers": 3,
            "lru_width": 32,
            "attention_window_size": WINDOW,
            "logits_soft_cap": 3.0,
            "tie_word_embeddings": True,
            "num_key_value_heads": 1,
        },
    ),
    "seed_oss": ("seed_oss", rope(10_000_000.0) | {"attention_bias": True, "attention_out_bias": False}),
    "smollm3": (
        "smollm3",
        rope(5_000_000.0)
        | {
            "num_hidden_layers": 4,
            "no_rope_layers": [1, 1, 1, 0],
            "tie_word_embeddings": True,
            "layer_types": [FULL] * 4,
        },
    ),
    "solar_open": (
        "solar_open",
        yarn(1_000_000.0, 2.0, partial_rotary_factor=1.0) | {"first_k_dense_replace": 0, "routed_scaling_factor": 1.5},
    ),
    "stablelm": ("stablelm", rope(partial_rotary_factor=0.25) | {"use_qkv_bias": True}),
    "stablelm_parallel": (
        "stablelm",
        rope(partial_rotary_factor=0.25) | {"use_parallel_residual": True, "qk_layernorm": True},
    ),
    "starcoder2": ("starcoder2", rope(100_000.0) | {"sliding_window": WINDOW, "tie_word_embeddings": True}),
}
