"""The configuration of a tiny model for every architecture of mlx-lm, as data.

`COMMON` answers the field names that most architectures share; mlx-lm's `ModelArgs.from_dict` drops what an
architecture does not ask for. `SPECIFIC` holds what one architecture needs besides, or needs otherwise.

The choices make every mechanism bite within 200 tokens: windows and chunks of 8 to 16 tokens, more keys than
a sparse indexer may keep, three or four layers so that each kind of layer is there. Head counts differ from
head sizes, and key heads from query heads, so a transposed axis fails loudly instead of passing.
"""

from __future__ import annotations

from typing import Any

Config = dict[str, Any]

SLIDING, FULL = "sliding_attention", "full_attention"
VOCABULARY = 64
WINDOW = 12

COMMON: Config = {
    # sizes
    "vocab_size": VOCABULARY,
    "hidden_size": 32,
    "intermediate_size": 48,
    "num_hidden_layers": 3,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "head_dim": 8,
    "max_position_embeddings": 4096,
    # the same sizes under older names
    "n_embd": 32,
    "n_layer": 3,
    "n_head": 4,
    "n_positions": 4096,
    "n_ctx": 4096,
    "num_layers": 3,
    # numerics and plain switches
    "rms_norm_eps": 1e-5,
    "norm_eps": 1e-5,
    "layer_norm_eps": 1e-5,
    "layer_norm_epsilon": 1e-5,
    "rope_theta": 10000.0,
    "partial_rotary_factor": 0.5,
    "attention_bias": True,
    "mlp_bias": True,
    "use_bias": True,
    "use_qkv_bias": True,
    "use_qk_norm": True,
    "qk_norm": True,
    "tie_word_embeddings": False,
    # sliding windows
    "sliding_window": WINDOW,
    "layer_types": [SLIDING, FULL, SLIDING],
    # multi-head latent attention
    "kv_lora_rank": 16,
    "q_lora_rank": 24,
    "qk_rope_head_dim": 8,
    "qk_nope_head_dim": 8,
    "v_head_dim": 8,
    # mixture of experts: one dense layer first, then experts; two groups of which one is chosen
    "num_experts": 4,
    "num_local_experts": 4,
    "n_routed_experts": 4,
    "num_experts_per_tok": 2,
    "num_shared_experts": 1,
    "n_shared_experts": 1,
    "moe_intermediate_size": 24,
    "shared_intermediate_size": 24,
    "shared_expert_intermediate_size": 24,
    "moe_shared_expert_intermediate_size": 24,
    "first_k_dense_replace": 1,
    "num_dense_layers": 1,
    "moe_layer_freq": 1,
    "decoder_sparse_step": 1,
    "mlp_only_layers": [0],
    "norm_topk_prob": True,
    "routed_scaling_factor": 1.0,
    "topk_method": "noaux_tc",
    "scoring_func": "sigmoid",
    "n_group": 2,
    "topk_group": 1,
    "moe_router_enable_expert_bias": True,
    # recurrent layers
    "layer_group_size": 2,
    "group_norm_size": 2,
    "linear_num_key_heads": 2,
    "linear_num_value_heads": 4,
    "linear_key_head_dim": 8,
    "linear_value_head_dim": 8,
    "linear_conv_kernel_dim": 4,
    "full_attention_interval": 2,
    "conv_kernel": 4,
    "conv_L_cache": 3,
    "conv_bias": True,
    "use_conv_bias": True,
    # scales that mlx-lm wants written out
    "logits_scaling": 1.0,
    "attention_multiplier": 0.35,
    "embedding_multiplier": 1.0,
    "residual_multiplier": 1.0,
    "logit_scale": 1.0,
    "scale_depth": 1.4,
    "scale_emb": 1.0,
    "dim_model_base": 32,
}

# Architectures that are a shell around a text model: their own name to the text architecture inside.
TEXT_MODEL_OF: dict[str, str] = {
    "gemma3": "gemma3_text",
    "gemma3n": "gemma3n",
    "gemma4": "gemma4_text",
    "kimi_k25": "deepseek_v3",
    "kimi_k3": "kimi_k3",
    "kimi_vl": "deepseek_v3",
    "lfm2-vl": "lfm2",
    "llama4": "llama4",
    "minimax_m3_vl": "minimax_m3_vl",
    "mistral3": "ministral3",
    "muse_spark": "muse_spark",
    "pixtral": "llama",
    "prism_hadamard_qwen35": "prism_hadamard_qwen35",
    "qwen2_vl": "qwen2",
    "qwen3_5": "qwen3_5",
    "qwen3_5_moe": "qwen3_5_moe",
    "qwen3_vl": "qwen3",
    "qwen3_vl_moe": "qwen3_moe",
}

