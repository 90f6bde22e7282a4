"""The target writes: many texts side by side, each with its own temperature and its own noise.

A text's noise depends on its seed and the place in it alone, so what is written is a function of the requests and
of which of them go together, never of the clock.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import mlx.core as mx
from mlx_lm.generate import BatchGenerator
from mlx_lm.models.cache import make_prompt_cache

from engine.sampling import Noise, Stream

PREFILL_ROWS = 8
_PREFILL_TOKENS = 512
_TRIED, _TRIED_TOKENS = (5, 21, 12), 4  # lengths of prompts, and how much is written behind each
_AGREES = 0.05  # of the spread, on average: more than 16-bit arithmetic in another order explains


@dataclass(frozen=True)
class Request:
    """Go on from `tokens` with at most `limit` more, until one of `ends`, which is kept. temperature 0 is greedy.
    min_p: what is less likely than this share of the likeliest is not drawn. place: of the next token in its text."""

    tokens: tuple[int, ...]
    limit: int
    temperature: float
    seed: int
    ends: frozenset[int]
    min_p: float = 0.0
    place: int = 0

    def ended(self, said: Sequence[int]) -> bool:
        """Whether nothing comes behind `said`."""
        return bool(said) and (len(said) >= self.limit or said[-1] in self.ends)

    def behind(self, said: Sequence[int], most: int) -> Request:
        """What is left of it behind `said`, `most` tokens of that at most."""
        limit = min(most, self.limit - len(said))
        return replace(self, tokens=(*self.tokens, *said), limit=limit, place=self.place + len(said))


def seed_of(*parts: object) -> int:
    """A seed for what `parts` name; the same on every machine."""
    return int.from_bytes(hashlib.sha256("/".join(map(str, parts)).encode()).digest()[:7], "big")


class Text(NamedTuple):
    """number: of the request. tokens: what was said so far, or all where it is `finished`."""

    number: int
    tokens: list[int]
    finished: bool


def write(network: Any, requests: Sequence[Request], rows: int) -> Iterator[Text]:
    """A text at each token that it gains; at most `rows` are in the making at a time. 0 rows: one text after the
    other, for models that mlx-lm does not batch soundly."""
    if not rows:
        for number, request in enumerate(requests):
            yield from _write_alone(network, number, request)
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
        yield from _texts(generator, len(requests))
    finally:
        generator.close()
        mx.clear_cache()


def go_on(
    network: Any, requests: Sequence[Request], said: Sequence[list[int]], rows: int, stretch: int
) -> Iterator[bool]:
    """Write behind what is `said` of each until all have ended, `stretch` tokens of each at a time: False at each token
    that one gains, True between two stretches.

    A stretch reads everything before it anew, whoever wrote that: stopped and gone on with from what was `said` at a
    True, the texts are the same.
    """
    open_ = _open(requests, said)
    while open_:
        pieces = [requests[number].behind(said[number], stretch) for number in open_]
        for text in write(network, pieces, rows):
            said[open_[text.number]].append(text.tokens[-1])
            yield False
        if open_ := _open(requests, said):
            yield True


def _open(requests: Sequence[Request], said: Sequence[Sequence[int]]) -> list[int]:
    return [number for number, request in enumerate(requests) if not request.ended(said[number])]


def batches_soundly(network: Any) -> bool:
    """Whether texts written side by side are what each would be alone, going by a few passes over short ones.

    mlx-lm has no batched form of some caches, and in some architectures the padding gets into the state.
    """
    prompts = [[1 + (7 * place + n) % 40 for place in range(length)] for n, length in enumerate(_TRIED)]
    generator = None
    try:
        generator = BatchGenerator(network, max_tokens=_TRIED_TOKENS, prefill_step_size=_TRIED[1])
        generator.insert(prompts)
        while responses := generator.next_generated():
            for response in responses:
                alone = network(mx.array([prompts[response.uid]], mx.int32))[0, -1].astype(mx.float32)
                alone, other = alone - mx.logsumexp(alone), response.logprobs.astype(mx.float32)
                if (mx.mean(mx.abs(alone - other)) > _AGREES * mx.std(alone)).item():
                    return False
                prompts[response.uid].append(response.token)
    except (ValueError, TypeError, AttributeError, IndexError, KeyError, RuntimeError):  # whatever a cache lacks
        return False
    finally:
        if generator is not None:
            generator.close()
    return True


def _texts(generator: Any, count: int) -> Iterator[Text]:
    texts: list[list[int]] = [[] for _ in range(count)]
    while responses := generator.next_generated():
        for response in responses:
            texts[response.uid].append(response.token)
            yield Text(response.uid, texts[response.uid], response.finish_reason is not None)


def _write_alone(network: Any, number: int, request: Request) -> Iterator[Text]:
    cache, choose = make_prompt_cache(network), sampler(request)
    tokens, said = mx.array([request.tokens], mx.int32), list[int]()
    while not request.ended(said):
        logits = network(tokens, cache=cache)[:, -1]
        token: Any = choose(logits - mx.logsumexp(logits, -1, keepdims=True)).item()
        said.append(token)
        tokens = mx.array([said[-1:]], mx.int32)
        yield Text(number, said, request.ended(said))


def sampler(request: Request) -> Callable[[mx.array], mx.array]:
    """From log-probabilities (1, vocabulary) to a token (1,); called once for each token of one text, in order."""
    noise, place = Noise(request.seed), request.place

    def choose(logprobs: mx.array) -> mx.array:
        nonlocal place
        if request.temperature == 0:
            return mx.argmax(logprobs, -1)
        scores = logprobs.astype(mx.float32) / request.temperature
        if request.min_p:
            floor = mx.max(scores, -1, keepdims=True) + math.log(request.min_p)
            scores = mx.where(scores >= floor, scores, -mx.inf)
        drawn = noise.gumbel(Stream.CHOICE, mx.array([place]), scores.shape[-1])
        place += 1
        return mx.argmax(scores + drawn, -1)

    return choose
