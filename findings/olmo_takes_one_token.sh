#!/usr/bin/env bash
# Bet: every architecture among mlx-lm's model files can read a prompt; OLMo 1 is one of its oldest, and plain attention.
# Happens: since the mask of several tokens is the word "causal" where no array is asked for, OLMo's attention adds a string to its
#   scores: one token is fine, and any longer pass raises ValueError. (gemma2, whose attention is
#   written by hand too, asks for an array.) Its file also looks for ai2-olmo, uses nothing of it, and ends the process without it.
# Package: mlx-lm 0.32.2, mlx 0.32.4 (CPU). Date: 2026-11-29.
# Output seen:
#   tokens in a pass: 1, logits (1, 1, 64)
#   tokens in a pass: 3, ValueError
# Follows: no prompt can be read but token by token, and no draft verified. Redline says so before the file is imported.
set -euo pipefail
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
python3 -m venv env
case $(uname) in Darwin) mlx="mlx==0.32.4" ;; *) mlx="mlx[cpu]==0.32.4" ;; esac
env/bin/pip install -q "$mlx" mlx-lm==0.32.2 2>/dev/null
env/bin/python - <<'PY' | tee seen
import sys
import types

import mlx.core as mx

sys.modules["hf_olmo"] = types.ModuleType("hf_olmo")  # what ai2-olmo is looked for by
from mlx_lm.models import olmo

network = olmo.Model(olmo.ModelArgs(
    model_type="olmo", d_model=32, n_layers=2, mlp_hidden_size=64, n_heads=2, vocab_size=64, embedding_size=64))
for tokens in ([1], [1, 2, 3]):
    try:
        found = f"logits {network(mx.array([tokens])).shape}"
    except ValueError as error:
        found = type(error).__name__
    print(f"tokens in a pass: {len(tokens)}, {found}")
PY
printf 'tokens in a pass: 1, logits (1, 1, 64)\ntokens in a pass: 3, ValueError\n' | diff - seen
