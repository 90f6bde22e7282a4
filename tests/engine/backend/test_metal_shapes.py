"""Shapes that mlx-lm's Metal kernels cannot run are refused there, and the toys on Metal have others. Emulated."""

from __future__ import annotations

import mlx.core as mx
import pytest

from engine import backend
from engine.errors import ModelError
from engine.target.cached_model import CachedModel
from tests.engine.replies import reply
from tests.toys.architectures import ON_METAL, build


@pytest.fixture
def metal(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(backend, "describe", lambda: backend.Backend("gpu", "metal", dequantize=False, detail="M4"))


@pytest.fixture
def small_states(monkeypatch: pytest.MonkeyPatch) -> None:
    """The toys are those of a CPU, on Metal too."""
    monkeypatch.setattr(mx.metal, "is_available", lambda: False)


@pytest.mark.usefixtures("metal", "small_states")
@pytest.mark.parametrize("name", ON_METAL)
def test_states_that_the_kernel_would_cut_off_are_refused_on_metal(name: str) -> None:
    with pytest.raises(ModelError, match=r"its states have (8|16) numbers, .* a multiple of 32"):
        CachedModel(build(name))


@pytest.mark.usefixtures("metal")
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
