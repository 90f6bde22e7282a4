#!/usr/bin/env bash
# Bet: mlx-lm applies every multiplier of Falcon-H1's configuration, since its `sanitize` folds them into the weights.
# Happens: `key_multiplier` is folded into tensors called `key_proj.weight`, and there are none: they are `k_proj`. Keys stay
#   unscaled, and attention is sharper than the makers' (published values: 0.39 and less).
# Package: mlx-lm 0.32.2, mlx 0.32.4 (CPU). Date: 2026-11-28.
# Output seen:
#   weights changed by embedding_multiplier: 1
#   weights changed by key_multiplier: 0
# Follows: a target that is loaded as it is differs from transformers by 0.6 in logits with a spread of 1 (its reference network
#   in tests/models/references); Redline scales the scores.
set -euo pipefail
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
python3 -m venv env
case $(uname) in Darwin) mlx="mlx==0.32.4" ;; *) mlx="mlx[cpu]==0.32.4" ;; esac
env/bin/pip install -q "$mlx" mlx-lm==0.32.2 2>/dev/null
env/bin/python - <<'PY' | tee seen
import mlx.core as mx
from mlx.utils import tree_flatten
from mlx_lm.models import falcon_h1

SIZES = dict(hidden_size=32, head_dim=8, num_attention_heads=4, num_key_value_heads=2, num_hidden_layers=1, vocab_size=64,
    intermediate_size=32, mamba_d_ssm=32, mamba_n_heads=4, mamba_d_head=8, mamba_d_state=16, tie_word_embeddings=False)


def loaded(**changes):
    """The weights of a network as `load_model` makes them of a published folder: the convolution as torch has it."""
    network = falcon_h1.Model(falcon_h1.ModelArgs(**SIZES, **changes))
    stored = {name: mx.ones(value.shape) for name, value in tree_flatten(network.parameters())}
    for name in stored:
        if "conv1d.weight" in name:
            stored[name] = stored[name].transpose(0, 2, 1)
    return network.sanitize(stored)


usual = loaded()
for field in ("embedding_multiplier", "key_multiplier"):
    changed = loaded(**{field: 3.0})
    count = sum(not mx.array_equal(usual[name], changed[name]).item() for name in usual)
    print(f"weights changed by {field}: {count}")
PY
printf 'weights changed by embedding_multiplier: 1\nweights changed by key_multiplier: 0\n' | diff - seen
