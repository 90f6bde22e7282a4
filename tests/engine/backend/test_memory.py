"""What MLX keeps of a GPU's memory. The CPU backend keeps 32 MB at most, so the calls are recorded here."""

import mlx.core as mx
import pytest

from engine import backend
from engine.backend import memory
from engine.errors import ModelError
from engine.target.cached_model import CachedModel
from tests.engine.replies import PROMPT, Scripted, reply
from tests.toys.architectures import ON_METAL, build

CALLS = ("set_cache_limit", "set_wired_limit", "clear_cache")


@pytest.fixture
def calls(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, int | None]]:
    """The calls to MLX's allocator, in order, with their argument."""
    made: list[tuple[str, int | None]] = []
    for name in CALLS:
        monkeypatch.setattr(mx, name, lambda limit=None, name=name: made.append((name, limit)))
    return made


@pytest.fixture
def metal(monkeypatch: pytest.MonkeyPatch) -> int:
    """A Mac whose GPU may use so many bytes."""
    monkeypatch.setattr(memory, "describe", lambda: backend.Backend("gpu", "metal", dequantize=False, detail="M4"))
    monkeypatch.setattr(memory, "wired_bytes", lambda: 12 << 30)
    return 12 << 30


@pytest.fixture
def cpu(monkeypatch: pytest.MonkeyPatch) -> None:
    """A machine that computes on its CPU, as a Mac may be told to."""
    monkeypatch.setattr(memory, "describe", lambda: backend.Backend("cpu", "reference", dequantize=True, detail=""))
    monkeypatch.setattr(memory, "wired_bytes", lambda: None)


def test_on_metal_buffers_are_limited_and_weights_are_wired(calls: list, metal: int) -> None:
    memory.hold_weights()
    assert calls == [("set_cache_limit", memory.CACHE_BYTES), ("set_wired_limit", metal)]


def test_unloading_gives_the_wired_memory_back(calls: list, metal: int) -> None:
    memory.release_weights()
    assert calls == [("clear_cache", None), ("set_wired_limit", 0)]


@pytest.mark.usefixtures("cpu")
def test_on_the_cpu_no_limit_is_set(calls: list) -> None:
    memory.hold_weights()
    memory.release_weights()
    assert calls == [("clear_cache", None)]
    assert memory.kept_bytes() == 0


def test_buffers_are_cleared_every_256_tokens(calls: list) -> None:
    clearance = memory.BufferClearance()
    for _ in range(600 // 3):
        clearance.count(3)
    assert calls == [("clear_cache", None)] * 2


@pytest.mark.slow_for("3")
@pytest.mark.parametrize("length", [0, 3])
def test_a_reply_clears_buffers_as_it_grows(calls: list, length: int) -> None:
    network = build("llama")
    truth = reply(network, tokens=300)[0] if length else []
    calls.clear()
    reply(network, Scripted(len(PROMPT), truth) if length else None, length, tokens=300)
    in_prefill = 1
    assert calls == [("clear_cache", None)] * (in_prefill + 1)


@pytest.mark.slow
@pytest.mark.parametrize("length", [0, 4])
def test_memory_beside_the_cache_is_flat_over_a_long_reply(length: int) -> None:
    """Every 100 of 4,000 tokens: what is in use beside weights, keys and values, freed buffers that MLX keeps, and the
    most that was in use at once. Two layers of the width of an attention head in real models, one with a window."""
    shapes = {"hidden_size": 256, "num_attention_heads": 4, "num_key_value_heads": 4, "head_dim": 64}
    target = CachedModel(build("llama", **shapes))
    beside, kept, peaks = [], [], []

    class Watched(Scripted):
        def rewind(self, length: int, repeats: bool = False) -> None:
            super().rewind(length)
            if length % 100 == 0:
                held = sum(array.nbytes for array in target.cache.arrays())
                beside.append(mx.get_active_memory() - held)
                kept.append(mx.get_cache_memory())
                peaks.append(mx.get_peak_memory() - mx.get_active_memory())
                mx.reset_peak_memory()

    mx.reset_peak_memory()
    reply(target, Watched(len(PROMPT), [1] * 4000), length, tokens=4000)
    largest = max(array.nbytes for array in target.cache.arrays())
    assert len(beside) >= 30
    assert max(beside) - min(beside) < 2**20 and max(kept) <= memory.kept_bytes() + (32 << 20)
    assert max(peaks) < 2 * largest + 2**20  # keys or values are copied as they grow


# --- shapes that Metal's kernels cannot run ---


@pytest.fixture
def on_metal(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(backend, "describe", lambda: backend.Backend("gpu", "metal", dequantize=False, detail="M4"))


@pytest.fixture
def small_states(monkeypatch: pytest.MonkeyPatch) -> None:
    """The toys are those of a CPU, on Metal too."""
    monkeypatch.setattr(mx.metal, "is_available", lambda: False)


@pytest.mark.usefixtures("on_metal", "small_states")
@pytest.mark.parametrize("name", ON_METAL)
def test_states_that_the_kernel_would_cut_off_are_refused_on_metal(name: str) -> None:
    with pytest.raises(ModelError, match=r"its states have (8|16) numbers, .* a multiple of 32"):
        CachedModel(build(name))


@pytest.mark.usefixtures("on_metal")
@pytest.mark.parametrize("name", ["mamba", "llama", "qwen3_next"])
def test_others_are_not(name: str) -> None:
    assert CachedModel(build(name)).vocabulary == 64


@pytest.mark.parametrize("name", ON_METAL)
def test_toys_on_metal_have_states_that_the_kernel_can_run(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(mx.metal, "is_available", lambda: True)
    network = build(name)
    monkeypatch.undo()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(backend, "describe", lambda: backend.Backend("gpu", "metal", dequantize=False, detail="M4"))
        target = CachedModel(network)
    assert len(reply(target, tokens=3)[0]) == 3
