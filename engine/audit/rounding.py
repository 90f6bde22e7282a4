"""Rounding or mistake? What the passes of plain decoding and of a reply show about a token on which they differ.

    score    what the choice is the argmax of: shaped logits when greedy, log p + Gumbel noise when coupled
    gap      plain token's score - other token's score, in the pass of plain decoding
    noise    the largest difference that rounding makes to a score: of the logits of the plain and of a wide
             pass after the same tokens, after penalties and over the temperature
    ULP      of the type of the logits (bfloat16 on Metal, mostly), at the larger of the two tokens' logits and over the
             temperature; gap and noise are in the same ULPs

The plain pass is plain decoding itself, run again step by step. The wide pass follows a clean
prefill, not the rounds that led to it: what a wrong rewind leaves in the caches must not pass as noise.

Is noise rounding at all? In float32 hardly any is left. In 16 bits, and with quantized weights, it may be some percent
of the logits, as large as what a mistake in wide passes makes; so there both passes are computed once more with
everything in float32 but the quantized weights, and must agree as closely as float32 does.
"""

import math
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import mlx.core as mx
import numpy as np
from mlx.utils import tree_flatten

from engine import backend
from engine.audit.receipt import MARGIN, Difference
from engine.events import Round
from engine.sampling import Sampler, TokenCounts
from engine.target.cached_model import CachedModel
from engine.target.sharded_target import check_present
from engine.tree.draft_tree import DraftTree

# More noise than this, as a share of the largest logit, is no rounding: 2^12 ULPs of float32, 2^4 of bfloat16. The
# latter is only for targets of which float32 cannot be had.
_ROUNDING, _COARSE_ROUNDING = 2.0**-11, 2.0**-4
_COARSE = (mx.float16, mx.bfloat16, mx.uint32)  # uint32: quantized
_MOST_COPIED_BYTES = 8 << 30  # that a target's 16-bit numbers may take in float32
_DIGITS = {mx.bfloat16: 8, mx.float16: 11}  # of the mantissa, the leading one included; else those of float32


class Mismatch(NamedTuple):
    """A token that differs, as the plain pass sees it. position: in the reply. plain: None where any possible token
    would have been right, and `other` is not possible. gap: infinite where p(other) is 0. logits: (1, vocabulary)."""

    position: int
    plain: int | None
    other: int
    gap: float
    ulp: float
    logits: mx.array | None


def mismatch_at(
    sampler: Sampler, logits: mx.array, before: list[int], position: int, plain: int | None, other: int
) -> Mismatch:
    """Returns the mismatch at `position`. logits: (1, vocabulary) of the plain pass after `before`, prompt included."""
    scores = choice_scores(sampler, logits, before)
    gap = math.inf if plain is None else float(scores[plain]) - float(scores[other])
    row: Any = backend.to_numpy(logits[0].astype(mx.float32))
    sizes = [abs(float(row[token])) for token in (plain, other) if token is not None]
    ulp = _step(logits.dtype, max(filter(math.isfinite, sizes), default=1.0)) / (sampler.sampling.temperature or 1.0)
    return Mismatch(position, plain, other, gap, ulp, logits)


def measure_noise(
    target: CachedModel,
    sampler: Sampler,
    mismatch: Mismatch,
    before: Sequence[int],
    rounds: Sequence[Round],
    between: Callable[[], None] = lambda: None,
) -> Difference:
    """Measures the noise at a mismatch, after the tokens `before`, in a pass as wide as that of the reply's `rounds`.

    Runs `target` from nothing. between: called between passes; may raise to break off.
    """
    round_, place = _pass_of(rounds, mismatch.position)
    narrow, wide = mismatch.logits, _wide_logits(target, before, round_, place, between)
    assert narrow is not None
    if sampler.grammar is not None:  # what it refuses is not in `narrow`
        wide = mx.where(narrow == -math.inf, -math.inf, wide)
    rounding = _agree(narrow, wide, _ROUNDING)
    if not rounding and _is_coarse(target):
        rounding = _is_coarse_rounding(target, narrow, wide, before, round_, place, between)
    tokens, gap = list(before), mismatch.gap
    noise = _largest(_adjusted(sampler, narrow, tokens) - _adjusted(sampler, wide, tokens))
    noise /= sampler.sampling.temperature or 1.0
    if math.isinf(gap):
        scores = choice_scores(sampler, wide, tokens)
        rounded = (
            math.isfinite(scores[mismatch.other])
            if mismatch.plain is None
            else int(np.argmax(scores)) == mismatch.other
        )
        gap = noise if rounded else gap  # rounding moved the edge of the distribution past the token: at most so far
    near = rounding and abs(gap) <= MARGIN * noise
    gap_ulps = gap / mismatch.ulp if math.isfinite(gap) else None
    return Difference(mismatch.position, mismatch.plain, mismatch.other, gap_ulps, noise / mismatch.ulp, near)


