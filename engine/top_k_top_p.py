"""The edges of top-k and top-p, found without sorting a vocabulary.

On Metal every sort of more than 2,048 floats is a merge sort over several blocks and a dozen dispatches
(`gpu_merge_sort` in MLX's `backend/metal/sort.cpp`: 512 threads of 4 values), for each row of each pass. A row of
logits has up to 262,144 entries, of which sampling wants a few.

Every row is treated alone and alike whatever the number of rows, so that a verify pass truncates as a plain step does.
That is why the nucleus adds up whole numbers: MLX adds floats of one row in another order than floats of many rows
(`Reduce::eval_gpu` in `backend/metal/reduce.cpp`), and a token at the edge could be in with one order and out with the
other.
"""

import math

import mlx.core as mx

SORT_WIDTH = 2048  # the most float32 values that one threadgroup sorts
_MASS_BITS = 31  # probability 1 as a whole number, in bits: the sum of a row fits in 32


def largest(values: mx.array, count: int) -> mx.array:
    """Returns the columns of the `count` largest values of each row, largest first: (rows, count) int32.

    values: (rows, width), without NaN. Equal values come in no particular order. The `count` largest lie in the `count`
    groups of neighbours whose maxima are largest or in the rest that fills no group: only these are looked at again.
    """
    rows, width = values.shape
    group = -(-width // SORT_WIDTH)
    if group == 1 or count * group >= width:
        return mx.argsort(-values, -1)[:, :count].astype(mx.int32)
    groups = width // group
    rest = mx.arange(groups * group, width, dtype=mx.uint32)
    maxima = mx.max(values[:, : groups * group].reshape(rows, groups, group), -1)
    best_groups = mx.argsort(-maxima, -1)[:, :count]
    columns = (best_groups[..., None] * group + mx.arange(group, dtype=mx.uint32)).reshape(rows, count * group)
    columns = mx.concatenate([columns, mx.broadcast_to(rest, (rows, rest.size))], -1)
    within = largest(mx.take_along_axis(values, columns, -1), count)
    return mx.take_along_axis(columns, within, -1).astype(mx.int32)


def outside_nucleus(logprobs: mx.array, top_p: float, ranked: mx.array | None = None) -> mx.array:
    """Returns which tokens lie outside the smallest set of likeliest tokens whose mass reaches `top_p`, ties with its
    least likely one included (Holtzman 2019, arXiv 1904.09751): (rows, width) bool.

    A token is inside while the mass of all likelier ones is below `top_p`. logprobs: (rows, width), normalised. ranked:
    (rows, n), the largest of them in descending order, if the others are -inf or equal to the last of these.
    """
    if ranked is None:
        find = _outside_by_sort if logprobs.shape[-1] <= SORT_WIDTH else _outside_by_bisection
        return find(logprobs, top_p)
    mass_before = mx.cumsum(mx.exp(ranked), -1, inclusive=False)
    return logprobs < mx.min(mx.where(mass_before < top_p, ranked, math.inf), -1, keepdims=True)


def _outside_by_sort(logprobs: mx.array, top_p: float) -> mx.array:
    """Finds what `_outside_by_bisection` does, to the last token, in rows that one threadgroup sorts."""
    surprisal, mass, wanted = _whole_numbers(logprobs, top_p)
    order = mx.argsort(surprisal, -1)
    before = mx.cumsum(mx.take_along_axis(mass, order, -1), -1, inclusive=False)
    edge = mx.max(mx.where(before < wanted, mx.take_along_axis(surprisal, order, -1), 0), -1, keepdims=True)
    return surprisal > edge


def _outside_by_bisection(logprobs: mx.array, top_p: float) -> mx.array:
    """Finds the largest surprisal inside bit by bit, from the highest."""
    surprisal, mass, wanted = _whole_numbers(logprobs, top_p)
    edge = mx.zeros((logprobs.shape[0], 1), mx.uint32)
    for bit in reversed(range(31)):
        candidate = edge | (1 << bit)
        likelier = mx.sum(mx.where(surprisal < candidate, mass, 0), -1, keepdims=True)
        edge = mx.where(likelier < wanted, candidate, edge)
    return surprisal > edge


def _whole_numbers(logprobs: mx.array, top_p: float) -> tuple[mx.array, mx.array, int]:
    """Returns each token's surprisal and mass, and the mass that is wanted. A surprisal is not negative, so that its
    bits order as its values do."""
    surprisal = mx.abs(mx.maximum(-logprobs, 0.0)).view(mx.uint32)
    mass = mx.round(mx.exp(logprobs) * 2.0**_MASS_BITS).astype(mx.uint32)
    return surprisal, mass, math.ceil(top_p * 2**_MASS_BITS)
