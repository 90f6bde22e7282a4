"""Generates many texts in a batch, each with its own temperature and its own noise.

A text's noise depends on its seed and the place in it alone, so what is written is a function of the requests and
of which of them go together, never of the clock.
"""

import hashlib
import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import mlx.core as mx
from mlx_lm.generate import BatchGenerator
from mlx_lm.models.cache import make_prompt_cache

from engine.noise import Noise, Stream

PREFILL_ROWS = 8
_PREFILL_TOKENS = 512
_TRIED, _TRIED_TOKENS = (5, 21, 12), 4  # lengths of prompts, and how much is written after each
_AGREES = 0.05  # of the spread, on average: more than 16-bit arithmetic in another order explains


@dataclass(frozen=True)
class TextRequest:
    """A request to continue `tokens` with at most `limit` more, until one of `ends`, which is kept. temperature: 0 is
    greedy. min_p: tokens less likely than this share of the most likely one are not sampled."""

    tokens: tuple[int, ...]
    limit: int
    temperature: float
    seed: int
    ends: frozenset[int]
    min_p: float = 0.0

    def ended(self, generated: Sequence[int]) -> bool:
        """Whether the text is complete with `generated`."""
        return bool(generated) and (len(generated) >= self.limit or generated[-1] in self.ends)


def seed_of(*parts: object) -> int:
    """Returns a seed for `parts` that is the same on every machine."""
    return int.from_bytes(hashlib.sha256("/".join(map(str, parts)).encode()).digest()[:7], "big")


class _TextGenerator(BatchGenerator):  # type: ignore[misc]  # mlx-lm has no types
    """mlx-lm's, which may be interrupted while it is made: its `__del__` asks for this, the last thing it sets."""

    _old_wired_limit = None


class GeneratedText(NamedTuple):
    """A text in the making. number: of its request. tokens: those generated so far, or all where it is `finished`."""

    number: int
    tokens: list[int]
    finished: bool


def write_texts(network: Any, requests: Sequence[TextRequest], rows: int) -> Iterator[GeneratedText]:
    """Yields a text at each token that it gains; at most `rows` texts are generated at a time. 0 rows: one text after
    the other, for models that mlx-lm does not batch correctly."""
    if not rows:
        for number, request in enumerate(requests):
            yield from _write_alone(network, number, request)
        return
    ends = sorted({(end,) for request in requests for end in request.ends})
    generator = _TextGenerator(
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
            samplers=[make_sampler(request) for request in requests],
        )
        yield from _texts(generator, len(requests))
    finally:
        generator.close()
        mx.clear_cache()


def batching_is_exact(network: Any) -> bool:
    """Whether a batch generates the same texts as one at a time, judged by a few short prompts.

    mlx-lm has no batched form of some caches, and in some architectures the padding gets into the state.
    """
    prompts = [[1 + (7 * place + n) % 40 for place in range(length)] for n, length in enumerate(_TRIED)]
    generator = None
    try:
        generator = _TextGenerator(network, max_tokens=_TRIED_TOKENS, prefill_step_size=_TRIED[1])
        generator.insert(prompts)
        while responses := generator.next_generated():
            for response in responses:
                alone = network(mx.array([prompts[response.uid]], mx.int32))[0, -1].astype(mx.float32)
                alone, other = alone - mx.logsumexp(alone), response.logprobs.astype(mx.float32)
                if (mx.mean(mx.abs(alone - other)) > _AGREES * mx.std(alone)).item():
                    return False
                prompts[response.uid].append(response.token)
    except (ValueError, TypeError, AttributeError, IndexError, KeyError, RuntimeError):  # what caches raise
        return False
    finally:
        if generator is not None:
            generator.close()
    return True


def _texts(generator: Any, count: int) -> Iterator[GeneratedText]:
    texts: list[list[int]] = [[] for _ in range(count)]
    while responses := generator.next_generated():
        for response in responses:
            texts[response.uid].append(response.token)
            yield GeneratedText(response.uid, texts[response.uid], response.finish_reason is not None)


def _write_alone(network: Any, number: int, request: TextRequest) -> Iterator[GeneratedText]:
    cache, choose = make_prompt_cache(network), make_sampler(request)
    tokens, generated = mx.array([request.tokens], mx.int32), list[int]()
    while not request.ended(generated):
        logits = network(tokens, cache=cache)[:, -1]
        token: Any = choose(logits - mx.logsumexp(logits, -1, keepdims=True)).item()
        generated.append(token)
        tokens = mx.array([generated[-1:]], mx.int32)
        yield GeneratedText(number, generated, request.ended(generated))


def make_sampler(request: TextRequest) -> Callable[[mx.array], mx.array]:
    """Returns a function from logprobs (1, vocabulary) to a token (1,), to be called once per token, in order."""
    noise, place = Noise(request.seed), 0

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
