"""Rewind over every cache kind: to any length, past every window, and the model is none the wiser."""

import mlx.core as mx
import mlx.nn as nn
import numpy as np
import pytest
from mlx.utils import tree_map
from mlx_lm.models import llama

from engine.backend import mlx_lm_imports
from engine.backend.mlx_lm_imports import ConcatenateKVCache
from engine.cache.model_cache import ModelCache
from engine.cache.sliding_window import SLACK, STEP, SlidingKVCache
from engine.errors import UnsupportedCache
from engine.target.cached_model import REPLAY_LIMIT, CachedModel
from tests.engine.fewer import fewer
from tests.toys.architectures import build

SEQUENCE = [int(t) for t in np.random.default_rng(0).integers(0, 64, 120)]
NOTHING = mx.zeros(0, mx.int32)
# KV; sliding; recurrent; hybrid; convolutions; latent attention; chunked; a class of the model's own.
KINDS = ["qwen3", "gemma3_text", "mamba2", "qwen3_next", "lfm2", "deepseek_v3", "llama4", "deepseek_v41"]


def logits_after(model: CachedModel, length: int) -> np.ndarray:
    """The logits after the first `length` tokens, whatever the cache holds of them now."""
    rows, _ = model.continue_from(SEQUENCE[:length], NOTHING)
    return np.array(rows[-1])


@pytest.fixture(scope="module", params=fewer(KINDS, KINDS, slow=["deepseek_v41"]))
def network(request: pytest.FixtureRequest) -> nn.Module:
    return build(request.param)


class Straight(dict[int, np.ndarray]):
    """Logits after every length, from one token at a time and no rewind, as far as they are asked for."""

    def __init__(self, network: nn.Module) -> None:
        self._model = CachedModel(network)

    def __missing__(self, length: int) -> np.ndarray:
        for n in range(len(self) + 1, length + 1):
            self[n] = logits_after(self._model, n)
        return self[length]


@pytest.fixture(scope="module")
def fresh(network: nn.Module) -> Straight:
    return Straight(network)


def agree(a: np.ndarray, b: np.ndarray) -> bool:
    return bool(np.abs(a - b).max() < 1e-3 * max(1.0, np.abs(b).max()))


@pytest.mark.slow
@pytest.mark.parametrize("kept", [0, 1, 5, 8])
def test_a_refused_draft_leaves_no_trace(network: nn.Module, fresh: Straight, kept: int) -> None:
    """Verify a draft that goes wrong after `kept` tokens, take the rest back, and go on; again and again."""
    model = CachedModel(network)
    length = 5
    while length + 10 < 100:
        right = SEQUENCE[length : length + kept]
        wrong = [(t + 1) % 64 for t in SEQUENCE[length + kept : length + 8]]
        rows, _ = model.continue_from(SEQUENCE[:length], mx.array(right + wrong))
        for i in range(kept + 1):
            assert agree(np.array(rows[i]), fresh[length + i])
        model.rewind(length + kept)
        assert model.length <= length + kept
        length += kept + 1


@pytest.mark.slow
@pytest.mark.parametrize("back", [1, 3, 8, 16, 17, 40, 79])
def test_going_back_any_distance_is_exact(network: nn.Module, fresh: Straight, back: int) -> None:
    """As an edit of an earlier turn does: far before the latest pass, where some states must start anew."""
    model = CachedModel(network)
    for n in range(1, 81, 4):
        logits_after(model, n)
    logits_after(model, 80)
    left = model.rewind(80 - back)
    assert left == model.length
    assert left <= 80 - back
    assert agree(logits_after(model, 80 - back + 1), fresh[80 - back + 1])


@pytest.mark.slow_for("lfm2", "llama4", "deepseek_v3")
def test_a_pinned_place_is_reached_again(network: nn.Module, fresh: Straight) -> None:
    model = CachedModel(network)
    model.feed(SEQUENCE[:40])
    model.pin_mark()
    for n in range(41, 75):
        logits_after(model, n)
    assert model.rewind(41) >= 40
    assert agree(logits_after(model, 42), fresh[42])


def test_a_pinned_place_that_is_needed_outlives_newer_ones() -> None:
    """As in a loop of calls, whose thoughts the next question takes back: the place of the last question stays."""
    model = CachedModel(build("qwen3_next"))
    for place in range(10, 90, 10):
        model.feed(SEQUENCE[model.length : place])
        model.pin_mark([31])
    assert model.rewind(31) >= 30


