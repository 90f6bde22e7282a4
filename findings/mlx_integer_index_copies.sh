#!/usr/bin/env bash
# Bet: a[0] of an array in row order costs nothing in MLX, as in numpy and torch, where it is a view, and as a[0:1] does
#   in MLX. So `model(tokens)[0]` takes the logits out of a batch of one for nothing.
# Happens: an integer alone becomes a Gather, an operation of its own that copies what it selects into a new buffer. The
#   same integer in a tuple, a[0, :] or a[0, ...], becomes Slice and Squeeze, which share the buffer; so does squeeze(0).
# Package: mlx 0.32.4 with mlx-cpu, Linux on x86-64. Date: 2026-11-30.
# Output seen:
#   a[0]         Gather Squeeze    134.2 MB more, 94.8 ms
#   a[-1]        Gather Squeeze    134.2 MB more, 103.5 ms
#   a[0, :]      Slice Squeeze       0.0 MB more,  0.0 ms
#   a[0, ...]    Slice Squeeze       0.0 MB more,  0.0 ms
#   a[0:1]       Slice               0.0 MB more,  0.0 ms
# Follows: where a pass ends, a batch of one is taken apart by squeeze(0). With `logits[0]` every verify pass copies
#   its rows times the vocabulary once more, and each prompt its states once for every layer that a drafter reads.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
python3 -m venv venv
venv/bin/pip install --quiet "mlx==0.32.4" "mlx-cpu==0.32.4; sys_platform == 'linux'"
venv/bin/python - <<'PYTHON'
import re
import time
import mlx.core as mx

a = mx.random.normal((2, 4096, 8192))
mx.eval(a)
row_bytes = a.nbytes // 2
views = {"a[0, :]": lambda: a[0, :], "a[0, ...]": lambda: a[0, ...], "a[0:1]": lambda: a[0:1]}
copies = {"a[0]": lambda: a[0], "a[-1]": lambda: a[-1]}
surprise = True
for name, select in {**copies, **views}.items():
    mx.export_to_dot("graph.dot", select())
    operations = re.findall(r'label ="(\w+)"', open("graph.dot").read())
    seconds, more = [], []
    for _ in range(5):
        mx.clear_cache()
        before, began = mx.get_active_memory(), time.perf_counter()
        found = select()
        mx.eval(found)
        seconds.append(time.perf_counter() - began)
        more.append(mx.get_active_memory() - before)
        del found
    print(f"{name:12} {' '.join(operations):16} {max(more) / 1e6:6.1f} MB more, {1e3 * min(seconds):4.1f} ms")
    surprise &= (max(more) >= row_bytes and "Gather" in operations) == (name in copies)
    if name in views:
        surprise &= max(more) < row_bytes // 10 and "Gather" not in operations
raise SystemExit(0 if surprise else "changed: see above")
PYTHON