SPECIFIC: dict[str, Config] = {
    "afm7": {
        "hidden_dim": 32,
        "num_layers": 4,
        "num_kv_reuse_layers": 2,
        "num_heads": 4,
        "num_kv_heads": 2,
        "hidden_dim_scale_factor": 1.5,
    },
    "apertus": {"post_norm": True},
    "baichuan_m1": {"sliding_window_layers": [1], "conv_window": 2},
    "cohere2": {"num_hidden_layers": 4, "sliding_window_pattern": 2},
    "dbrx": {
        "d_model": 32,
        "n_layers": 3,
        "n_heads": 4,
        "ffn_config": {"ffn_hidden_size": 24, "moe_num_experts": 4, "moe_top_k": 2},
        "attn_config": {"kv_n_heads": 2, "clip_qkv": 8.0, "rope_theta": 10000.0},
    },
    "deepseek_v2": {
        "topk_method": "group_limited_greedy",
        "rope_scaling": {"factor": 2.0, "mscale": 1.0, "mscale_all_dim": 1.0},
    },
    "deepseek_v32": {"index_head_dim": 16, "index_n_heads": 4, "index_topk": 16},
    "ernie4_5_moe": {
        "moe_num_experts": 4,
        "moe_layer_start_index": 1,
        "moe_k": 2,
        "moe_num_shared_experts": 1,
    },
    "exaone": {"mlp_bias": False},
    "exaone4": {"sliding_window_pattern": "LG", "rope_scaling": None},
    "exaone_moe": {"is_moe_layer": [False, True, True]},
    "gear": {
        "num_hidden_layers": 4,
        "layer_types": ["conv_mixer", SLIDING, FULL, "conv_mixer"],
    },
    "gemma2": {"query_pre_attn_scalar": 8.0},
    "gemma3_text": {"query_pre_attn_scalar": 8.0, "sliding_window_pattern": 2},
    "glm4_moe": {"rope_scaling": None},
    "glm_moe_dsa": {
        "index_head_dim": 16,
        "index_n_heads": 4,
        "index_topk": 16,
        "rope_parameters": {"rope_theta": 10000.0, "rope_type": "default"},
    },
    "gpt_bigcode": {"n_inner": 64},
    "gpt_neox": {"rotary_emb_base": 10000, "rotary_pct": 0.5},
    "gptj": {"rotary_dim": 4},
    "granitemoehybrid": {
        "layer_types": ["mamba", "attention", "mamba"],
        "mamba_n_heads": 4,
        "mamba_d_head": 8,
        "mamba_proj_bias": True,
        "mamba_d_state": 16,
        "mamba_d_conv": 4,
        "mamba_n_groups": 2,
        "mamba_conv_bias": True,
    },
    "hunyuan": {
        "num_hidden_layers": 4,
        "moe_topk": 2,
        "num_shared_expert": 1,
        "use_mixed_mlp_moe": True,
        "use_cla": True,
        "cla_share_factor": 2,
        "rope_scaling": {"factor": 1.0, "type": "dynamic", "alpha": 8.0},
    },
    "iquestloopcoder": {"loop_num": 2, "loop_window_size": WINDOW},
    "jamba": {
        "num_hidden_layers": 4,
        "attn_layer_offset": 1,
        "attn_layer_period": 2,
        "expert_layer_offset": 1,
        "expert_layer_period": 2,
        "mamba_d_conv": 4,
        "mamba_d_state": 8,
        "mamba_expand": 2,
    },
    "falcon_h1": {
        "mamba_d_conv": 4,
        "mamba_d_head": 8,
        "mamba_d_ssm": 32,
        "mamba_d_state": 16,
        "mamba_n_groups": 2,
        "mamba_n_heads": 4,
        "mamba_rms_norm": True,
        "rope_theta": 10000.0,
        "attention_out_multiplier": 1.0,
        "embedding_multiplier": 1.0,
        "key_multiplier": 1.0,
        "lm_head_multiplier": 1.0,
        "mlp_multipliers": [1.0, 1.0],
        "ssm_multipliers": [1.0, 1.0, 1.0, 1.0, 1.0],
        "ssm_out_multiplier": 1.0,
    },
    "gemma3n": {
        # layers 0 and 1 own their keys; 2 and 3 read those of their kind
        "num_hidden_layers": 4,
        "layer_types": [SLIDING, FULL, SLIDING, FULL],
        "num_kv_shared_layers": 2,
        "vocab_size_per_layer_input": VOCABULARY,
        "hidden_size_per_layer_input": 8,
        "rope_local_base_freq": 10000.0,
        "final_logit_softcapping": 30.0,
        "activation_sparsity_pattern": [0.5, 0.0, 0.0, 0.0],
        "intermediate_size": [48, 48, 48, 48],
        "altup_num_inputs": 3,
        "altup_coef_clip": 120.0,
        "altup_correct_scale": True,
        "altup_active_idx": 0,
        "laurel_rank": 8,
    },
    "gemma4_text": {
        "num_hidden_layers": 4,
        "layer_types": [SLIDING, FULL, SLIDING, FULL],
        "num_kv_shared_layers": 2,
        "global_head_dim": 16,
        "num_global_key_value_heads": 1,
        "attention_k_eq_v": True,
        "vocab_size_per_layer_input": VOCABULARY,
        "hidden_size_per_layer_input": 8,
        "enable_moe_block": True,
        "top_k_experts": 2,
    },
    "kimi_k3": {
        "num_hidden_layers": 4,
        "linear_attn_config": {
            "kda_layers": [1, 2, 4],
            "num_heads": 4,
            "head_dim": 8,
            "short_conv_kernel_size": 4,
            "gate_lower_bound": -5.0,
        },
        "attn_res_block_size": 2,
        "activation_situ_beta": 1.5,
        "activation_situ_linear_beta": 1.5,
        "mla_use_output_gate": True,
        "num_experts_per_token": 2,
        "num_expert_group": 2,
        "routed_expert_hidden_size": 16,
        "latent_moe_use_norm": True,
    },
    "kimi_linear": {
        "linear_attn_config": {
            "kda_layers": [1, 3],
            "num_heads": 4,
            "head_dim": 8,
            "short_conv_kernel_size": 4,
        },
        "model_max_length": 4096,
        "num_experts_per_token": 2,
        "num_expert_group": 2,
    },
    "laguna": {"num_attention_heads_per_layer": [4, 6, 4]},
    "lfm2": {
        "layer_types": ["conv", "full_attention", "conv"],
        "block_dim": 32,
        "block_multiple_of": 16,
        "block_ffn_dim_multiplier": 1.0,
        "block_auto_adjust_ff_dim": True,
    },
    "lfm2_moe": {
        "layer_types": ["conv", "full_attention", "conv"],
        "use_expert_bias": True,
    },
    # its feed-forward width is rounded down to a multiple of 256
    "lille-130m": {"block_size": 4096, "n_embd": 96, "n_kv_heads": 2},
    "llama4": {
        # every fourth layer is global and without positions; the others see their chunk
        "num_hidden_layers": 4,
        "attention_chunk_size": 16,
        "interleave_moe_layer_step": 2,
        "intermediate_size_mlp": 48,
        "num_experts_per_tok": 1,
        "rope_scaling": None,
        "floor_scale": 32,
    },
    "llama4_text": {"intermediate_size_mlp": 48, "no_rope_layers": [1, 0, 1]},
    "longcat_flash": {
        "attention_method": "MLA",
        "zero_expert_type": "identity",
        "zero_expert_num": 2,
        "ffn_hidden_size": 48,
        "expert_ffn_hidden_size": 24,
        "moe_topk": 2,
        "num_layers": 2,
        "mla_scale_q_lora": True,
        "mla_scale_kv_lora": True,
        "router_bias": True,
    },
    "mamba": {"intermediate_size": 64, "state_size": 8, "time_step_rank": 4},
    "mamba2": {
        "num_heads": 8,
        "intermediate_size": 64,
        "state_size": 16,
        "n_groups": 2,
        "time_step_limit": (0.0, 100.0),
        "time_step_rank": 4,
    },
    "mellum": {
        "rope_parameters": {
            SLIDING: {"rope_theta": 10000.0, "rope_type": "default"},
            FULL: {"rope_theta": 100000.0, "rope_type": "default"},
        },
    },
    "mimo_v2_flash": {
        "hybrid_layer_pattern": [0, 1, 1],
        "moe_layer_freq": [0, 1, 1],
        "add_swa_attention_sink_bias": True,
        "add_full_attention_sink_bias": False,
        "sliding_window_size": WINDOW,
        "layernorm_epsilon": 1e-5,
        "swa_rope_theta": 10000.0,
        "swa_num_attention_heads": 6,
        "swa_num_key_value_heads": 3,
        "swa_head_dim": 8,
        "swa_v_head_dim": 6,
        "v_head_dim": 6,
    },
    "minicpm3": {"rope_scaling": {"original_max_position_embeddings": 64, "long_factor": [1.0, 1.5, 2.0, 4.0]}},
    "minimax": {"rotary_dim": 4},
    "minimax_m3_vl": {
        "dense_intermediate_size": 48,
        "num_hidden_layers": 3,
        "moe_layer_freq": [0, 1, 1],
        "layer_types": [FULL, "minimax_m3_sparse", "minimax_m3_sparse"],
        "index_n_heads": 2,
        "index_head_dim": 8,
        "index_block_size": 8,
        "index_topk_blocks": 3,
    },
    "ministral3": {
        "rope_parameters": {
            "rope_theta": 10000.0,
            "rope_type": "default",
            "llama_4_scaling_beta": 0.3,
            "original_max_position_embeddings": 32,
        },
    },
    "mistral4": {
        "rope_parameters": {
            "rope_theta": 10000.0,
            "rope_type": "default",
            "llama_4_scaling_beta": 0.3,
            "original_max_position_embeddings": 32,
        },
    },
    "muse_glimmer": {"output_multiplier": 1.0, "qk_scale_factor": 1.0},
    "muse_spark": {
        "post_norm_eps": 1e-5,
        "rope_parameters": {"rope_theta": 10000.0},
        "layer_rope_theta": [10000.0, 0.0, 10000.0],
        "final_logit_softcapping": 20.0,
        "output_multiplier": 1.0,
        "moe_hidden_size": 16,
        "num_shared_experts": 0,
        "qk_scale_factor": 1.0,
    },
    # its queries and keys have unit norm and no weight: only wide heads make attention choose
    "nanochat": {
        "hidden_size": 64,
        "num_attention_heads": 2,
        "num_key_value_heads": 1,
    },
    "nanbeige": {"num_hidden_layers": 2, "num_loops": 2},
    "nemotron": {"hidden_act": "relu2"},
    "nemotron-nas": {
        "num_hidden_layers": 4,
        "block_configs": [
            {"attention": {"n_heads_in_group": 2}, "ffn": {"ffn_mult": 1.5}},
            {"attention": {"no_op": True}, "ffn": {"replace_with_linear": True}},
            {"attention": {"replace_with_linear": True}, "ffn": {"ffn_mult": 1.0}},
            {"attention": {"n_heads_in_group": 4}, "ffn": {"no_op": True}},
        ],
    },
    "nemotron_h": {
        "hybrid_override_pattern": ["M", "*", "E", "M", "-"],
        "mamba_num_heads": 4,
        "mamba_head_dim": 8,
        "mamba_proj_bias": True,
        "ssm_state_size": 16,
        "n_groups": 2,
        "moe_latent_size": 16,
    },
    "olmo": {
        "d_model": 32,
        "n_layers": 3,
        "mlp_hidden_size": 64,
        "n_heads": 4,
        "embedding_size": VOCABULARY,
    },
    "olmo_hybrid": {
        "layer_types": ["linear_attention", FULL, "linear_attention"],
        "linear_allow_neg_eigval": True,
    },
    "openelm": {
        "num_transformer_layers": 3,
        "model_dim": 32,
        "ffn_dim_divisor": 16,
        "num_query_heads": [4, 4, 8],
        "num_kv_heads": [2, 2, 4],
        "ffn_multipliers": [1.0, 1.5, 2.0],
    },
    "phi3": {
        "original_max_position_embeddings": 64,
        "partial_rotary_factor": 1.0,
        "rope_scaling": {
            "type": "longrope",
            "short_factor": [1.0, 1.0, 1.0, 1.0],
            "long_factor": [1.0, 1.5, 2.0, 4.0],
        },
    },
    "phi3small": {
        # 32 is the smallest block mlx-lm takes; two local blocks make the sparsity bite from token 64 on
        "dense_attention_every_n_layers": 2,
        "ff_intermediate_size": 48,
        "gegelu_limit": 20.0,
        "blocksparse_block_size": 32,
        "blocksparse_num_local_blocks": 2,
        "mup_embedding_multiplier": 1.0,
        "mup_width_multiplier": 1.0,
        "rope_embedding_base": 10000.0,
    },
    "phimoe": {
        "original_max_position_embeddings": 64,
        "rope_scaling": {
            "short_factor": [1.0, 1.0, 1.0, 1.0],
            "long_factor": [1.0, 1.5, 2.0, 4.0],
            "short_mscale": 1.1,
            "long_mscale": 1.2,
        },
    },
    "phixtral": {
        "num_vocab": VOCABULARY,
        "model_dim": 32,
        "num_heads": 4,
        "rotary_dim": 4,
    },
    "plamo": {"n_shared_head": 2},
    "plamo2": {
        "num_hidden_layers": 4,
        "hidden_size_per_head": 8,
        "attention_window_size": 4096,
        "mamba_d_state": 8,
        "mamba_num_heads": 4,
        "mamba_step": 2,
    },
    "plamo3": {"sliding_window_pattern": 2},
    "qwen": {"kv_channels": 8, "num_key_value_heads": 4},
    "recurrent_gemma": {
        "conv1d_width": 4,
        "logits_soft_cap": 30.0,
        "num_key_value_heads": 1,
        "attention_window_size": WINDOW,
        "block_types": ["recurrent", "recurrent", "attention"],
    },
    "rwkv7": {
        "a_low_rank_dim": 8,
        "v_low_rank_dim": 8,
        "gate_low_rank_dim": 8,
        "decay_low_rank_dim": 8,
    },
    "seed_oss": {"attention_out_bias": True},
    "smollm3": {"num_hidden_layers": 4, "layer_types": None},
    "spark2_5": {
        "rope_parameters": {
            SLIDING: {"rope_theta": 10000.0, "partial_rotary_factor": 1.0},
            FULL: {"rope_theta": 100000.0, "partial_rotary_factor": 0.5},
        },
    },
    "stablelm": {"qk_layernorm": True},
    "step3p5": {
        "num_attention_groups": 2,
        "partial_rotary_factors": [1.0, 0.5, 1.0],
        "rope_theta": [10000.0, 100000.0, 10000.0],
        "attention_other_setting": {
            "num_attention_heads": 6,
            "num_attention_groups": 3,
        },
        "moe_num_experts": 4,
        "moe_top_k": 2,
        "share_expert_dim": 24,
        "moe_layers_enum": "1,2",
        "swiglu_limits": [0.0, 0.0, 7.0],
        "swiglu_limits_shared": [0.0, 7.0, 0.0],
    },
    "deepseek_v41": {
        # layer 0 sees its window only, 1 compresses one to one, 2 two to one and picks candidate blocks,
        # 3 chooses among those candidates, 4 reads what 3 chose
        "num_hidden_layers": 5,
        "head_dim": 32,
        "o_groups": 2,
        "o_lora_rank": 16,
        "scoring_func": "sqrtsoftplus",
        "compress_ratios": (0, 1, 2, 2, 2),
        "kv_source_layer_ids": (1, 2),
        "index_source_layer_ids": (1, 2, 3),
        "candidate_source_layer_id": 2,
        "candidate_topk_blocks": 4,
        "candidate_block_size": 4,
        "index_n_heads": 2,
        "index_head_dim": 32,
        "index_topk": 12,
        "hc_mult": 2,
        "hc_sinkhorn_iters": 4,
    },
}

