#!/usr/bin/env bash
# Bet: past original_max_position_embeddings, transformers 5 rotates a PhiMoE by the long factors of its LongRoPE, as it does a Phi-3
#   and as the PhiMoE of transformers 4 did, which passed the length: rope_init_fn(self.config, x.device, seq_len).
# Happens: `PhimoeRotaryEmbedding.forward` calls its `rope_init_fn(self.config)` without the length of the text, so every text is
#   rotated by the short factors. Only long_mscale follows the length; what `dynamic_rope_update` chose is not used.
# Package: transformers 5.24.0, torch 2.13.0. Date: 2026-11-28.
# Output seen:
#   phi3 after 5000 tokens: long factors
#   phimoe after 5000 tokens: short factors
# Follows: logits of transformers are no reference for Phi-3.5-MoE past 4096 tokens, unless rope_init_fn is told the length.
set -euo pipefail
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
python3 -m venv env
env/bin/pip install -q torch==2.13.0 transformers==5.24.0 2>/dev/null
env/bin/python - <<'PY' 2>/dev/null | tee seen
import torch
from transformers import Phi3Config, PhimoeConfig
from transformers.models.phi3.modeling_phi3 import Phi3RotaryEmbedding
from transformers.models.phimoe.modeling_phimoe import PhimoeRotaryEmbedding

POSITION, ORIGINAL = 4999, 4096
rope = {
    "rope_type": "longrope", "rope_theta": 10000.0, "original_max_position_embeddings": ORIGINAL,
    "short_factor": [1.0] * 16, "long_factor": [4.0] * 16,
}
sizes = {
    "hidden_size": 128, "num_attention_heads": 4, "num_key_value_heads": 4, "intermediate_size": 128,
    "max_position_embeddings": 131072, "original_max_position_embeddings": ORIGINAL, "pad_token_id": 0,
}
phi3 = Phi3RotaryEmbedding(Phi3Config(**sizes, rope_parameters=dict(rope)))
scales = {"short_mscale": 1.0, "long_mscale": 1.0}
phimoe = PhimoeRotaryEmbedding(PhimoeConfig(**sizes, rope_parameters=rope | scales))
for name, module in (("phi3", phi3), ("phimoe", phimoe)):
    cos, sin = module(torch.zeros(1, 1, 128), torch.tensor([[POSITION]]))
    angles = POSITION / 10000.0 ** (torch.arange(0, 32, 2) / 32)
    found = torch.atan2(sin[0, 0, :16], cos[0, 0, :16])
    for which, factor in (("short", 1.0), ("long", 4.0)):
        wanted = torch.atan2(torch.sin(angles / factor), torch.cos(angles / factor))
        if torch.allclose(found, wanted, atol=1e-2):
            print(f"{name} after {POSITION + 1} tokens: {which} factors")
PY
printf 'phi3 after 5000 tokens: long factors\nphimoe after 5000 tokens: short factors\n' | diff - seen
