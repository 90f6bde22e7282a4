"""From logits to the law p, and the noise that draws from it.

The order is that of vLLM: logit bias and penalties, temperature, min-p, top-k, top-p, then
renormalisation. The same function serves one plain step, every row of a verify pass, and the
drafter's own law q, so that all of them speak of the same thing.

Noise is a pure function of (seed, stream, absolute position): counter-based Threefry keys, so
nothing depends on how many rounds it took to get there.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from copy import copy
from dataclasses import dataclass, field
from enum import IntEnum

import mlx.core as mx

from engine.bounds import MOST_PENALTY, MOST_TEMPERATURE
from engine.errors import UsageError
from engine.tree import Tree

LEAST_TEMPERATURE = 1e-3  # below, logits over temperature overflow float32


@dataclass(frozen=True)
class Sampling:
    """How the target's law is shaped. Neutral values leave it alone.

    temperature 0 is greedy. top_k 0, top_p 1 and min_p 0 are off. Penalties look at the whole
    context, prompt included: repetition divides positive and multiplies negative logits
    (Keskar 2019), presence subtracts once per token seen, frequency once per occurrence.
    logit_bias is added to the logits of the given ids.
    """

    temperature: float = 0.0
    top_p: float = 1.0
    top_k: int = 0
    min_p: float = 0.0
    repetition_penalty: float = 1.0
    presence_penalty: float = 0.0
    frequency_penalty: float = 0.0
    logit_bias: Mapping[int, float] = field(default_factory=dict)
    seed: int = 0

    def __post_init__(self) -> None:
        warm = self.temperature == 0 or LEAST_TEMPERATURE <= self.temperature <= MOST_TEMPERATURE
        _need(
            warm, "temperature", self.temperature, f"0, which is greedy, or {LEAST_TEMPERATURE} to {MOST_TEMPERATURE:g}"
        )
        _need(0 < self.top_p <= 1, "top-p", self.top_p, "above 0, at most 1, 1 is off")
        _need(self.top_k >= 0, "top-k", self.top_k, "0 or more, 0 is off")
        _need(0 <= self.min_p < 1, "min-p", self.min_p, "from 0 to less than 1, 0 is off")
        penalty = self.repetition_penalty
        _need(
            0 < penalty <= MOST_PENALTY, "repetition-penalty", penalty, f"above 0, at most {MOST_PENALTY:g}, 1 is off"
        )
        _need(math.isfinite(self.presence_penalty), "presence-penalty", self.presence_penalty, "a finite number")
        _need(math.isfinite(self.frequency_penalty), "frequency-penalty", self.frequency_penalty, "a finite number")
        _need(0 <= self.seed < 2**63, "seed", self.seed, "a whole number from 0 to 2^63 - 1")
        for token, bias in self.logit_bias.items():
            _need(
                token >= 0 and bias < math.inf,
                "logit-bias",
                {token: bias},
                "ids of 0 or more and numbers below infinity",
            )

    @property
    def greedy(self) -> bool:
        return self.temperature == 0

    @property
    def counts_context(self) -> bool:
        """Whether the law depends on which tokens came before, beyond what the model sees."""
        return self.repetition_penalty != 1 or self.presence_penalty != 0 or self.frequency_penalty != 0


def _need(ok: bool, name: str, value: object, range_: str) -> None:
    if not ok:
        raise UsageError(f"{name} is {value}, which makes no sense: give {range_}")


class Law:
    """The law p (or a drafter's q) as a function of logits and context."""

    def __init__(self, sampling: Sampling, vocabulary: int) -> None:
        self.sampling = sampling
        self.vocabulary = vocabulary
        self._bias: mx.array | None = None
        if sampling.logit_bias:
            ids = [i for i in sampling.logit_bias if i < vocabulary]
            values = mx.array([sampling.logit_bias[i] for i in ids], mx.float32)
            self._bias = mx.zeros(vocabulary).at[mx.array(ids, mx.int32)].add(values)

    def shape(self, logits: mx.array, counts: mx.array | None = None, ids: mx.array | None = None) -> mx.array:
        """Logits after bias and penalties, before temperature; float32.

        logits: (rows, vocabulary), or (rows, width) of the tokens `ids` (width,) alone. counts: (rows,
        vocabulary), how often each token stands in the row's context; needed when `sampling.counts_context`.
        """
        s = self.sampling
        logits = logits.astype(mx.float32)
        if s.counts_context:
            if counts is None:
                raise ValueError("penalties need the counts of the context")
            counts = counts if ids is None else counts[:, ids]
            seen = counts > 0
            scaled = mx.where(logits > 0, logits / s.repetition_penalty, logits * s.repetition_penalty)
            logits = mx.where(seen, scaled, logits)
            logits = logits - s.presence_penalty * seen - s.frequency_penalty * counts
        if self._bias is None:
            return logits
        return logits + (self._bias if ids is None else self._bias[ids])

    def logprobs(self, shaped: mx.array) -> mx.array:
        """Log of the law, (rows, vocabulary), -inf where it is zero. At temperature 0: plain log-softmax."""
        s = self.sampling
        if s.greedy:
            return _log_softmax(shaped)
        logprobs = _log_softmax(shaped / s.temperature)
        if s.min_p > 0:
            logprobs = _keep(logprobs, mx.max(logprobs, -1, keepdims=True) + math.log(s.min_p))
        if 0 < s.top_k < shaped.shape[-1]:
            logprobs = _keep(logprobs, mx.min(mx.topk(logprobs, s.top_k, -1), -1, keepdims=True))
        if s.top_p < 1:
            logprobs = _keep(logprobs, _nucleus_edge(logprobs, s.top_p))
        return logprobs


def _log_softmax(x: mx.array) -> mx.array:
    return x - mx.logsumexp(x, -1, keepdims=True)


def _keep(logprobs: mx.array, edge: mx.array) -> mx.array:
    """Drop what lies below `edge` (rows, 1) and renormalise. Ties with the edge stay."""
    return _log_softmax(mx.where(logprobs >= edge, logprobs, -math.inf))


def _nucleus_edge(logprobs: mx.array, top_p: float) -> mx.array:
    """The least log-probability in the smallest set of likeliest tokens whose mass reaches top_p
    (Holtzman 2019), as (rows, 1)."""
    falling = -mx.sort(-logprobs, -1)
    mass_before = mx.cumsum(mx.exp(falling), -1, inclusive=False)
    return mx.min(mx.where(mass_before < top_p, falling, math.inf), -1, keepdims=True)


class Stream(IntEnum):
    """Independent noises at one position. CHOICE is the one that coupled sampling shares."""

    CHOICE = 0
    DRAFT = 1
    ACCEPT = 2


_GOLDEN = 0x9E3779B97F4A7C15


class Noise:
    """Counter-based random numbers: equal (seed, stream, position) give equal noise, always."""

    def __init__(self, seed: int) -> None:
        self._words = [_mix(seed, stream) for stream in Stream]

    def keys(self, stream: Stream, positions: mx.array, salt: int = 0) -> mx.array:
        """Threefry keys, (n, 2) uint32, for absolute positions (n,), which may be lazy. Another `salt`, other keys."""
        word = mx.full(positions.shape, self._words[stream] ^ (_mix(salt, stream) if salt else 0), mx.uint32)
        return mx.stack([word, positions.astype(mx.uint32)], -1)

    def gumbel(self, stream: Stream, positions: mx.array, vocabulary: int, salt: int = 0) -> mx.array:
        """Standard Gumbel noise, (n, vocabulary): argmax(log p + noise) is a draw from p."""
        return mx.vmap(lambda key: mx.random.gumbel((vocabulary,), key=key))(self.keys(stream, positions, salt))

    def uniform(self, stream: Stream, positions: mx.array) -> mx.array:
        """Uniform on [0, 1), (n,)."""
        return mx.vmap(lambda key: mx.random.uniform(key=key))(self.keys(stream, positions))

    def uniforms(self, stream: Stream, position: int, count: int) -> mx.array:
        """`count` of them for one position, (count,)."""
        return mx.random.uniform(shape=(count,), key=self.keys(stream, mx.array([position]))[0])


def _mix(seed: int, stream: int) -> int:
    """One 32-bit word from (seed, stream): the finaliser of SplitMix64 (Steele 2014)."""
    z = (seed + (stream + 1) * _GOLDEN) & 0xFFFFFFFFFFFFFFFF
    z = ((z ^ (z >> 30)) * 0xBF58476D1CE4E5B9) & 0xFFFFFFFFFFFFFFFF
    z = ((z ^ (z >> 27)) * 0x94D049BB133111EB) & 0xFFFFFFFFFFFFFFFF
    return (z ^ (z >> 31)) & 0xFFFFFFFF


class Context:
    """How often each token stands in the context, kept on the device for the penalties.

    Holds nothing, and costs nothing, when the law does not ask for it. Immutable: `extended`
    gives the next one.
    """

    def __init__(self, law: Law, tokens: Sequence[int]) -> None:
        self.counts: mx.array | None = None
        if law.sampling.counts_context:
            self.counts = mx.zeros(law.vocabulary).at[mx.array(list(tokens), mx.int32)].add(1.0)

    def extended(self, tokens: mx.array) -> Context:
        """With (n,) more tokens, which may be lazy."""
        if self.counts is None or tokens.size == 0:
            return self
        longer = copy(self)
        longer.counts = self.counts.at[tokens.astype(mx.int32)].add(1.0)
        return longer

    def rows(self, draft: mx.array, shape: Tree | None = None) -> mx.array | None:
        """Counts as seen by each row of a verify pass, (k + 1, vocabulary): row i has seen `draft[:i]` too, or in a
        tree the tokens on the way to its node.

        draft: (k,) token ids, which may be lazy.
        """
        if self.counts is None:
            return None
        base = self.counts[None]
        if draft.size == 0:
            return base
        one_hot = (draft[:, None] == mx.arange(base.shape[-1])[None]).astype(mx.float32)
        seen = mx.cumsum(one_hot, 0) if shape is None else shape.reach.astype(mx.float32) @ one_hot
        return mx.concatenate([base, base + seen])
