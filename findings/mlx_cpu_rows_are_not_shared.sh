#!/usr/bin/env bash
# Bet: one token for a matrix of 32 MB takes the time of reading it, so eight tokens at once take little longer: that is what
#   a verify pass of speculative decoding, and a server that batches requests, live on, on a processor as elsewhere.
# Happens: MLX's wheel for Linux on x86-64 brings the reference BLAS, which reads the matrix anew for each row. Eight rows take
#   about eight times as long as one, and 4-bit products do the same. So no draft can pay there, and a batch gains nothing.
# Package: mlx 0.32.4 (mlx[cpu], Linux x86-64). Date: 2026-11-29.
# Output seen (times of eight rows, in those of one; beside other work, and 8.0 and 7.4 in another run with none):
#   float32 18.0, 4 bits 15.8
#   eight rows take at least four times as long as one: float32 True, 4 bits True
# Follows: whoever measures drafts or batches with this wheel measures the BLAS. Another library that has cblas_sgemm and is
#   loaded with global symbols before MLX takes its place (with OpenBLAS a small model takes 1.2 to 1.7 times as long for eight
#   rows as for one); that does nothing for 4-bit weights, which have to be float32 then.
set -euo pipefail
[ "$(uname -sm)" = "Linux x86_64" ] || { echo "this is about the wheel for Linux on x86-64"; exit 0; }
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
python3 -m venv env
env/bin/pip install -q "mlx[cpu]==0.32.4" 2>/dev/null
env/bin/python - <<'PY' | tee seen
import time

import mlx.core as mx

matrix = mx.random.normal((4096, 2048))
packed = mx.quantize(matrix, group_size=64, bits=4)
products = {
    "float32": lambda x: x @ matrix.T,
    "4 bits": lambda x: mx.quantized_matmul(x, *packed, transpose=True, group_size=64, bits=4),
}


def seconds(product, rows):
    """The quickest of ten."""
    x, found = mx.random.normal((rows, 2048)), []
    mx.eval(x)
    for _ in range(10):
        began = time.perf_counter()
        mx.eval(product(x))
        found.append(time.perf_counter() - began)
    return min(found)


ratios = {name: seconds(product, 8) / seconds(product, 1) for name, product in products.items()}
print(", ".join(f"{name} {ratio:.1f}" for name, ratio in ratios.items()))
dear = ", ".join(f"{name} {ratio >= 4}" for name, ratio in ratios.items())
print(f"eight rows take at least four times as long as one: {dear}")
PY
tail -1 seen | diff - <(echo "eight rows take at least four times as long as one: float32 True, 4 bits True")