def assume_noise(mismatch: Mismatch, measured: Sequence[Difference]) -> Difference:
    """Returns the difference without passes: its noise, in ULPs, is assumed to be the largest of the measured
    near-ties."""
    noise = max((one.noise_ulps or 0.0 for one in measured if one.near_tie), default=0.0)
    if not math.isfinite(mismatch.gap):
        return Difference(mismatch.position, mismatch.plain, mismatch.other, None, noise, near_tie=False)
    gap = mismatch.gap / mismatch.ulp
    return Difference(mismatch.position, mismatch.plain, mismatch.other, gap, noise, abs(gap) <= MARGIN * noise)


def choice_scores(sampler: Sampler, logits: mx.array, before: list[int]) -> Any:
    """Returns what the choice after `before` is the argmax of, (vocabulary,) float32 in numpy; -inf where p is 0."""
    scores, _ = sampler.score(logits, TokenCounts(sampler.distribution, before).rows(), len(before))
    return backend.to_numpy(scores[0])


def feed_afresh(target: CachedModel, tokens: Sequence[int], between: Callable[[], None] = lambda: None) -> None:
    """Clears the caches and feeds all but the last of `tokens`."""
    clear_caches(target)
    target.read_as(len(tokens))
    for _ in target.prefill(tokens[:-1], cancelled=between):
        between()


def clear_caches(target: CachedModel) -> None:
    """Replaces the caches, as what a wrong rewind leaves in them must not be compared with itself."""
    target.rewind(0)
    target.cache.reset()


def _is_coarse(target: CachedModel) -> bool:
    """Returns whether a target keeps coarser numbers than float32 between passes."""
    return any(array.dtype in _COARSE for array in target.cache.arrays())


def _is_coarse_rounding(
    target: CachedModel,
    narrow: mx.array,
    wide: mx.array,
    before: Sequence[int],
    round_: Round,
    place: int,
    between: Callable[[], None],
) -> bool:
    """Returns whether what the logits of a plain and of a wide pass differ by is rounding in 16 bits: it is gone in
    float32. Where that cannot be computed, because it takes too much memory or keys and values are quantized, whether
    it is no larger than rounding makes it."""
    network = target.model
    stored: Any = network.parameters()
    weights: Any = tree_flatten(stored)
    floats = [value.nbytes for _, value in weights if mx.issubdtype(value.dtype, mx.floating)]
    copied_bytes, most_bytes = 2 * sum(floats), backend.wired_bytes()
    no_room = most_bytes is not None and copied_bytes + mx.get_active_memory() > most_bytes
    if target.kv_bits is not None or copied_bytes > _MOST_COPIED_BYTES or no_room:
        return _agree(narrow, wide, _COARSE_ROUNDING)
    try:
        network.set_dtype(mx.float32)
        feed_afresh(target, before, between)
        fine, _ = target.continue_from(before, mx.zeros(0, mx.int32))
        mx.eval(fine)
        return _agree(fine, _wide_logits(target, before, round_, place, between), _ROUNDING)
    finally:
        network.update(stored)
        clear_caches(target)


def _agree(narrow: mx.array, wide: mx.array, share: float) -> bool:
    """Returns whether logits differ by no more than this share of the largest."""
    return _largest(narrow - wide) <= share * _largest(narrow)


def _step(dtype: mx.Dtype, size: float) -> float:
    """Returns the distance between two neighbouring numbers of a type near `size`."""
    return math.ldexp(1.0, math.frexp(size)[1] - _DIGITS.get(dtype, 24)) if size else math.ldexp(1.0, -149)


def _adjusted(sampler: Sampler, logits: mx.array, before: list[int]) -> mx.array:
    """Returns the logits (1, vocabulary) after `before`, with bias and penalties."""
    return sampler.distribution.adjust(logits, TokenCounts(sampler.distribution, before).rows())


def _wide_logits(
    target: CachedModel, before: Sequence[int], round_: Round, place: int, between: Callable[[], None]
) -> mx.array:
    """Returns the logits (1, vocabulary) after `before` from the verify pass of `round_`, whose token at `place`
    follows it."""
    tokens = before[: len(before) - place]
    feed_afresh(target, tokens, between)
    tree = None if round_.parents is None else DraftTree.of(round_.parents)
    draft = mx.array([max(token, 0) for token in round_.drafted], mx.int32)
    logits, _ = target.continue_from(tokens, draft, tree)
    row = place if tree is None or place == 0 else round_.path[place - 1] + 1
    mx.eval(logits)
    check_present(target.absent)
    return logits[row : row + 1]


def _pass_of(rounds: Sequence[Round], position: int) -> tuple[Round, int]:
    """Returns the round that chose the token at `position` of the reply, and the place of that token in it."""
    start = 0
    for round_ in rounds:
        if position < start + len(round_.tokens):
            return round_, position - start
        start += len(round_.tokens)
    raise ValueError(f"the rounds hold {start} tokens and none at {position}")


def _largest(values: mx.array) -> float:
    """Returns the largest magnitude, padding logits of -inf aside."""
    magnitudes = np.abs(backend.to_numpy(values.astype(mx.float32)))
    return float(np.max(magnitudes[np.isfinite(magnitudes)], initial=0.0))
