"""The receipt of a reply: the same tokens as plain decoding, or the first difference and what it is.

"Exact" is with respect to the logits of the verify pass. A wider pass may round differently and flip
two tokens that all but tie; that is told, with the gap, and never called identical.

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
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import mlx.core as mx
import numpy as np

from engine.choice import Chooser
from engine.events import Round
from engine.sampling import Context, Stream
from engine.target import CachedModel
from engine.tree import Tree

MARGIN = 2.0
# More noise than this, as a share of the largest logit, is no rounding: 2^12 ULPs of float32, 2^4 of bfloat16.
_ROUNDING, _COARSE_ROUNDING = 2.0**-11, 2.0**-4
_COARSE = (mx.float16, mx.bfloat16, mx.uint32)  # uint32: quantized


@dataclass(frozen=True)
class Difference:
    """The first place where two replies part.

    position: within the reply, from 0. Tokens are None where a reply has ended. gap_ulps: None where
    no rounding could close it (a reply ended, or the law gives the other token no chance).
    near_tie: the gap is within MARGIN times the noise, and the noise is no more than rounding makes.
    """

    position: int
    plain_token: int | None
    other_token: int | None
    gap_ulps: float | None
    noise_ulps: float | None
    near_tie: bool

    def __str__(self) -> str:
        tokens = f"plain {self.plain_token}, other {self.other_token}"
        if self.gap_ulps is None or self.noise_ulps is None:
            return f"differs at token {self.position} ({tokens}): a failure, no rounding explains it"
        sizes = f"gap {self.gap_ulps:.3g} ULPs, rounding noise {self.noise_ulps:.3g} ULPs"
        verdict = "a near-tie" if self.near_tie else "a failure"
        return f"differs at token {self.position} ({tokens}): {verdict}, {sizes}"


@dataclass(frozen=True)
class Receipt:
    """tokens: how many tokens of the reply are the same as plain decoding's."""

    tokens: int
    difference: Difference | None = None

    @property
    def identical(self) -> bool:
        return self.difference is None

    @property
    def near_tie(self) -> bool:
        """Whether the replies differ, and only by rounding."""
        return self.difference is not None and self.difference.near_tie

    def __str__(self) -> str:
        return f"identical over {self.tokens} tokens" if self.difference is None else str(self.difference)


def first_difference(plain: Sequence[int], other: Sequence[int]) -> int | None:
    """The first place where two replies differ, the end of the shorter one included; None if they don't."""
    for i, (a, b) in enumerate(zip(plain, other, strict=False)):
        if a != b:
            return i
    return None if len(plain) == len(other) else min(len(plain), len(other))


def compare(
    target: CachedModel, chooser: Chooser, prompt: Sequence[int], plain: Sequence[int], other: Sequence[Round]
) -> Receipt | None:
    """Hold the rounds of a reply against the tokens of plain decoding, both to the same prompt and settings.

    Drafted ids below 0 stand for tokens that are not known. None where no such promise is made: rejection
    sampling above temperature 0 keeps the law, not the tokens. When the replies differ, `target` is run
    and left empty.
    """
    if not chooser.matches:
        return None
    tokens = [token for round_ in other for token in round_.tokens]
    position = first_difference(plain, tokens)
    if position is None:
        return Receipt(len(tokens))
    if position == min(len(plain), len(tokens)):
        ends = [reply[position] if position < len(reply) else None for reply in (plain, tokens)]
        return Receipt(position, Difference(position, ends[0], ends[1], None, None, near_tie=False))
    kept = plain[:position]
    narrow = _plain_logits(target, prompt, kept)
    wide = _wide_logits(target, prompt, kept, *_pass_of(other, position))
    rounding = _largest(narrow - wide) <= _most_noise(target) * _largest(narrow)
    target.rewind(0)
    mine, theirs = plain[position], tokens[position]
    noise = _largest(_shaped(chooser, narrow, [*prompt, *kept]) - _shaped(chooser, wide, [*prompt, *kept]))
    noise /= chooser.sampling.temperature or 1.0
    scores, others = (_scores(chooser, logits, [*prompt, *kept]) for logits in (narrow, wide))
    gap = _gap(scores, mine, theirs)
    if math.isinf(gap) and int(np.argmax(others)) == theirs:
        gap = noise  # rounding moved the edge of the law past the token: this is how far it took, at most
    ulp = _ulp(scores, mine, theirs)
    near = rounding and abs(gap) <= MARGIN * noise
    gap_ulps = gap / ulp if math.isfinite(gap) else None
    return Receipt(position, Difference(position, mine, theirs, gap_ulps, noise / ulp, near))


def _gap(scores: Any, mine: int, theirs: int) -> float:
    return float(scores[mine]) - float(scores[theirs])


def _ulp(scores: Any, mine: int, theirs: int) -> float:
    """The step between float32 numbers at the larger of the two scores."""
    sizes = [abs(float(scores[token])) for token in (mine, theirs)]
    return float(np.spacing(np.float32(max(filter(math.isfinite, sizes), default=1.0))))


def _most_noise(target: CachedModel) -> float:
    """What rounding may make of the largest logit, by the coarsest numbers that the target keeps."""
    return _COARSE_ROUNDING if any(a.dtype in _COARSE for a in target.cache.arrays()) else _ROUNDING


def _scores(chooser: Chooser, logits: mx.array, before: list[int]) -> Any:
    """What the choice behind `before` is the argmax of, (vocabulary,) float32 in numpy; -inf where p is 0."""
    shaped = _shaped(chooser, logits, before)
    if not chooser.sampling.greedy:
        noise = chooser.noise.gumbel(Stream.CHOICE, mx.array([len(before)]), logits.shape[-1])
        shaped = chooser.law.logprobs(shaped) + noise
    return np.array(shaped[0])


def _shaped(chooser: Chooser, logits: mx.array, before: list[int]) -> mx.array:
    """(1, vocabulary) logits behind `before`, after bias and penalties."""
    return chooser.law.shape(logits, Context(chooser.law, before).rows(mx.zeros(0, mx.int32)))


def _plain_logits(target: CachedModel, prompt: Sequence[int], reply: Sequence[int]) -> mx.array:
    """(1, vocabulary) behind prompt and reply, as plain decoding computes them: a pass for each token."""
    _refill(target, prompt)
    tokens = list(prompt)
    logits, _ = target.continue_from(tokens, mx.zeros(0, mx.int32))
    for token in reply:
        mx.eval(logits)
        tokens.append(token)
        logits, _ = target.continue_from(tokens, mx.zeros(0, mx.int32))
    mx.eval(logits)
    return logits


def _wide_logits(
    target: CachedModel, prompt: Sequence[int], reply: Sequence[int], round_: Round, place: int
) -> mx.array:
    """The same from the verify pass of `round_`, whose token at `place` follows the reply."""
    tokens = [*prompt, *reply[: len(reply) - place]]
    _refill(target, tokens)
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


def _refill(target: CachedModel, tokens: Sequence[int]) -> None:
    """Start over and feed all but the last of `tokens`."""
    target.rewind(0)
    for _ in target.prefill(tokens[:-1]):
        pass


def _largest(values: mx.array) -> float:
    """The largest magnitude, padding logits of -inf aside."""
    magnitudes = np.abs(np.array(values.astype(mx.float32)))
    return float(np.max(magnitudes[np.isfinite(magnitudes)], initial=0.0))
