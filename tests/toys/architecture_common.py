"""The fields that the tiny models of all architectures share.

`COMMON` answers the field names that most architectures share; mlx-lm's `ModelArgs.from_dict` drops what an
architecture does not ask for.

The choices make every mechanism bite within 200 tokens: windows and chunks of 8 to 16 tokens, more keys than
a sparse indexer may keep, three or four layers so that each kind of layer is there. Head counts differ from
head sizes, and key heads from query heads, so a transposed axis fails loudly instead of passing.
"""

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