def test_a_run_of_refusals_does_not_widen_the_pass(network: nn.Module) -> None:
    model = CachedModel(network)
    model.feed(SEQUENCE[:10])
    widest = 0
    for length in range(11, 60):
        _, width = model.continue_from(SEQUENCE[:length], mx.array([0, 1, 2]))
        model.rewind(length)
        widest = max(widest, width)
    assert widest <= REPLAY_LIMIT + 3


def wide_llama() -> nn.Module:
    """A llama with heads wide enough to be quantized."""
    config = {
        "model_type": "llama", "hidden_size": 64, "num_hidden_layers": 2, "intermediate_size": 64,
        "num_attention_heads": 2, "num_key_value_heads": 1, "rms_norm_eps": 1e-5, "vocab_size": 64,
    }  # fmt: skip
    mx.random.seed(0)
    network = llama.Model(llama.ModelArgs.from_dict(config))
    network.update(tree_map(lambda a: mx.random.normal(a.shape) * 0.2 if a.ndim > 1 else a, network.parameters()))
    return network


@pytest.mark.parametrize("bits", [4, 8])
def test_quantized_kv_rewinds_exactly(bits: int) -> None:
    """Quantized from the first token on, so a rewound reply meets the same rounding."""
    network = wide_llama()
    model, straight = CachedModel(network, bits, 32), CachedModel(network, bits, 32)
    assert isinstance(model.cache.entries[0], mlx_lm_imports.QuantizedKVCache)
    model.continue_from(SEQUENCE[:30], mx.array([1, 2, 3, 4]))
    model.rewind(30)
    assert agree(logits_after(model, 31), logits_after(straight, 31))


def test_heads_too_narrow_to_quantize_are_refused_with_the_reason() -> None:
    with pytest.raises(UnsupportedCache, match="4 bits"):
        CachedModel(build("llama"), kv_bits=4)


def test_what_cannot_be_rewound_is_refused_by_name() -> None:
    class Mystery:
        pass

    class Model:
        def make_cache(self) -> list[Mystery]:
            return [Mystery()]

    with pytest.raises(UnsupportedCache, match="Mystery"):
        ModelCache(Model())


def test_pinned_tokens_in_a_rotating_cache_are_refused() -> None:
    with pytest.raises(UnsupportedCache, match="first 4 tokens"):
        SlidingKVCache(16, keep=4)


def test_the_window_shows_what_rotating_shows_and_holds_slack() -> None:
    """Against mlx-lm's own class, one token at a time, over several moves of the buffer."""
    mine, theirs = SlidingKVCache(8), mlx_lm_imports.RotatingKVCache(8)
    for i in range(3 * STEP):
        row = mx.full((1, 1, 1, 1), float(i))
        shown, _ = mine.update_and_fetch(row, row)
        rotated, _ = theirs.update_and_fetch(row, row)
        assert sorted(shown.flatten().tolist()) == sorted(rotated.flatten().tolist()[: i + 1])
        assert mine.keys.shape[2] <= 8 - 1 + SLACK + STEP
        assert mine.least_length <= max(0, i + 1 - SLACK)


@pytest.mark.parametrize("n", [1, 2, 9, 20])
@pytest.mark.parametrize("window", [None, 4, 8])
@pytest.mark.parametrize("seen", [0, 3, 7, 8, 30])
def test_masks_let_each_query_see_its_window(n: int, window: int | None, seen: int) -> None:
    cache = SlidingKVCache(8)
    if seen:
        rows = mx.arange(seen).astype(mx.float32).reshape(1, 1, seen, 1)
        cache.update_and_fetch(rows, rows)
    mask = cache.make_mask(n, window_size=window, return_array=True)
    new = mx.arange(seen, seen + n).astype(mx.float32).reshape(1, 1, n, 1)
    shown = np.array(cache.update_and_fetch(new, new)[0]).flatten()
    if mask is None:
        mask = mx.ones((n, shown.size), mx.bool_)
    allowed = np.broadcast_to(np.array(mask), (n, shown.size))
    for i in range(n):
        position = seen + i
        wanted = [t for t in range(position + 1) if t > position - (window or 8)]
        assert [int(t) for t in shown[allowed[i]]] == wanted


# --- windows, chunks and marks ---

WINDOW = 8


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
