#!/usr/bin/env bash
# Bet: transformers 5 rotates DBRX by the base that its published config.json names, attn_config.rope_theta = 500000.
# Happens: the rotary embedding reads `rope_parameters`, which is filled with the class's default, 10000; attn_config's value is
#   kept, shown, and not used.
# Package: transformers 5.24.0, torch 2.13.0. Date: 2026-11-28.
# Output seen:
#   configured 500000, computed with 10000
# Follows: logits of transformers are no reference for DBRX unless both fields say the same. mlx-lm 0.32.2 reads attn_config
#   and is right.
set -euo pipefail
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
python3 -m venv env
env/bin/pip install -q torch==2.13.0 transformers==5.24.0 2>/dev/null
env/bin/python - <<'PY' 2>/dev/null | tee seen
import json
from pathlib import Path

from transformers import AutoConfig
from transformers.models.dbrx.modeling_dbrx import DbrxRotaryEmbedding

published = {  # the fields of databricks/dbrx-instruct that are about attention
    "model_type": "dbrx", "d_model": 6144, "n_heads": 48, "n_layers": 40, "max_seq_len": 32768,
    "attn_config": {"clip_qkv": 8, "kv_n_heads": 8, "model_type": "", "rope_theta": 500000},
}
Path("config.json").write_text(json.dumps(published))
config = AutoConfig.from_pretrained(".")
inverse = DbrxRotaryEmbedding(config).inv_freq
base = float(inverse[1]) ** -(2 * len(inverse) / 2)
print(f"configured {config.attn_config.rope_theta:.0f}, computed with {base:.0f}")
PY
echo "configured 500000, computed with 10000" | diff - seen
