"""Rounding or mistake? What the passes of two ways of decoding say about a token on which they differ.

    score    what the choice is the argmax of: shaped logits when greedy, log p + Gumbel noise when coupled
    gap      plain token's score - other token's score, in the pass of plain decoding
    noise    the largest difference that rounding makes to a score: of the logits of the plain and of a wide
             pass behind the same tokens, after penalties and over the temperature
    ULP      of float32, at the larger of the two scores; gap and noise are in the same ULPs

The plain pass is plain decoding itself, run again step by step. The wide pass stands behind a clean
prefill, not behind the rounds that led to it: what a wrong rewind leaves behind must not pass as noise.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import mlx.core as mx
import numpy as np

from engine.choice import Chooser
from engine.events import Round
from engine.receipt import MARGIN, Difference
from engine.sampling import Context, Stream
from engine.target import CachedModel
from engine.tree import Tree

# More noise than this, as a share of the largest logit, is no rounding: 2^12 ULPs of float32, 2^4 of bfloat16.
_ROUNDING, _COARSE_ROUNDING = 2.0**-11, 2.0**-4
_COARSE = (mx.float16, mx.bfloat16, mx.uint32)  # uint32: quantized


class Met(NamedTuple):
    """A difference as the plain pass sees it. position: in the reply. plain: None where any token that is possible
    would have done, and `other` is not. gap: infinite where the law gives `other` no chance. logits: (1, words)."""

    position: int
    plain: int | None
    other: int
    gap: float
    ulp: float
    logits: mx.array | None


def meet(chooser: Chooser, logits: mx.array, before: list[int], position: int, plain: int | None, other: int) -> Met:
    """logits: (1, vocabulary) of the plain pass behind `before`, prompt included."""
    scores = scores_of(chooser, logits, before)
    gap = math.inf if plain is None else float(scores[plain]) - float(scores[other])
    sizes = [abs(float(scores[token])) for token in (plain, other) if token is not None]
    ulp = float(np.spacing(np.float32(max(filter(math.isfinite, sizes), default=1.0))))
    return Met(position, plain, other, gap, ulp, logits)


def judge(
    target: CachedModel,
    chooser: Chooser,
    met: Met,
    before: Sequence[int],
    rounds: Sequence[Round],
    between: Callable[[], None] = lambda: None,
) -> Difference:
    """Measure the noise where `met` stands, behind `before`, in a pass as wide as that of the reply's `rounds`.

    Runs `target` from nothing. between: called between passes; may raise to break off.
    """
    narrow, wide = met.logits, _wide_logits(target, before, *_pass_of(rounds, met.position), between)
    assert narrow is not None
    rounding = _largest(narrow - wide) <= _most_noise(target) * _largest(narrow)
    tokens, gap = list(before), met.gap
    noise = _largest(_shaped(chooser, narrow, tokens) - _shaped(chooser, wide, tokens))
    noise /= chooser.sampling.temperature or 1.0
    if math.isinf(gap):
        scores = scores_of(chooser, wide, tokens)
        told = math.isfinite(scores[met.other]) if met.plain is None else int(np.argmax(scores)) == met.other
        gap = noise if told else gap  # rounding moved the edge of the law past the token: at most so far
    near = rounding and abs(gap) <= MARGIN * noise
    gap_ulps = gap / met.ulp if math.isfinite(gap) else None
    return Difference(met.position, met.plain, met.other, gap_ulps, noise / met.ulp, near)


def judge_by(met: Met, measured: Sequence[Difference]) -> Difference:
    """Without passes: the noise, in ULPs, is taken for the largest of those differences that turned out near-ties."""
    noise = max((one.noise_ulps or 0.0 for one in measured if one.near_tie), default=0.0)
    if not math.isfinite(met.gap):
        return Difference(met.position, met.plain, met.other, None, noise, near_tie=False)
    gap = met.gap / met.ulp
    return Difference(met.position, met.plain, met.other, gap, noise, abs(gap) <= MARGIN * noise)


def scores_of(chooser: Chooser, logits: mx.array, before: list[int]) -> Any:
    """What the choice behind `before` is the argmax of, (vocabulary,) float32 in numpy; -inf where p is 0."""
    shaped = _shaped(chooser, logits, before)
    if not chooser.sampling.greedy:
        noise = chooser.noise.gumbel(Stream.CHOICE, mx.array([len(before)]), logits.shape[-1])
        shaped = chooser.law.logprobs(shaped) + noise
    return np.array(shaped[0])


def refill(target: CachedModel, tokens: Sequence[int], between: Callable[[], None] = lambda: None) -> None:
    """Start over and feed all but the last of `tokens`."""
    start_over(target)
    for _ in target.prefill(tokens[:-1]):
        between()


def start_over(target: CachedModel) -> None:
    """Fresh caches, not rewound ones: what a wrong rewind leaves in them must not be judged by itself."""
    target.rewind(0)
    target.cache.reset()


def _most_noise(target: CachedModel) -> float:
    """What rounding may make of the largest logit, by the coarsest numbers that the target keeps."""
    return _COARSE_ROUNDING if any(a.dtype in _COARSE for a in target.cache.arrays()) else _ROUNDING


def _shaped(chooser: Chooser, logits: mx.array, before: list[int]) -> mx.array:
    """(1, vocabulary) logits behind `before`, after bias and penalties."""
    return chooser.law.shape(logits, Context(chooser.law, before).rows(mx.zeros(0, mx.int32)))


def _wide_logits(
    target: CachedModel, before: Sequence[int], round_: Round, place: int, between: Callable[[], None]
) -> mx.array:
    """(1, vocabulary) behind `before` from the verify pass of `round_`, whose token at `place` follows it."""
    tokens = before[: len(before) - place]
    refill(target, tokens, between)
    shape = None if round_.parents is None else Tree.of(round_.parents)
    draft = mx.array([max(token, 0) for token in round_.drafted], mx.int32)
    logits, _ = target.continue_from(tokens, draft, shape)
    row = place if shape is None or place == 0 else round_.path[place - 1] + 1
    mx.eval(logits)
    return logits[row : row + 1]


def _pass_of(rounds: Sequence[Round], position: int) -> tuple[Round, int]:
    """The round that chose the token at `position` of the reply, and the place of that token in it."""
    start = 0
    for round_ in rounds:
        if position < start + len(round_.tokens):
            return round_, position - start
        start += len(round_.tokens)
    raise ValueError(f"the rounds hold {start} tokens and none at {position}")


def _largest(values: mx.array) -> float:
    """The largest magnitude, padding logits of -inf aside."""
    magnitudes = np.abs(np.array(values.astype(mx.float32)))
    return float(np.max(magnitudes[np.isfinite(magnitudes)], initial=0.0))
