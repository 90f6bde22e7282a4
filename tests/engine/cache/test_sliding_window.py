"""How far a rewind may fall short: a window says truly what it still holds, a mark is never far behind."""

import mlx.core as mx
import mlx.nn as nn
import numpy as np
import pytest

from engine.backend.mlx_lm_imports import ConcatenateKVCache
from engine.cache.model_cache import ModelCache
from engine.cache.sliding_window import SlidingKVCache
from engine.target.cached_model import CachedModel
from tests.toys.architectures import build

WINDOW = 8
NOTHING = mx.zeros(0, mx.int32)
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
    vars(other).update({k: mx.array(v) if isinstance(v, mx.array) else v for k, v in vars(cache).items()})  # type: ignore[attr-defined]
    return other


@pytest.mark.parametrize(("count", "step"), [(5, 1), (8, 1), (300, 1), (300, 7), (602, 512), (700, 100)])
def test_a_window_says_truly_what_it_can_drop(count: int, step: int) -> None:
    """And what it shows after dropping as much is the window after the tokens left."""
    cache = filled(count, step)
    held = set(range(cache.start, count))
    for drop in range(count + 2):
        left = count - drop
        window = set(range(max(0, left - (WINDOW - 1)), left))
        can = left >= cache.start and window <= held
        assert (0 <= left >= cache.least_length) == can
        if can and (drop < 12 or left == cache.least_length):
            other = twin(cache)
            other.trim(drop)
            shown, _ = other.update_and_fetch(rows(left, 1), rows(left, 1))
            assert {int(t) for t in shown.flatten().tolist()} == window | {left}


@pytest.mark.parametrize("name", ["mamba2", "qwen3_next", "qwen3", "llama4"])
def test_a_refusal_after_drafts_kept_whole_costs_its_own_pass_only(name: str) -> None:
    """Nothing was taken back before it, so the only mark near by is the one made for this very draft."""
    model = CachedModel(build(name))
    model.feed(SEQUENCE[:9])
    for length in range(10, 60, 4):
        model.continue_from(SEQUENCE[:length], mx.array(SEQUENCE[length : length + 3]))
    start = model.length
    model.continue_from(SEQUENCE[: start + 1], mx.array([1, 2, 3]))
    assert start <= model.rewind(start + 1) <= start + 1


@pytest.fixture(scope="module")
def chunked() -> tuple[nn.Module, list[np.ndarray]]:
    """A network whose attention is in chunks, and its logits after every length, from one token at a time."""
    network = build("llama4")
    model = CachedModel(network)
    return network, [np.array(model.continue_from(SEQUENCE[:length], NOTHING)[0][-1]) for length in range(1, 51)]


@pytest.mark.parametrize("back", [1, 7, 8, 16, 17, 33, 49])
def test_chunked_attention_goes_back_to_chunks_that_are_whole(
    back: int, chunked: tuple[nn.Module, list[np.ndarray]]
) -> None:
    """The front of a chunk that was left is gone: after it, only a mark or the start is exact."""
    network, straight = chunked
    model = CachedModel(network)
    for length in range(1, 51):
        model.continue_from(SEQUENCE[:length], NOTHING)
    assert model.rewind(50 - back) == model.length <= 50 - back
    again, _ = model.continue_from(SEQUENCE[: 51 - back], NOTHING)
    assert np.abs(np.array(again[-1]) - straight[50 - back]).max() < 1e-3


def test_a_concatenating_cache_forgets_what_was_taken_back() -> None:
    """No model of mlx-lm 0.32.2 makes one by itself; its own trim leaves the rows where they are."""

    class Model:
        def make_cache(self) -> list[ConcatenateKVCache]:
            return [ConcatenateKVCache()]

    cache = ModelCache(Model())
    cache.entries[0].update_and_fetch(rows(0, 6), rows(0, 6))
    cache.advance(6)
    assert cache.rewind(4) == 4
    shown, _ = cache.entries[0].update_and_fetch(rows(90, 1), rows(90, 1))
    assert shown.flatten().tolist() == [0, 1, 2, 3, 90]


@pytest.mark.parametrize("name", ["mamba2", "qwen3_next"])
def test_a_mark_is_not_what_the_layers_write_to(name: str) -> None:
    """A layer may write into the very arrays it held when the mark was made."""
    model = CachedModel(build(name))
    model.feed(SEQUENCE[:20])
    model.cache.mark()
    recurrent = [leaf for leaf in model.cache._leaves() if type(leaf).__name__ == "ArraysCache"]
    before = [[np.array(a) for a in leaf.cache] for leaf in recurrent]
    for leaf in recurrent:
        for array in leaf.cache:
            array[...] = 0
    model.feed(SEQUENCE[20:24])
    assert model.rewind(20) == 20
    for leaf, arrays in zip(recurrent, before, strict=True):
        assert all(np.array_equal(a, np.array(b)) for a, b in zip(arrays, leaf.cache, strict=True))
