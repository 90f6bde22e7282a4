"""Attention over everything: what the configuration needs besides `COMMON`."""

from tests.toys.architecture_common import VOCABULARY, Config

DENSE: dict[str, Config] = {
    "afm7": {
        "hidden_dim": 32,
        "num_layers": 4,
        "num_kv_reuse_layers": 2,
        "num_heads": 4,
        "num_kv_heads": 2,
        "hidden_dim_scale_factor": 1.5,
    },
    "apertus": {"post_norm": True},
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
    "ernie4_5_moe": {
        "moe_num_experts": 4,
        "moe_layer_start_index": 1,
        "moe_k": 2,
        "moe_num_shared_experts": 1,
    },
    "exaone": {"mlp_bias": False},
    "gemma2": {"query_pre_attn_scalar": 8.0},
    "glm4_moe": {"rope_scaling": None},
    "gpt_bigcode": {"n_inner": 64},
    "gpt_neox": {"rotary_emb_base": 10000, "rotary_pct": 0.5},
    "gptj": {"rotary_dim": 4},
    "hunyuan": {
        "num_hidden_layers": 4,
        "moe_topk": 2,
        "num_shared_expert": 1,
        "use_mixed_mlp_moe": True,
        "use_cla": True,
        "cla_share_factor": 2,
        "rope_scaling": {"factor": 1.0, "type": "dynamic", "alpha": 8.0},
    },
    # its feed-forward width is rounded down to a multiple of 256
    "lille-130m": {"block_size": 4096, "n_embd": 96, "n_kv_heads": 2},
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
    "minicpm3": {"rope_scaling": {"original_max_position_embeddings": 64, "long_factor": [1.0, 1.5, 2.0, 4.0]}},
    "minimax": {"rotary_dim": 4},
    "mistral4": {
        "rope_parameters": {
            "rope_theta": 10000.0,
            "rope_type": "default",
            "llama_4_scaling_beta": 0.3,
            "original_max_position_embeddings": 32,
        },
    },
    "nanbeige": {"num_hidden_layers": 2, "num_loops": 2},
    # its queries and keys have unit norm and no weight: only wide heads make attention choose
    "nanochat": {
        "hidden_size": 64,
        "num_attention_heads": 2,
        "num_key_value_heads": 1,
    },
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
    "olmo": {
        "d_model": 32,
        "n_layers": 3,
        "mlp_hidden_size": 64,
        "n_heads": 4,
        "embedding_size": VOCABULARY,
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
    "qwen": {"kv_channels": 8, "num_key_value_heads": 4},
    "seed_oss": {"attention_out_bias": True},
    "stablelm": {"qk_layernorm": True},
}
