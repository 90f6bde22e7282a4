"""The configuration of a tiny model for every architecture of mlx-lm, as data.

`COMMON` is what they share, `SPECIFIC` what one architecture needs besides, or needs otherwise. Shells around a
text model, multi-modal ones mostly, are built as that text model in their shell.
"""

from tests.toys.architecture_common import Config
from tests.toys.architectures_dense import DENSE
from tests.toys.architectures_recurrent import RECURRENT
from tests.toys.architectures_windowed import WINDOWED

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

SPECIFIC: dict[str, Config] = DENSE | WINDOWED | RECURRENT

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
