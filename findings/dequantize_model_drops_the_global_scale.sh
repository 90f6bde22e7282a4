#!/usr/bin/env bash
# mlx-lm's dequantize_model leaves out the global scale of nvfp4 experts.
#
# Bet: mlx_lm.utils.dequantize_model (and so `mlx_lm.convert --dequantize`) is the inverse of quantization: the plain
#   layer computes what the quantized one does, up to the rounding of the weights.
# Happens: for SwitchLinear layers quantized to nvfp4 with a global scale for each expert (`global_scale=True`, which
#   mlx-lm sets by itself for checkpoints that have such scales), dequantize_model ignores that scale without a word:
#   the largest weight of every expert comes out as 2688 (6 x 448). Without a global scale, all is well.
# Packages: mlx[cpu] 0.32.4, mlx-lm 0.32.2. Date: 2026-11-28.
# Seen:
#   nvfp4 without a global scale: largest weight 0.125, dequantized 0.129, ratio 1.0
#   nvfp4 with a global scale:    largest weight 0.125, dequantized 2688.000, ratio 21505.4
# Follows: whoever dequantizes such a model (to run it on the CPU, to fuse an adapter, to quantize it otherwise) must
#   multiply the scales in, expert by expert: `mx.dequantize(w[e], scales[e], mode="nvfp4", global_scale=gs[e], ...)`.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet "mlx[cpu]==0.32.4" "mlx-lm==0.32.2"
cat > "$folder/seen.py" <<'PY'
import mlx.core as mx
import mlx.nn as nn
from mlx_lm.models.switch_layers import SwitchLinear
from mlx_lm.utils import dequantize_model

ratios = []
for global_scale in (False, True):
    mx.random.seed(0)
    experts = SwitchLinear(64, 32, 2, bias=False)
    largest = mx.abs(experts.weight).max().item()
    more = {"global_scale": True} if global_scale else {}
    model = nn.Sequential(experts.to_quantized(group_size=16, bits=4, mode="nvfp4", **more))
    found = mx.abs(dequantize_model(model).layers[0].weight.astype(mx.float32)).max().item()
    name = "with a global scale:   " if global_scale else "without a global scale:"
    print(f"nvfp4 {name} largest weight {largest:.3f}, dequantized {found:.3f}, ratio {found / largest:.1f}")
    ratios.append(found / largest)
assert 0.8 < ratios[0] < 1.2, "without a global scale it was right"
assert ratios[1] > 1000, "with a global scale it was thousands of times too large: this has changed"
PY
"$folder/venv/bin/python" "$folder/seen.py"
