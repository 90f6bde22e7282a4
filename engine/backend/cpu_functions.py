"""Functions of float32 that MLX's CPU backend computes slowly on Linux, made of those that it computes quickly.

It computes number by number there. An exponential (27 ns) is a polynomial each step of which calls the C library, and
a power (7 ns) is one call. So exponentials are powers of e here, which are no less accurate. Where other backends have
one kernel, rotary embeddings and attention are many operations of 3 to 10 us each: a rotation works its angles out anew
in every layer, and attention copies keys and values for each of the query heads that share them. (MLX 0.32.4; times of
2026-11-30.)

Plain steps and verify passes keep MLX's attention: which kernels OpenBLAS takes for a product depends on queries times
keys, so with query heads as rows of one product a step and a verify pass round differently at some lengths of a text
and alike at others, and `engine.audit.identical_width` could not be sure.
"""

import math
import sys
import threading
from functools import cache, lru_cache
from typing import Any

import mlx.core as mx

from engine import backend

_QUERIES_AT_ONCE = 128  # of a causal attention, so that few scores are computed only to be masked
_MOST_VERIFIED = 32  # queries of a verify pass
_LONGEST_SHARED = 512  # tokens whose angles are kept for the other layers of a pass

_exp, _sigmoid, _logsumexp = mx.exp, mx.sigmoid, mx.logsumexp
_rope, _attention = mx.fast.rope, mx.fast.scaled_dot_product_attention


def install() -> None:
    """Puts these functions in the place of MLX's, if this process computes with that backend."""
    if replaces():
        replaced: dict[Any, list[Any]] = {mx: [exp, sigmoid, logsumexp], mx.fast: [rope, scaled_dot_product_attention]}
        for module, functions in replaced.items():
            for function in functions:
                setattr(module, function.__name__, function)


@cache
def replaces() -> bool:
    """Whether functions of MLX are replaced in this process."""
    return sys.platform == "linux" and backend.describe().device == "cpu"


def _is_float32(a: Any) -> bool:
    return isinstance(a, mx.array) and a.dtype == mx.float32


def exp(a: Any, /, *, stream: Any = None) -> mx.array:
    """`mx.exp`."""
    return mx.power(math.e, a, stream=stream) if _is_float32(a) else _exp(a, stream=stream)


def sigmoid(a: Any, /, *, stream: Any = None) -> mx.array:
    """`mx.sigmoid`, but at least 4e-18, as the gradient of a quotient with a larger power overflows."""
    if not _is_float32(a):
        return _sigmoid(a, stream=stream)
    return mx.reciprocal(mx.power(1 / math.e, mx.maximum(a, -40, stream=stream), stream=stream) + 1, stream=stream)


def logsumexp(a: mx.array, /, axis: Any = None, keepdims: bool = False, *, stream: Any = None) -> mx.array:
    """`mx.logsumexp`."""
    if not _is_float32(a):
        return _logsumexp(a, axis, keepdims, stream=stream)
    most = mx.maximum(mx.max(a, axis, keepdims=True, stream=stream), -3e38, stream=stream)  # all may be -inf
    total = mx.sum(exp(a - most, stream=stream), axis, keepdims=keepdims, stream=stream)
    return mx.log(total, stream=stream) + most.reshape(total.shape)


def rope(
    a: mx.array,
    dims: int,
    *,
    traditional: bool,
    base: float | None,
    scale: float,
    offset: int | mx.array,
    freqs: mx.array | None = None,
) -> mx.array:
    """`mx.fast.rope`. All layers of a pass share the cosines and sines of its positions."""
    if not _is_float32(a):
        return _rope(a, dims, traditional=traditional, base=base, scale=scale, offset=offset, freqs=freqs)
    half, rest = dims // 2, a.shape[:-1]
    base_or_freqs: Any = base if freqs is None else freqs
    cos_and_sin = _shared.cos_and_sin if a.shape[-2] <= _LONGEST_SHARED else _cos_and_sin
    cos, sin = cos_and_sin(half, base_or_freqs, scale, offset, a.shape[-2], a.ndim, traditional)
    if traditional:
        pairs = a[..., :dims].reshape(*rest, half, 2)
        rotated = pairs * cos + pairs[..., ::-1] * sin
    else:
        pairs = a[..., :dims].reshape(*rest, 2, half)
        rotated = pairs * cos + pairs[..., ::-1, :] * sin
    rotated = rotated.reshape(*rest, dims)
    return rotated if dims == a.shape[-1] else mx.concatenate([rotated, a[..., dims:]], -1)


