#!/usr/bin/env bash
# Bet: to give a row of hidden states the same bits whether it is multiplied alone (plain decoding) or with others (a verify
#   pass, a batch of requests) costs time: batch-invariant kernels forgo what a library does for each shape. And cutting a
#   matrix of weights into 512 small products can only be slower than one large product.
# Happens: with OpenBLAS on a processor with AVX-512 the cut product is up to twice as quick for one to four rows, and each row has
#   the same bits among any number of others; the whole product gives a row other bits by how many there are. Beyond 10^6 multiplications, or 1,200
#   results, OpenBLAS packs the whole matrix anew for each product; below them it takes kernels that pack nothing and sum in
#   one order (kernel/x86_64/sgemm_small_kernel_permit_skylakex.c). Few matrices of a language model are below.
# Package: scipy-openblas32 0.3.34.481.3, called as MLX's CPU backend calls a BLAS. Date: 2026-11-29.
# Output seen:
#   time of cut products, of whole ones: 1 row(s) 0.52, 2 row(s) 0.50, 4 row(s) 0.68     (beside other work)
#   a row has the same bits alone and with others: whole False, cut True
#   cut products are quicker: True
# Follows: on such processors matrices of weights are best multiplied as a batch of blocks of 8 to 64 of their rows, a view that
#   copies nothing, up to a dozen rows of states. Above, packing pays.
set -euo pipefail
grep -qs avx512f /proc/cpuinfo || { echo "this is about processors with AVX-512, on Linux"; exit 0; }
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
python3 -m venv env
env/bin/pip install -q numpy==2.3.5 scipy-openblas32==0.3.34.481.3 2>/dev/null
OPENBLAS_NUM_THREADS=1 env/bin/python - <<'PY' | tee seen
import ctypes
import time
from pathlib import Path

import numpy as np
import scipy_openblas32

library = ctypes.CDLL(str(next(Path(scipy_openblas32.__file__).parent.rglob("libscipy_openblas.so"))))
sgemm, number, at = library.scipy_cblas_sgemm, ctypes.c_int, ctypes.c_void_p
sgemm.argtypes = [*[number] * 6, ctypes.c_float, at, number, at, number, ctypes.c_float, at, number]
random = np.random.default_rng(0)
tall = random.standard_normal((49152, 576), dtype=np.float32)  # an output matrix
wide = random.standard_normal((576, 1536), dtype=np.float32)  # what brings an MLP back to the hidden size


def product(x, weight, block):
    """x (rows, inputs) times the transposed weight (outputs, inputs), in blocks of its rows, as MLX calls it."""
    outputs, inputs = weight.shape
    out = np.empty((outputs // block, len(x), block), np.float32)
    states, rows, first, to = x.ctypes.data, len(x), weight.ctypes.data, out.ctypes.data
    for _ in range(outputs // block):
        sgemm(101, 111, 112, rows, block, inputs, 1, states, inputs, first, inputs, 0, to, block)
        first, to = first + 4 * block * inputs, to + 4 * block * rows
    return out.swapaxes(0, 1).reshape(len(x), outputs)


def seconds(rows, block):
    """The quickest of fifteen."""
    x, found = random.standard_normal((rows, 576), dtype=np.float32), []
    for _ in range(15):
        began = time.perf_counter()
        product(x, tall, block)
        found.append(time.perf_counter() - began)
    return min(found)


def same(block):
    x = random.standard_normal((8, 1536), dtype=np.float32)
    alone = product(x[:1], wide, block)[0]
    return all(np.array_equal(product(x[:rows], wide, block)[0], alone) for rows in range(2, 9))


ratios = {rows: seconds(rows, 96) / seconds(rows, 49152) for rows in (1, 2, 4)}
print("time of cut products, of whole ones:", ", ".join(f"{rows} row(s) {one:.2f}" for rows, one in ratios.items()))
print(f"a row has the same bits alone and with others: whole {same(576)}, cut {same(48)}")
print(f"cut products are quicker: {all(one < 0.85 for one in ratios.values())}")
PY
tail -2 seen | diff - <(printf '%s\n' "a row has the same bits alone and with others: whole False, cut True" "cut products are quicker: True")
