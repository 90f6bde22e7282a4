"""How far a rewind may fall short: a window says truly what it still holds, a mark is never far behind."""

import mlx.core as mx
import numpy as np
import pytest

from engine.sliding import SlidingKVCache
from engine.target import CachedModel
from tests.toys.architectures import build

WINDOW = 8
SEQUENCE = [int(t) for t in np.random.default_rng(2).integers(0, 64, 80)]


def rows(first: int, count: int) -> mx.array:
    """Keys that say which token they are of."""
    return mx.arange(first, first + count).astype(mx.float32).reshape(1, 1, count, 1)


def filled(count: int, step: int) -> SlidingKVCache:
    cache = SlidingKVCache(WINDOW)
    for first in range(0, count, step):
        new = rows(first, min(step, count - first))
        cache.update_and_fetch(new, new)
    return cache


def twin(cache: SlidingKVCache) -> SlidingKVCache:
    other = SlidingKVCache(WINDOW)
    vars(other).update({k: mx.array(v) if isinstance(v, mx.array) else v for k, v in vars(cache).items()})
    return other


@pytest.mark.parametrize(("count", "step"), [(5, 1), (8, 1), (300, 1), (300, 7), (602, 512), (700, 100)])
def test_a_window_says_truly_what_it_can_drop(count: int, step: int) -> None:
    """And what it shows after dropping as much is the window behind the tokens left."""
    cache = filled(count, step)
    held = set(range(cache.start, count))
    for drop in range(count + 2):
        left = count - drop
        window = set(range(max(0, left - (WINDOW - 1)), left))
        can = left >= cache.start and window <= held
        assert cache.can_drop(drop) == can
        if can and (drop < 12 or not cache.can_drop(drop + 1)):
            other = twin(cache)
            other.trim(drop)
            shown, _ = other.update_and_fetch(rows(left, 1), rows(left, 1))
            assert {int(t) for t in shown.flatten().tolist()} == window | {left}


@pytest.mark.parametrize("name", ["qwen3", "llama", "mamba2", "qwen3_next", "llama4_text"])
def test_taking_back_the_latest_pass_goes_no_further_than_its_start(name: str) -> None:
    """So a refusal costs at most the kept prefix once more, wherever in a reply it comes."""
    model, drafted = CachedModel(build(name)), mx.array([1, 2, 3, 4, 5])
    for length in range(3, 70, 9):
        for kept in range(6):
            model.rewind(length - 1)
            start = model.length
            model.continue_from(SEQUENCE[:length], drafted)
            model.rewind(length + kept)
            assert start <= model.length <= length + kept
        model.rewind(length)
        model.continue_from(SEQUENCE[: length + 1], mx.zeros(0, mx.int32))
        assert model.rewind(length + 1) == length + 1