# Architectures whose configuration is that of another one.
SPECIFIC["longcat_flash_ngram"] = SPECIFIC["longcat_flash"] | {
    "ngram_vocab_size_ratio": 3,
    "emb_neighbor_num": 3,
    "emb_split_num": 2,
}
SPECIFIC["qwen3_5"] = {
    "num_experts": 0,
    "rope_parameters": {"type": "default", "rope_theta": 10000.0, "partial_rotary_factor": 0.5},
}
SPECIFIC["qwen3_5_moe"] = SPECIFIC["qwen3_5"] | {"num_experts": 4}
# Packed widths are multiples of 128, Hadamard blocks of 512.
SPECIFIC["prism_hadamard_qwen35"] = SPECIFIC["qwen3_5"] | {
    "hidden_size": 128,
    "intermediate_size": 512,
}

# What a shell wants beside its text model.
SHELL: dict[str, Config] = {
    "prism_hadamard_qwen35": {
        "schema_version": 1,
        "tensor_namespace": "mlx-lm-text",
        "quantization": {"bits": 2, "group_size": 128, "mode": "affine"},
        "modules": [
            {"path": f"model.layers.{layer}.mlp.{part}", "block": block, "embedding": False, "dtype": "float16"}
            for layer in range(3)
            for part, block in (("gate_proj", 0), ("up_proj", 0), ("down_proj", 512))
        ],
    },
}
