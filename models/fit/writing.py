"""The target writes: many texts side by side, each with its own temperature and its own noise.

A text's noise depends on its seed and the place in it alone, so what is written is a function of the requests and
of which of them go together, never of the clock.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import mlx.core as mx
from mlx_lm.generate import BatchGenerator
from mlx_lm.models.cache import make_prompt_cache

from engine.sampling import Noise, Stream

PREFILL_ROWS = 8
_PREFILL_TOKENS = 512


@dataclass(frozen=True)
class Request:
    """Go on from `tokens` with at most `limit` more, until one of `ends`, which is kept. temperature 0 is greedy.
    min_p: what is less likely than this share of the likeliest is not drawn."""

    tokens: tuple[int, ...]
    limit: int
    temperature: float
    seed: int
    ends: frozenset[int]
    min_p: float = 0.0


def seed_of(*parts: object) -> int:
    """A seed for what `parts` name; the same on every machine."""
    return int.from_bytes(hashlib.sha256("/".join(map(str, parts)).encode()).digest()[:7], "big")


def write(network: Any, requests: Sequence[Request], rows: int) -> Iterator[tuple[int, list[int]]]:
    """(number of the request, its new tokens) as they are finished; at most `rows` are in the making at a time.

    Models whose caches mlx-lm cannot batch write one text at a time.
    """
    if not all(hasattr(entry, "merge") for entry in make_prompt_cache(network)):
        for number, request in enumerate(requests):
            yield number, _write_alone(network, request)
        return
    ends = sorted({(end,) for request in requests for end in request.ends})
    generator = BatchGenerator(
        network,
        stop_tokens=[list(end) for end in ends],
        completion_batch_size=rows,
        prefill_batch_size=min(rows, PREFILL_ROWS),
        prefill_step_size=_PREFILL_TOKENS,
    )
    try:
        generator.insert(
            [list(request.tokens) for request in requests],
            [request.limit for request in requests],
            samplers=[sampler(request) for request in requests],
        )
        yield from _finished(generator, requests)
    finally:
        generator.close()
        mx.clear_cache()


def _finished(generator: Any, requests: Sequence[Request]) -> Iterator[tuple[int, list[int]]]:
    texts: list[list[int]] = [[] for _ in requests]
    while responses := generator.next_generated():
        for response in responses:
            texts[response.uid].append(response.token)
            if response.finish_reason is not None:
                yield response.uid, texts[response.uid]


def _write_alone(network: Any, request: Request) -> list[int]:
    cache, choose = make_prompt_cache(network), sampler(request)
    tokens, rest = mx.array([request.tokens], mx.int32), request.limit
    said: list[int] = []
    while rest and not (said and said[-1] in request.ends):
        logits = network(tokens, cache=cache)[:, -1]
        said.append(int(choose(logits - mx.logsumexp(logits, -1, keepdims=True)).item()))
        tokens, rest = mx.array([said[-1:]], mx.int32), rest - 1
    return said


def sampler(request: Request) -> Callable[[mx.array], mx.array]:
    """From log-probabilities (1, vocabulary) to a token (1,); called once for each token of one text, in order."""
    noise, place = Noise(request.seed), 0

    def choose(logprobs: mx.array) -> mx.array:
        nonlocal place
        if request.temperature == 0:
            return mx.argmax(logprobs, -1)
        scores = logprobs.astype(mx.float32) / request.temperature
        if request.min_p:
            floor = mx.max(scores, -1, keepdims=True) + mx.log(request.min_p)
            scores = mx.where(scores >= floor, scores, -mx.inf)
        drawn = noise.gumbel(Stream.CHOICE, mx.array([place]), scores.shape[-1])
        place += 1
        return mx.argmax(scores + drawn, -1)

    return choose
