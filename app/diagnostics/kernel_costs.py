"""What a pass of the built-in model costs by its rows, and the kernels under one: 4-bit products and attention, in
layers of an 8B model.

On Metal each becomes dearer in steps (engine/README.md, "How long passes take on Metal"). Every time is the quickest of
several, over weights that no cache holds from the time before; the widths take turns.
"""

import time
from collections.abc import Callable, Sequence

import mlx.core as mx

from engine.backend import describe
from engine.target.cached_model import CachedModel

ROWS = (*range(1, 12), 13, 16, 17, 32, 33)  # every one of a chain, and the first and last of Metal's other kernels
SHARED_HEADS = (1, 4, 8)  # query heads for each head of keys and values
CONTEXT = 64
_REPEATS = 5
_HEAD, _KV_HEADS = 128, 8


def pass_times(target: CachedModel, rows: Sequence[int], pause: Callable[[], None]) -> dict[int, float]:
    """Returns the seconds of a pass of a whole model after `CONTEXT` tokens, by rows. Leaves its cache empty. pause:
    called before each pass; may raise to break off."""
    tokens = [1 + i % (target.vocabulary - 1) for i in range(CONTEXT)]
    target.rewind(0)
    for _ in target.prefill(tokens):
        pause()

    def one_pass(width: int) -> list[mx.array]:
        pause()
        target.rewind(CONTEXT)
        return [target.forward(mx.array(tokens[:width]))]

    found = _quickest(one_pass, rows)
    target.rewind(0)
    return found


def product_times(rows: Sequence[int]) -> dict[int, float]:
    """Returns the seconds of one product of so many rows with a 4-bit matrix, by rows; a small one on a CPU."""
    gpu = describe().device == "gpu"
    outputs, inputs, layers = (14336, 4096, 8) if gpu else (512, 256, 2)
    dtype = mx.bfloat16 if gpu else mx.float32
    weights = [mx.quantize(mx.random.normal((outputs, inputs)).astype(dtype)) for _ in range(layers)]
    mx.eval(weights)

    def products(width: int) -> list[mx.array]:
        x = mx.random.normal((width, inputs)).astype(dtype)
        mx.eval(x)
        return [mx.quantized_matmul(x, *weight) for weight in weights]

    return {width: seconds / layers for width, seconds in _quickest(products, rows).items()}


def attention_times(shared: int, rows: Sequence[int]) -> dict[int, float]:
    """Returns the seconds of attention of so many rows over 1,024 keys (64 on a CPU), by rows. shared: query heads for
    each head of keys and values."""
    gpu = describe().device == "gpu"
    length, dtype = (1024, mx.bfloat16) if gpu else (64, mx.float32)
    keys, values = (mx.random.normal((1, _KV_HEADS, length, _HEAD)).astype(dtype) for _ in range(2))
    mx.eval(keys, values)

    def attention(width: int) -> list[mx.array]:
        queries = mx.random.normal((1, _KV_HEADS * shared, width, _HEAD)).astype(dtype)
        mx.eval(queries)
        return [mx.fast.scaled_dot_product_attention(queries, keys, values, scale=0.1, mask="causal")]

    return _quickest(attention, rows)


def _quickest(work: Callable[[int], list[mx.array]], rows: Sequence[int]) -> dict[int, float]:
    times: dict[int, list[float]] = {width: [] for width in rows}
    for turn in range(_REPEATS + 1):
        for width in rows:
            arrays = work(width)
            began = time.perf_counter()
            mx.eval(arrays)
            if turn:
                times[width].append(time.perf_counter() - began)
    return {width: min(seen) for width, seen in times.items()}
