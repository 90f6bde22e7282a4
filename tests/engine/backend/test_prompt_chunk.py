"""How many tokens of a prompt are read in one pass."""

from inspect import signature

import pytest
from mlx_lm.generate import generate_step

from engine import backend


def test_a_gpu_reads_as_many_at_once_as_mlx_lm(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(backend, "queues", lambda: True)
    assert backend.prompt_chunk() == signature(generate_step).parameters["prefill_step_size"].default


def test_the_cpu_reads_fewer(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(backend, "queues", lambda: False)
    assert backend.prompt_chunk() == 512