def _cos_and_sin(
    half: int,
    base_or_freqs: float | mx.array,
    scale: float,
    offset: int | mx.array,
    length: int,
    ndim: int,
    traditional: bool,
) -> tuple[mx.array, mx.array]:
    """Returns the cosines of the angles by which pairs of numbers are rotated, and their sines: minus the sine for the
    first number of a pair, the sine for the second. A pair is an axis of two.

    base_or_freqs: the base, or what MLX calls frequencies: wavelengths over 2 pi, (half,). offset: one for all texts,
    or (batch,).
    """
    given = isinstance(base_or_freqs, mx.array)
    wavelengths = base_or_freqs if given else mx.power(base_or_freqs, mx.arange(half) / half)
    positions = mx.arange(length)
    if isinstance(offset, mx.array) and offset.ndim:
        offset = offset.reshape(-1, *[1] * (ndim - 2))
    angles = ((positions + offset) * scale)[..., None] / wavelengths
    cos, sin = mx.cos(angles), mx.sin(angles)
    axis = -1 if traditional else -2
    return mx.expand_dims(cos, axis), mx.stack([-sin, sin], axis)


def scaled_dot_product_attention(
    q: mx.array,
    k: mx.array,
    v: mx.array,
    *,
    scale: float,
    mask: str | mx.array | None = None,
    sinks: mx.array | None = None,
) -> mx.array:
    """`mx.fast.scaled_dot_product_attention`. Only that of prompts is computed here, some of its queries at a time."""
    queries, keys = q.shape[2], k.shape[2]
    if queries <= _MOST_VERIFIED or keys < queries or not all(map(_is_float32, (q, k, v))):
        return _attention(q, k, v, scale=scale, mask=mask, sinks=sinks)
    if not isinstance(mask, str):
        return _attend(q, k, v, scale, mask, sinks)
    parts, before = [], keys - queries
    for begin in range(0, queries, _QUERIES_AT_ONCE):
        end = min(begin + _QUERIES_AT_ONCE, queries)
        seen = slice(before + end)
        hidden = mx.pad(_shared.later_tokens(end - begin), [(0, 0), (before + begin, 0)])
        parts.append(_attend(q[:, :, begin:end], k[:, :, seen], v[:, :, seen], scale, hidden, sinks))
    return mx.concatenate(parts, 2)


def _later_tokens(count: int) -> mx.array:
    """Returns the mask, added to scores, that hides from each of `count` tokens those after it: (count, count)."""
    return _additive(mx.arange(count)[:, None] >= mx.arange(count))


class _SharedByLayers(threading.local):
    """What the layers of a pass share. The latest few are kept, since kinds of layers, heads and replies at once differ
    in it; each thread keeps its own, since MLX's lazy arrays belong to a thread."""

    def __init__(self) -> None:
        self.cos_and_sin = lru_cache(maxsize=16)(_cos_and_sin)
        self.later_tokens = lru_cache(maxsize=16)(_later_tokens)


_shared = _SharedByLayers()


def _attend(
    q: mx.array, k: mx.array, v: mx.array, scale: float, mask: mx.array | None, sinks: mx.array | None
) -> mx.array:
    """Returns attention (arXiv 1706.03762) whose query heads are the rows of one product for each head of keys."""
    batch, heads, queries, width = q.shape
    key_heads, keys = k.shape[1:3]
    grouped = (batch, key_heads, heads // key_heads, queries, keys)
    scores = ((q * scale).reshape(batch, key_heads, -1, width) @ k.swapaxes(-1, -2)).reshape(grouped)
    if mask is not None:
        scores = scores + _by_key_head(_additive(mask), key_heads)
    most = mx.max(scores, -1, keepdims=True)
    if sinks is not None:
        sinks = sinks.reshape(key_heads, -1, 1, 1)
        most = mx.maximum(most, sinks)
    weights = exp(scores - most)
    total = mx.sum(weights, -1, keepdims=True)
    if sinks is not None:
        total = total + exp(sinks - most)
    attended = (weights.reshape(batch, key_heads, -1, keys) @ v).reshape(*grouped[:-1], v.shape[-1])
    return (attended / total).reshape(batch, heads, queries, v.shape[-1])


def _additive(mask: mx.array) -> mx.array:
    """Returns a mask that is added to scores."""
    return mx.where(mask, 0.0, mx.finfo(mx.float32).min) if mask.dtype == mx.bool_ else mask


def _by_key_head(mask: mx.array, key_heads: int) -> mx.array:
    """Returns a mask of up to four axes, (batch, heads, queries, keys), whose heads, if it has any, become two axes:
    heads of keys, and query heads that share them."""
    return mask if mask.ndim < 3 else mx.unflatten(mask, -3, (min(key_heads, mask.shape[-3]), -1))
