"""What is known of the references: which are refused, and for which mlx-lm 0.32.2 alone is wrong."""

# Why mlx-lm's network is another one, or there is none. All others compute what transformers computes.
REFUSED = {
    "bailing_hybrid": "kda_lower_bound",  # transformers has Kimi's delta attention, mlx-lm lightning attention
    "bitnet": "not packed to ternary numbers",
    "olmo": "cannot be decoded exactly",
}

# The network that mlx-lm builds from the right configuration computes something else.
CORRECTED = {
    *("ernie4_5_moe", "falcon_h1", "gemma", "gemma2", "gemma3", "gemma3_text", "glm", "glm4_moe_lite", "gpt_bigcode"),
    *("gpt_oss", "jamba", "llama_gelu", "llama_mistral", "longcat_flash", "mamba2", "mimo_v2_flash", "minicpm3"),
    *("mixtral_sliding", "nanochat", "nemotron_h", "phi3", "phi3_longrope", "phi3_partial", "phimoe"),
    *("qwen2_moe_normalized", "qwen2_sliding", "recurrent_gemma", "solar_open", "starcoder2"),
    *("dots1_sliding", "gpt2_scaled", "gpt_neox_gelu", "llama_yarn_factor", "qwen3_moe_gelu"),
}

# The tensors that transformers 5 writes have other names or shapes than mlx-lm reads.
RENAMED = {
    *("gemma3n", "gpt2", "kimi_k25", "kimi_linear", "lfm2-vl", "llama4_text", "muse_glimmer", "olmo_hybrid"),
    *("qwen3_5_moe", "qwen3_5_moe_vl", "qwen3_vl_moe"),
}

TOLERANCE = 1e-4  # of the largest difference of logits, whose spread is about 1
