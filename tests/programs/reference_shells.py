"""The configurations of references that see too: shells around the text models of `reference_configs`."""

from __future__ import annotations

from tests.programs.reference_configs import FULL, PATTERN, Config, rope

# Towers that see: as small as they can be made, since only the text part is compared.
TOWER: Config = {
    "hidden_size": 16,
    "intermediate_size": 16,
    "num_hidden_layers": 1,
    "depth": 1,
    "num_heads": 2,
    "num_attention_heads": 2,
    "embed_dim": 16,
    "head_dim": 8,
    "out_hidden_size": 32,
    "image_size": 4,
    "patch_size": 2,
    "num_position_embeddings": 4,
    "num_patches": 4,
    "deepstack_visual_indexes": [0],
    "fullatt_block_indexes": [0],
    "vision_output_dim": 16,
    "projector_input_dim": 16,
    "projector_output_dim": 16,
    "layer_types": [FULL],
    "pos_emb_height": 4,
    "pos_emb_width": 4,
}
SHELL: Config = {
    "projector_hidden_size": 16,
    "projection_hidden_size": 16,
    "merged_hidden_size": 64,
    "out_hidden_size": 32,
    "image_token_id": 3,
    "image_token_index": 3,
    "video_token_id": 3,
    "video_token_index": 3,
    "audio_token_id": 3,
    "mm_tokens_per_image": 4,
}

# By name of the reference: the model type of transformers, the reference or part that is its text, and what differs.
SHELLS: dict[str, tuple[str, Config]] = {
    "gemma3": ("gemma3", {"text": "gemma3_text"}),
    "gemma4": ("gemma4", {"text": "gemma4_text"}),
    "llama4_shell": ("llama4", {"text": "llama4_text"}),
    "qwen2_vl": ("qwen2_vl", {"text": "qwen2"} | rope(1_000_000.0, mrope_section=[1, 1, 2])),
    "qwen2_vl_25": ("qwen2_5_vl", {"text": "qwen2"} | rope(1_000_000.0, mrope_section=[1, 1, 2])),
    "qwen3_vl": ("qwen3_vl", {"text": "qwen3"} | rope(5_000_000.0, mrope_section=[2, 1, 1], mrope_interleaved=True)),
    "qwen3_vl_moe": (
        "qwen3_vl_moe",
        {"text": "qwen3_moe"} | rope(5_000_000.0, mrope_section=[2, 1, 1], mrope_interleaved=True),
    ),
    "qwen3_5_vl": ("qwen3_5", {"text": "qwen3_5"}),
    "qwen3_5_moe_vl": ("qwen3_5_moe", {"text": "qwen3_5_moe"}),
    "mistral3": ("mistral3", {"text": "llama_mistral_full"}),
    "mistral3_ministral": ("mistral3", {"text": "ministral3"}),
    "kimi_k25": ("kimi_k25", {"text": "deepseek_v3"}),
    "lfm2-vl": ("lfm2_vl", {"text": "lfm2"}),
    "minimax_m3_vl": ("minimax_m3_vl", {"text": "minimax_m3_text"}),
    "muse_glimmer": ("muse_glimmer", {"text": "muse_glimmer_text"}),
}

# Configurations of text parts that are no models of their own.
PARTS: dict[str, tuple[str, Config]] = {
    "muse_glimmer_text": ("muse_glimmer_text", PATTERN | {"final_logit_softcapping": 3.0, "output_multiplier": 0.8}),
    "minimax_m3_text": (
        "minimax_m3_vl_text",
        rope(5_000_000.0, partial_rotary_factor=0.5)
        | {
            "num_hidden_layers": 3,
            "rotary_dim": 4,
            "dense_intermediate_size": 32,
            "mlp_layer_types": ["dense", "sparse", "sparse"],
            "layer_types": [FULL, "minimax_m3_sparse", "minimax_m3_sparse"],
            "index_n_heads": 2,
            "index_head_dim": 8,
            "index_block_size": 4,
            "index_topk_blocks": 3,
        },
    ),
}
