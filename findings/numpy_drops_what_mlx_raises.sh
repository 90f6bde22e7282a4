#!/usr/bin/env bash
# Bet: np.array(x) of a lazy MLX array computes it, so it raises what x.tolist() and mx.eval(x) raise.
# Happens: MLX raises within numpy's request for the buffer and holds the error for one reader only. numpy drops what that request
#   raises and asks in another way; now nothing is wrong, and it copies memory that was never computed, zeros at best.
#   memoryview(x), which has no other way, raises. So does np.array(x) after mx.eval(x).
# Packages: mlx 0.32.4 (CPU), numpy 2.4.6. Date: 2026-11-29.
# Output seen:
#   tolist      raised RuntimeError
#   memoryview  raised RuntimeError
#   np.array    returned an array
#   np.asarray  returned an array
#   eval first  raised RuntimeError
# Follows: a failed computation, such as a sum over machines one of which is gone, becomes numbers. Redline evaluates first
#   (engine.backend.to_numpy).
set -euo pipefail
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
python3 -m venv env
case $(uname) in Darwin) mlx="mlx==0.32.4" ;; *) mlx="mlx[cpu]==0.32.4" ;; esac
env/bin/pip install -q "$mlx" numpy==2.4.6 2>/dev/null
cat > read.py <<'PY'
import sys

import mlx.core as mx
import numpy as np


def evaluated_first(array):
    mx.eval(array)
    return np.array(array)


readers = {
    "tolist": mx.array.tolist,
    "memoryview": memoryview,
    "np.array": np.array,
    "np.asarray": np.asarray,
    "eval first": evaluated_first,
}
name = sys.argv[1]
singular = mx.linalg.inv(mx.zeros((2, 2)), stream=mx.cpu)  # has no inverse, which MLX finds out as it computes
try:
    found = f"returned {'an array' if isinstance(readers[name](singular), np.ndarray) else 'something else'}"
except RuntimeError as error:
    found = f"raised {type(error).__name__}"
print(f"{name:11} {found}")
PY
for reader in tolist memoryview np.array np.asarray "eval first"; do env/bin/python read.py "$reader"; done | tee seen
diff - seen <<'SEEN'
tolist      raised RuntimeError
memoryview  raised RuntimeError
np.array    returned an array
np.asarray  returned an array
eval first  raised RuntimeError
SEEN
